"""The interfaces of other libraries, so that programs written for them run with fieldfit after a change of import."""
