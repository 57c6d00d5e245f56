"""Margin problems in the features themselves."""
