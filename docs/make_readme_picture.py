"""Draw the picture of the README and the first page: the SVM turns as data is stretched.

Run it from anywhere; it writes ``docs/_static/stretch-light.svg`` and ``stretch-dark.svg``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier
from oblong.datasets import make_parallel_lines

STRETCHES = (1, 3, 10)
OFFSET, GAP = 0.1, 0.5
# Ink, SVM, relative margin, and the two classes; on a transparent ground.
THEMES = {
    "light": ("#3b4252", "#6b7280", "#d6246e", "#1f87b8", "#d9641e"),
    "dark": ("#d8dee9", "#aab2bf", "#ff6fa8", "#5cc4f0", "#f59d5c"),
}


def boundary(model: ClassifierMixin, height: np.ndarray) -> np.ndarray:
    """Horizontal position of a linear boundary at each height."""
    across, up = model.coef_[0]
    return -(up * height + model.intercept_[0]) / across


def draw(theme: str) -> None:
    """Draw the three panels in the colours of one theme."""
    ink, svm_color, rmm_color, *class_colors = THEMES[theme]
    plt.rcParams.update(
        {
            "text.color": ink,
            "axes.edgecolor": ink,
            "xtick.color": ink,
            "font.size": 11,
            "svg.hashsalt": "oblong",
            "svg.fonttype": "path",
        }
    )
    fig, axes = plt.subplots(1, 3, figsize=(10, 2.7), sharey=True, layout="constrained")
    for ax, stretch in zip(axes, STRETCHES):
        X, y = make_parallel_lines(60, gap=GAP, offset=OFFSET, stretch=stretch, random_state=0)
        svm = SVC(kernel="linear", C=1000).fit(X, y)
        rmm = RelativeMarginClassifier(kernel="linear", C=1000, spread=0).fit(X, y)
        width, height = 1.15 * stretch, 1.7 * GAP
        for sign, color, marker in zip((-1, 1), class_colors, "o^"):
            ax.axhline(sign * GAP, color=color, linewidth=1, alpha=0.45)
            points = X[y == (sign > 0)]
            ax.plot(*points.T, marker, color=color, markersize=5, linestyle="none")
        ends = np.array([-height, height])
        ax.plot(boundary(svm, ends), ends, color=svm_color, linestyle=(0, (5, 2)), linewidth=2.2)
        along = np.array([-width, width])
        across, up = rmm.coef_[0]
        level = -(across * along + rmm.intercept_[0]) / up
        ax.plot(along, level, color=rmm_color, linewidth=2.2)
        ax.set(xlim=(-width, width), ylim=(-height, height), yticks=[])
        ax.set_xticks([-stretch, 0, stretch])
        ax.set_title("as measured" if stretch == 1 else f"stretched {stretch} times")
        ax.spines[["top", "left", "right"]].set_visible(False)
    handles = [
        plt.Line2D([], [], color=svm_color, linestyle=(0, (5, 2)), linewidth=2.2),
        plt.Line2D([], [], color=rmm_color, linewidth=2.2),
        *(
            plt.Line2D([], [], color=color, marker=marker, linestyle="none")
            for color, marker in zip(class_colors, "o^")
        ),
    ]
    names = ["support vector machine", "relative margin machine", "one class", "the other"]
    fig.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    path = Path(__file__).parent / "_static" / f"stretch-{theme}.svg"
    fig.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(fig)


if __name__ == "__main__":
    for name in THEMES:
        draw(name)
