"""Pictures of classifiers, in the manner of scikit-learn's displays."""

from oblong.display.boundary import BoundaryDisplay
from oblong.display.ellipsoid import EllipsoidDisplay
from oblong.display.margin import MarginDisplay
from oblong.display.path import PathDisplay
from oblong.display.regret import RegretDisplay
from oblong.display.reliability import ReliabilityDisplay
from oblong.display.set_size import SetSizeDisplay

__all__ = [
    "BoundaryDisplay",
    "EllipsoidDisplay",
    "MarginDisplay",
    "PathDisplay",
    "RegretDisplay",
    "ReliabilityDisplay",
    "SetSizeDisplay",
]
