"""Matrices too large to hold, by their columns; rows too many, by passes over them."""
