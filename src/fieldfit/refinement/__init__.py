"""Refined estimators: a second stage that starts from a composite likelihood estimate and makes it more accurate."""
