"""The picture of a stream's report."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from oblong.cli.shared.svg import draw_svg
from oblong.cli.streaming.metrics import Window
from oblong.display._style import model_style


def curve_figure(windows: Sequence[Window]) -> str:
    """Errors along a stream: over each window, and over all rows so far."""

    def draw(ax: Axes) -> None:
        rows = [window.rows for window in windows]
        for position, (label, values) in enumerate(
            {
                "window": [100 * window.error for window in windows],
                "so far": [100 * window.total_error for window in windows],
            }.items()
        ):
            marker = "o" if len(rows) == 1 else None
            color = model_style(position)["color"]
            ax.plot(rows, values, color=color, linewidth=1.6, marker=marker, label=label)
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel("rows")
        ax.set_ylabel("error, %")
        ax.legend(frameon=False)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)

    return draw_svg(draw, (7.4, 3.6), "Errors over each window of rows and over all rows so far.")
