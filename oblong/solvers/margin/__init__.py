"""Margin problems over a kernel matrix."""
