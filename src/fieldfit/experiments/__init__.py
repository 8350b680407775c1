"""The paper's figures and the demonstration, each a file of its own that `fieldfit reproduce NAME` finds by its name."""
