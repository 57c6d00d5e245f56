"""Pictures as SVG elements that go into an HTML page."""

import io
import re
import warnings
from collections.abc import Callable
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from oblong.display._style import INK

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "oblong",
    # Names of columns and classes may hold dollar signs.
    "text.parse_math": False,
    "font.family": ["sans-serif"],
    "font.size": 10.5,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.linewidth": 0.8,
}


def draw_svg(draw: Callable[[Axes], object], size: tuple[float, float], title: str) -> str:
    """Draw a figure and return it as an SVG element that takes the page's font and colour."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings(action="ignore"):
        # The reader's fonts count, not those matplotlib lacks a glyph in.
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Names such as "axes_1" repeat from picture to picture and nothing refers to them.
    text = re.sub(r' id="[A-Za-z]+[0-9]*_[0-9]+"', "", text)
    text = re.sub(r"font: ([0-9.]+px) [^;\"]*", r"font-size: \1", text)
    text = text.replace(INK, "currentColor")
    width, height = (f"{72 * s:.0f}" for s in size)
    opening = (
        f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 {width} {height}" '
        f'role="img"><title>{escape(title)}</title>'
    )
    return re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1)
