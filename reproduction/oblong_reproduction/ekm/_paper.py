"""The paper."""

from __future__ import annotations

from oblong_reproduction._experiment import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    "ekm",
    "P. K. Shivaswamy and T. Jebara, Ellipsoidal Kernel Machines, AISTATS 2007",
)
