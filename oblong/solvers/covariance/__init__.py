"""Classifiers in a metric that the data give."""
