"""Online learning by the ellipsoid method: figures 1 and 2."""

from oblong_reproduction.iellip.comparison import FIGURE_1
from oblong_reproduction.iellip.memory import FIGURE_2

EXPERIMENTS = (FIGURE_1, FIGURE_2)

__all__ = ["EXPERIMENTS"]
