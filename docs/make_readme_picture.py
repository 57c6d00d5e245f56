"""Draw the picture of the README and the first page: scaling columns leaves a stretch across them.

Run it from anywhere; it writes ``docs/_static/stretch-light.svg`` and ``stretch-dark.svg``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier
from oblong.datasets import make_parallel_lines

STRETCHES = (1, 3, 10)
OFFSET, GAP = 0.1, 0.5
# The lines run along the diagonal, across both features.
TURN = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2.0)
# Ink, SVM, relative margin, and the two classes; on a transparent ground.
THEMES = {
    "light": ("#3b4252", "#6b7280", "#d6246e", "#1f87b8", "#d9641e"),
    "dark": ("#d8dee9", "#aab2bf", "#ff6fa8", "#5cc4f0", "#f59d5c"),
}


def lines(stretch: float) -> tuple[np.ndarray, np.ndarray]:
    """Points of two parallel lines on all of their length, and their classes."""
    along = np.linspace(-1.1, 1.1, 2001) * stretch
    points = [np.column_stack([along, np.full_like(along, h)]) for h in (-GAP, GAP)]
    return np.concatenate(points) @ TURN, np.repeat([0, 1], along.size)


def boundary(model: ClassifierMixin, reach: float) -> np.ndarray:
    """Two ends of a linear boundary."""
    w, b = model.coef_[0], model.intercept_[0]
    foot, along = -b * w / (w @ w), np.array([-w[1], w[0]]) / np.linalg.norm(w)
    return foot + np.outer([-reach, reach], along)


def draw(theme: str) -> None:
    """Draw the three panels in the colours of one theme."""
    ink, svm_color, rmm_color, *class_colors = THEMES[theme]
    plt.rcParams.update(
        {
            "text.color": ink,
            "axes.edgecolor": ink,
            "axes.labelcolor": ink,
            "font.size": 11,
            "svg.hashsalt": "oblong",
            "svg.fonttype": "path",
        }
    )
    models = {
        "support vector machine": (SVC(kernel="linear", C=1000), svm_color, (0, (5, 2))),
        "relative margin machine": (
            RelativeMarginClassifier(kernel="linear", C=1000, spread=0),
            rmm_color,
            "-",
        ),
    }
    fig, axes = plt.subplots(1, 3, figsize=(10, 4.25), layout="constrained")
    for ax, stretch in zip(axes, STRETCHES):
        X, y = make_parallel_lines(60, gap=GAP, offset=OFFSET, stretch=stretch, random_state=0)
        new, truth = lines(stretch)
        scaler = StandardScaler().fit(X @ TURN)
        Z, N = scaler.transform(X @ TURN), scaler.transform(new)
        for k, marker in enumerate("o^"):
            ax.plot(*N[truth == k].T, color=class_colors[k], linewidth=1, alpha=0.45)
            ax.plot(*Z[y == k].T, marker, color=class_colors[k], markersize=5)
        errors = []
        for model, color, style in models.values():
            fitted = make_pipeline(StandardScaler(), model).fit(X @ TURN, y)
            errors.append(f"{np.mean(fitted.predict(new) != truth):.0%}")
            ends = boundary(fitted[-1], reach=4.0)
            ax.plot(*ends.T, color=color, linestyle=style, linewidth=2.2)
        ax.set(xlim=(-2.2, 2.2), ylim=(-2.2, 2.2), xticks=[], yticks=[], aspect="equal")
        ax.set_title("as measured" if stretch == 1 else f"stretched {stretch} times")
        ax.set_xlabel(f"errors on new points: {errors[0]} and {errors[1]}")
        ax.spines[["top", "right"]].set_visible(False)
    handles = [
        *(plt.Line2D([], [], color=c, linestyle=s, linewidth=2.2) for _, c, s in models.values()),
        *(
            plt.Line2D([], [], color=color, marker=marker, linestyle="none")
            for color, marker in zip(class_colors, "o^")
        ),
    ]
    names = [*models, "one class", "the other"]
    fig.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    path = Path(__file__).parent / "_static" / f"stretch-{theme}.svg"
    fig.savefig(path, transparent=True, bbox_inches="tight", metadata={"Date": None})
    plt.close(fig)


if __name__ == "__main__":
    for name in THEMES:
        draw(name)
