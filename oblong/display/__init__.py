"""Pictures of classifiers, in the manner of scikit-learn's displays."""

from oblong.display.ellipsoid import EllipsoidDisplay
from oblong.display.margin import MarginDisplay
from oblong.display.path import PathDisplay
from oblong.display.regret import RegretDisplay
from oblong.display.set_size import SetSizeDisplay

__all__ = [
    "EllipsoidDisplay",
    "MarginDisplay",
    "PathDisplay",
    "RegretDisplay",
    "SetSizeDisplay",
]
