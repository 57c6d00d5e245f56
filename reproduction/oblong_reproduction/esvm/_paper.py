"""The paper."""

from __future__ import annotations

from oblong_reproduction._experiment import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    "esvm",
    "M. Momma, K. Hatano and H. Nakayama, Ellipsoidal Support Vector Machines, ACML 2010",
)
