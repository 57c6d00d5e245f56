"""The Gaussian over weight vectors after fifty rounds (figure 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from oblong import ConfidenceWeightedClassifier
from oblong.datasets import make_rotated_stripe
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Experiment, Results
from oblong_reproduction._figure import INK, class_style, figure
from oblong_reproduction._papers import CW
from oblong_reproduction._verdict import Row, claim, statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROUNDS = 50
_CONFIDENCE = 0.9
_SEPARATOR = np.array([-1.0, 1.0]) / np.sqrt(2.0)


def _cell(sets: Sets, rng: np.random.Generator, *, draw: int) -> dict:
    """Ellipses of the ten pairs of weights after fifty rounds."""
    seed = int(rng.integers(2**31))
    X, y = make_rotated_stripe(1000, random_state=seed)
    model = ConfidenceWeightedClassifier(confidence=_CONFIDENCE, fit_intercept=False)
    model.partial_fit(X[:_ROUNDS], y[:_ROUNDS], classes=[0, 1])
    # The scale of the Gaussian is that of the initial variance, and means nothing.
    mean = model.coef_[0].reshape(10, 2)
    blocks = [model.covariance_[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] for i in range(10)]
    values, vectors = np.linalg.eigh(np.array(blocks))
    axes = np.sqrt(values)
    cosine = abs(float(vectors[0, :, 1] @ _SEPARATOR))
    result: dict[str, Any] = {
        "angle": float(np.degrees(np.arccos(min(cosine, 1.0)))),
        "ratio": float(axes[0, 1] / axes[0, 0]),
        "noise_ratio": float(np.mean(axes[1:, 1] / axes[1:, 0])),
        "short": float(axes[0, 0]),
        "noise_short": float(axes[1:, 0].mean()),
        "centre": float(np.linalg.norm(mean[0])),
        "noise_centre": float(np.linalg.norm(mean[1:], axis=1).mean()),
        "noise_beyond": float(
            np.mean(
                np.einsum("ki,kij,kj->k", mean[1:], np.linalg.inv(np.array(blocks[1:])), mean[1:])
                > 4.0
            )
        ),
    }
    if draw == 0:
        result |= {
            "points": X[:500, :2].round(4),
            "labels": y[:500],
            "mean": mean.round(5),
            "blocks": np.array(blocks).round(7),
        }
    return result


def _cells(quick: bool) -> list[Cell]:
    return [Cell(f"draw-{i}", _cell, {"draw": i}) for i in range(20 if quick else 200)]


def _rows(results: Results) -> Iterator[Row]:
    angle = results["angle"]
    yield statement(
        "angle between the long axis of the informative pair and the true weights",
        "parallel, one draw shown",
        f"median {np.median(angle):.0f}° (nine tenths below {np.quantile(angle, 0.9):.0f}°)",
        bool(np.median(angle) <= 15.0),
        "15° or less in half of the draws; by chance it would be 45°",
    )
    yield claim(
        "short axis of the informative pair below that of pairs of noise",
        "very small: little freedom in that direction",
        results["short"],
        results["noise_short"],
    )
    yield claim(
        "ratio of the axes: pairs of noise below the informative pair",
        "close to circular",
        results["noise_ratio"],
        results["ratio"],
    )
    yield claim(
        "distance of the centre from the origin: pairs of noise below the informative pair",
        "close to the origin",
        results["noise_centre"],
        results["centre"],
    )
    beyond = float(results["noise_beyond"].mean())
    yield statement(
        "pairs of noise whose ellipse of two deviations does not reach the origin",
        "near zero but without much confidence",
        f"{100.0 * beyond:.1f} %",
        beyond <= 0.05,
        "at most 5 % of the pairs",
    )


def _draw(results: Results) -> Figure | None:
    found = results.having("blocks")
    if not found:
        return None
    cell = found[0]
    page, axes = figure(1, 2, width=4.0, height=3.8)
    points, labels = np.array(cell["points"]), np.array(cell["labels"])
    for label in (0, 1):
        axes[0, 0].scatter(*points[labels == label].T, s=8, **class_style(label))
    axes[0, 0].set(title="the two features that matter", aspect="equal")
    turn = np.linspace(0.0, 2.0 * np.pi, 100)
    circle = np.array([np.cos(turn), np.sin(turn)])
    ax = axes[0, 1]
    for i, (mean, block) in enumerate(zip(cell["mean"], cell["blocks"])):
        outline = np.array(mean)[:, None] + np.linalg.cholesky(np.array(block)) @ circle
        style = {"color": INK, "linewidth": 1.6} if i == 0 else {"color": "C1", "linewidth": 0.7}
        ax.plot(*outline, **style)
    reach = 2.0 * max(float(np.linalg.norm(cell["mean"][0])), 0.5)
    ax.plot(*np.outer(_SEPARATOR, [0.0, reach]), color=INK, linestyle=":")
    ax.set(title=f"weights after {_ROUNDS} rounds", aspect="equal")
    return page


FIGURE_3 = Experiment(
    name="cw-fig3",
    paper=CW,
    title="the Gaussian over weight vectors of CW-Stdev-full after fifty rounds",
    cells=_cells,
    rows=_rows,
    draw=_draw,
    minutes=0.2,
    protocol=(
        "The stripe of figure 2 (length 2, width 1, noise of variance 2), confidence 0.9, 50 "
        "rounds. The paper shows one draw; here its statements are tested on 200, and the first "
        "is drawn: the true weights dotted, the informative pair thick."
    ),
    quick="20 draws instead of 200",
)
