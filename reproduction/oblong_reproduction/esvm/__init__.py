"""Ellipsoidal support vector machines: tables 1 and 2, figure 1 and section 5.4."""

from oblong_reproduction.esvm.hard import FIGURE_1
from oblong_reproduction.esvm.large import ONLINE
from oblong_reproduction.esvm.relaxation import TABLE_1
from oblong_reproduction.esvm.soft import TABLE_2, TABLE_2_FULL
from oblong_reproduction.esvm.timing import FIGURE_1_TIME
from oblong_reproduction.esvm.widths import FIGURE_1_WIDTHS

EXPERIMENTS = (
    TABLE_1,
    FIGURE_1,
    FIGURE_1_WIDTHS,
    FIGURE_1_TIME,
    TABLE_2,
    TABLE_2_FULL,
    ONLINE,
)

__all__ = ["EXPERIMENTS"]
