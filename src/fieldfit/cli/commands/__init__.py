"""The commands, one file each. A file here has ``register(app)`` and is found by its being here."""
