"""Matrices too large to hold, by the columns that are needed; rows too many, by passes over them."""

from oblong.linalg.columns import ExplicitColumns, KernelColumns, SymmetricColumns

__all__ = ["ExplicitColumns", "KernelColumns", "SymmetricColumns"]
