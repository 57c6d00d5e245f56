"""Ellipsoidal kernel machines: figures 1 to 3 and table 2."""

from oblong_reproduction.ekm.figures import FIGURE_1, FIGURE_2, FIGURE_3
from oblong_reproduction.ekm.table import TABLE_2

EXPERIMENTS = (FIGURE_1, FIGURE_2, TABLE_2, FIGURE_3)

__all__ = ["EXPERIMENTS"]
