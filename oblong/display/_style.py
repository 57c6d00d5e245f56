"""Colours, line styles and markers shared by the displays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    # The displays can be imported without matplotlib.
    Axes = Any

INK = "#3b4252"

# Paul Tol's "vibrant" scheme, which stays distinct with every common kind of colour blindness.
# Models and classes take their colours from different ends of it, since they share a picture,
# and each also differs in line style or marker, for print without colour.
_MODEL_COLORS = (INK, "#ee3377", "#0077bb", "#009988", "#aa4499", "#997700")
_MODEL_LINES = ((0, (5, 2.5)), "-", (0, (1, 1.2)), (0, (7, 2, 1, 2)), (0, (3, 1.5)), "-")
_CLASS_COLORS = ("#33bbee", "#ee7733", "#009988", "#cc3311", "#bbbbbb", "#aa4499", "#ddcc77")
_CLASS_MARKERS = "o^sDvPX<>"


def require_pyplot() -> ModuleType:
    """Import matplotlib, or say how to get it."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('the displays need matplotlib: pip install "oblong[plot]"') from None
    return pyplot


class Display:
    """Base of the displays: the axes that they draw on."""

    ax_: Axes
    figure_: Any

    def _axes(self, ax: Axes | None, width: float, height: float) -> Axes:
        """The given axes, or those of a new figure."""
        if ax is None:
            return require_pyplot().subplots(figsize=(width, height), layout="constrained")[1]
        return ax

    def _drawn(self, ax: Axes, hidden: Sequence[str] = ("top", "right")) -> Self:
        """Hide sides of the frame, and keep the axes."""
        for side in hidden:
            ax.spines[side].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def model_style(position: int) -> dict[str, Any]:
    """Colour and line style of the model at a position."""
    return {
        "color": _MODEL_COLORS[position % len(_MODEL_COLORS)],
        "linestyle": _MODEL_LINES[position % len(_MODEL_LINES)],
    }


def class_style(position: int) -> dict[str, Any]:
    """Colour and marker of the class at a position."""
    return {
        "color": _CLASS_COLORS[position % len(_CLASS_COLORS)],
        "marker": _CLASS_MARKERS[position % len(_CLASS_MARKERS)],
    }


def as_mapping(estimators: object) -> dict[str, object]:
    """Name the estimators: a mapping is kept, a single one gets its class's name."""
    if isinstance(estimators, Mapping):
        if not estimators:
            raise ValueError("expected at least one fitted classifier, got an empty mapping")
        return dict(estimators)
    return {type(split_steps(estimators)[1]).__name__: estimators}


def split_steps(estimator: Any) -> tuple[Any, Any]:
    """The steps of a pipeline before the last, None if there are none; and the last one."""
    steps = getattr(estimator, "steps", None)
    before = estimator[:-1] if steps and len(steps) > 1 else None
    return before, steps[-1][1] if steps else estimator
