"""Figures without a display, in one style, as SVG that is the same on every run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from oblong.persistence.journal import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#3b4252"
# The palette of oblong.display: Paul Tol's "vibrant" scheme, distinct with every common kind of
# colour blindness; line styles and markers differ as well, for print without colour.
_MODELS = (INK, "#ee3377", "#0077bb", "#009988", "#aa4499", "#997700")
_LINES = ((0, (5, 2.5)), "-", (0, (1, 1.2)), (0, (7, 2, 1, 2)), (0, (3, 1.5)), "-")
_CLASSES = ("#33bbee", "#ee7733", "#009988", "#cc3311", "#bbbbbb", "#aa4499", "#ddcc77")
_MARKERS = "o^sDvPX<>"
_STYLE: Any = {
    "svg.hashsalt": "oblong",
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.8,
}


def model_style(position: int) -> dict[str, Any]:
    """Colour and line style of the model at a position."""
    return {
        "color": _MODELS[position % len(_MODELS)],
        "linestyle": _LINES[position % len(_LINES)],
    }


def class_style(position: int) -> dict[str, Any]:
    """Colour and marker of the class at a position."""
    return {
        "color": _CLASSES[position % len(_CLASSES)],
        "marker": _MARKERS[position % len(_MARKERS)],
    }


def figure(rows: int = 1, columns: int = 1, width: float = 4.0, height: float = 3.2) -> Any:
    """Make a figure and its axes; the sizes are those of one panel, in inches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        page = Figure(figsize=(columns * width, rows * height), layout="constrained")
        axes = page.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return page, axes


def line_across(ax: Axes, w: Any, b: float, **style: Any) -> None:
    """Draw the line ``w · x + b = 0`` through a panel whose limits are set."""
    foot = (-b * w[0] / (w[0] ** 2 + w[1] ** 2), -b * w[1] / (w[0] ** 2 + w[1] ** 2))
    ax.axline(foot, (foot[0] - w[1], foot[1] + w[0]), **style)


def save_figure(page: Figure, path: Path) -> None:
    """Write a figure, whole or not at all."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE), atomic_write(path) as stream:
        page.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
