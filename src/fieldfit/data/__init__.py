"""Data: tables, sequences, features, files and the catalogue of data sets."""
