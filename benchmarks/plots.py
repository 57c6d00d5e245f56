"""Draw the stored results: one SVG for each chart and theme, in ``docs/_static``.

Run it after a benchmark has been stored; nothing is measured here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

RESULTS = Path(__file__).parent / "results"
STATIC = Path(__file__).parents[1] / "docs" / "_static"
# Ink, then oblong, its second and third model, and the peers.
THEMES = {
    "light": ("#3b4252", "#d6246e", "#a3195b", "#f07aa9", "#6b7280", "#1f87b8", "#d9641e"),
    "dark": ("#d8dee9", "#ff6fa8", "#ff9cc4", "#c94f85", "#aab2bf", "#5cc4f0", "#f59d5c"),
}
FOURTH_PEER = {"light": "#4d8b3a", "dark": "#8fce7a"}
Colors = dict[str, str]
Bars = list[tuple[str, dict[str, float]]]


def rows(name: str) -> list[dict[str, Any]]:
    """Rows of a stored table."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def size(row: dict[str, Any]) -> str:
    """Rows and columns of a problem, such as 10,000 × 50."""
    return " × ".join(f"{int(number):,}" for number in row["rows x columns"].split(" x "))


def bars(ax: Axes, cases: Bars, colors: Colors, label: str) -> None:
    """Draw groups of horizontal bars on a logarithmic axis, with their values."""
    methods = list(dict.fromkeys(method for _, values in cases for method in values))
    place, ticks = 0.0, []
    for case, values in cases:
        first = place
        for method in methods:
            if method in values:
                ax.barh(place, values[method], height=0.86, color=colors[method])
                value = values[method]
                text = f" {value:,.0f}" if value >= 100 else f" {value:.2g}"
                ax.annotate(text, (value, place), va="center", fontsize=8)
                place -= 1.0
        ticks.append(((first + place + 1.0) / 2.0, case))
        place -= 0.7
    ax.set_yticks(*zip(*ticks))
    ax.tick_params(axis="y", length=0)
    ax.set(xscale="log", xlabel=label)
    ax.margins(x=0.1, y=0.02)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colors[method]) for method in methods]
    ax.legend(
        handles, methods, frameon=False, loc="upper center", ncols=5, bbox_to_anchor=(0.45, 1.14)
    )


def curves(
    ax: Axes, lines: dict[str, list[tuple[float, float]]], colors: Colors, labels: tuple
) -> None:
    """Draw curves on logarithmic axes, each with its name at its end."""
    ends = {name: max(points) for name, points in lines.items()}
    values = [y for points in lines.values() for _, y in points]
    apart, low = (max(values) / min(values)) ** 0.055, 0.0
    for name, (end, last) in sorted(ends.items(), key=lambda item: item[1][1]):
        ax.plot(*zip(*sorted(lines[name])), marker="o", color=colors[name], linewidth=2)
        # Names are no closer than their height.
        low = max(last, low * apart)
        ax.annotate(f"  {name}", (end, low), color=colors[name], va="center")
    ax.set(xscale="log", yscale="log", xlabel=labels[0], ylabel=labels[1])
    ticks = sorted({x for points in lines.values() for x, _ in points})
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
    ax.margins(x=0.14)


def speed(ax: Axes, colors: Colors) -> None:
    """Seconds of a fit, for the first page."""
    cases: Bars = []
    for row in rows("svm_against_peers"):
        if row["threads"] == 2 and row["kernel"] == "rbf":
            values = {
                m: row[f"{m} (s)"] for m in ("oblong", "SVC", "intelex") if row.get(f"{m} (s)")
            }
            cases.append((f"{row['data']}\n{size(row)}", values))
    for row in rows("linear_against_peers"):
        if row["type"] == "float64" and "covtype" in row["data"]:
            names = {"oblong": "oblong SVM", "ReHLine": "ReHLine", "LIBLINEAR": "LinearSVC"}
            values = {m: row[f"{n} (s)"] for m, n in names.items() if row.get(f"{n} (s)")}
            cores = ", one core" if row["threads"] == 1 else ""
            cases.append((f"covtype, linear{cores}\n{size(row)}", values))
    bars(ax, cases, colors, "seconds of a fit to equal accuracy, two cores (logarithmic)")


def growth(ax: Axes, colors: Colors) -> None:
    """Seconds against the number of rows."""
    names = {"SVM": "oblong", "RMM B1": "spread 1/2", "RMM B3": "spread 1/10"}
    lines: dict[str, list] = {}
    for row in rows("kernel_growth"):
        if row["threads"] == 2 and row["model"] in (*names, "SVC", "intelex"):
            lines.setdefault(names.get(row["model"], row["model"]), []).append(
                (row["rows"], row["seconds"])
            )
    curves(ax, lines, colors, ("rows", "seconds of a fit, two cores"))


def columns(ax: Axes, colors: Colors) -> None:
    """Processor seconds against the number of columns."""
    names = ("oblong", "spread 1/2", "SVC", "intelex")
    lines = {
        name: [
            (row["columns"], row[f"{name} (s)"])
            for row in rows("column_growth")
            if row.get(f"{name} (s)")
        ]
        for name in names
    }
    lines = {name: points for name, points in lines.items() if points}
    curves(ax, lines, colors, ("columns", "processor seconds of a fit, one core"))


def online(ax: Axes, colors: Colors) -> None:
    """Rows learned in a second."""
    cases: dict[str, dict[str, float]] = {}
    names = {
        "oblong AROW": "oblong",
        "oblong AROW, diag": "oblong",
        "Vowpal Wabbit, cache": "Vowpal Wabbit",
    }
    for row in rows("online_against_peers"):
        method = names.get(row["method"], row["method"])
        if (
            row["threads"] == 1
            and row.get("µs per row")
            and method in colors
            and "first" not in row["data"]
        ):
            words = row["data"].replace(" x ", " × ")
            cases.setdefault(f"{words}\n{row['type']}", {})[method] = 1e6 / row["µs per row"]
    bars(
        ax,
        [c for c in cases.items() if len(c[1]) > 1],
        colors,
        "rows per second, one core (logarithmic)",
    )


def ellipsoid(ax: Axes, colors: Colors) -> None:
    """Seconds of the smallest ellipsoid."""
    names = {
        "cvxpy, Clarabel": "Clarabel",
        "Khachiyan in NumPy": "Khachiyan",
        "R cluster::ellipsoidhull": "R",
    }
    cases: dict[str, dict[str, float]] = {}
    for row in rows("ellipsoid_against_peers"):
        if row["threads"] == 1:
            case = cases.setdefault(f"{row['data'].split(',')[0]}\n{size(row)}", {})
            case["oblong"] = row["oblong (s)"]
            if row.get("peer") in names:
                case[names[row["peer"]]] = row["peer (s)"]
    bars(ax, list(cases.items()), colors, "seconds, one core (logarithmic)")


def many_classes(ax: Axes, colors: Colors) -> None:
    """Seconds of a fit with many classes."""
    cases: Bars = []
    for row in rows("many_classes"):
        if row["threads"] == 1:
            own = row["SVM (ms)"] / 1000.0
            ratios = {"spread 1/2": row["spread 0.5 / SVM"], "SVC": row["SVC / SVM"]}
            values = {"oblong": own} | {name: own * ratio for name, ratio in ratios.items()}
            cases.append((f"{row['data']}\n{row['rows']:,} rows, {row['classes']} classes", values))
    bars(ax, cases, colors, "processor seconds of a fit, one core (logarithmic)")


CHARTS: dict[str, tuple[Callable[[Axes, Colors], None], tuple[float, float], str]] = {
    "speed": (speed, (8, 4.6), "svm_against_peers"),
    "growth": (growth, (7, 4.2), "kernel_growth"),
    "columns": (columns, (7, 4.2), "column_growth"),
    "classes": (many_classes, (8, 5.0), "many_classes"),
    "online": (online, (8, 3.6), "online_against_peers"),
    "ellipsoid": (ellipsoid, (8, 4.6), "ellipsoid_against_peers"),
}


def draw(themes: Iterable[str] = THEMES) -> None:
    """Draw every chart whose table is stored."""
    for theme in themes:
        ink, own, second, third, *peers = THEMES[theme]
        colors = {"oblong": own, "spread 1/2": second, "spread 1/10": third}
        for k, names in enumerate(
            (("SVC", "SGDClassifier", "Clarabel"), ("intelex", "R"), ("LIBLINEAR",))
        ):
            colors |= dict.fromkeys(names, peers[k])
        colors["ReHLine"] = FOURTH_PEER[theme]
        colors |= {"lightning SGD": peers[1], "Vowpal Wabbit": peers[2], "Khachiyan": peers[2]}
        style: Any = dict.fromkeys(
            ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), ink
        )
        style |= {"axes.edgecolor": ink, "font.size": 10, "svg.hashsalt": "oblong"}
        for name, (chart, size, table) in CHARTS.items():
            if not (RESULTS / f"{table}.json").is_file():
                continue
            with plt.rc_context({**style, "svg.fonttype": "path"}):
                fig, ax = plt.subplots(figsize=size, layout="constrained")
                ax.spines[["top", "right"]].set_visible(False)
                chart(ax, colors)
                path = STATIC / f"{name}-{theme}.svg"
                fig.savefig(path, transparent=True, bbox_inches="tight", metadata={"Date": None})
                plt.close(fig)


if __name__ == "__main__":
    draw()
