"""The public functions, which combine all other layers."""
