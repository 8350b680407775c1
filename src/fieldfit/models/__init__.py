"""Models: exponential families over discrete variables, and their compiled problems."""
