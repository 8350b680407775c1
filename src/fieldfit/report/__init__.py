"""Plots and pages from plain tables and arrays. Nothing here knows a model, a policy or a planner."""
