"""The paper."""

from __future__ import annotations

from oblong_reproduction._experiment import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    "cw",
    "K. Crammer, M. Dredze and F. Pereira, Exact Convex Confidence-Weighted Learning, NIPS 2008",
)
