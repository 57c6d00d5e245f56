"""Exact confidence-weighted learning: figures 2 to 4."""

from oblong_reproduction.cw.loss import FIGURE_4
from oblong_reproduction.cw.stripes import FIGURE_2_STRIPES
from oblong_reproduction.cw.synthetic import FIGURE_2
from oblong_reproduction.cw.text import FIGURE_2C
from oblong_reproduction.cw.weights import FIGURE_3

EXPERIMENTS = (FIGURE_2, FIGURE_2_STRIPES, FIGURE_2C, FIGURE_3, FIGURE_4)

__all__ = ["EXPERIMENTS"]
