"""Pictures of classifiers, in the manner of scikit-learn's displays."""

from oblong.display.boundary import BoundaryDisplay
from oblong.display.margin import MarginDisplay

__all__ = ["BoundaryDisplay", "MarginDisplay"]
