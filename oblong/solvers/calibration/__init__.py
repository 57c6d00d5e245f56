"""Probabilities and prediction sets from cross-fitted outputs."""
