"""The paper."""

from __future__ import annotations

from oblong_reproduction._experiment import Paper

__all__ = ["PAPER"]

PAPER = Paper("iellip", "L. Yang, R. Jin and J. Ye, Online Learning by Ellipsoid Method, ICML 2009")
