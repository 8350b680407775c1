"""Plots and pages from plain tables and arrays, without models, policies or plans."""
