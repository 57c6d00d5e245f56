"""Matrices that are too large to hold, seen through the columns that are needed."""

from oblong.linalg.columns import ExplicitColumns, KernelColumns, SymmetricColumns

__all__ = ["ExplicitColumns", "KernelColumns", "SymmetricColumns"]
