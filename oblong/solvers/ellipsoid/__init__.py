"""Ellipsoids and balls of least volume."""
