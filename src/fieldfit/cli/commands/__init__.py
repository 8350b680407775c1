"""The commands, one file each. A file here has ``register(app)`` and is discovered automatically."""
