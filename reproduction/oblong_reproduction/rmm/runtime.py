"""Run time as the number of rows grows (figure 10)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from oblong import RelativeMarginClassifier
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Experiment, Results
from oblong_reproduction._figure import figure, model_style
from oblong_reproduction._papers import RMM
from oblong_reproduction._verdict import Row, after_the_fact, equivalent
from oblong_reproduction.rmm._pairs import unit_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZES = (500, 1000, 2000, 4000, 8000)
_SHARES = {"B1": 2.0, "B2": 4.0, "B3": 10.0}


def _cell(sets: Sets, rng: np.random.Generator, *, n: int, repetition: int) -> dict:
    """Seconds of the SVM and of three bounds, on one random sample."""
    data = sets.load("mnist")
    rows = rng.permutation(len(data.y))[:n]
    X, y = unit_rows(data.X[rows]), (data.y[rows] > 4).astype(int)
    # The paper's tolerance of 0.001 is on both sides of the bias.
    common: dict[str, Any] = {
        "C": 1.0,
        "kernel": "poly",
        "degree": 5,
        "gamma": 0.5,
        "coef0": 0.5,
        "tol": 2e-3,
        "cache_size": 2000,
    }

    def timed(bound: dict) -> tuple[RelativeMarginClassifier, float]:
        start = time.perf_counter()
        model = RelativeMarginClassifier(**common, **bound).fit(X, y)
        return model, time.perf_counter() - start

    # Compile and load everything before the clock runs.
    RelativeMarginClassifier(**common, B=2.0).fit(X[:200], y[:200])
    svm, seconds = timed({"spread": 1.0})
    theta = float(svm.theta_[0])
    result = {"svm": seconds, "theta": theta, "svm_steps": int(svm.n_iter_[0])}
    for name, share in _SHARES.items():
        model, result[name] = timed({"B": 1.0 + (theta - 1.0) / share})
        result[f"{name}_steps"] = int(model.n_iter_[0])
    return result


def _cells(quick: bool) -> list[Cell]:
    sizes = (250, 500, 1000) if quick else _SIZES
    return [
        Cell(f"n-{n}/{i}", _cell, {"n": n, "repetition": i}, data=("mnist",))
        for n in sizes
        for i in range(2 if quick else 5)
    ]


def _slope(results: Results, name: str) -> float:
    """Exponent of the growth of the mean time with the number of rows."""
    sizes = sorted({cell["n"] for cell in results})
    means = [results.where(n=n)[name].mean() for n in sizes]
    return float(np.polyfit(np.log(sizes), np.log(means), 1)[0])


def _rows(results: Results) -> Iterator[Row]:
    if len({cell["n"] for cell in results}) < 2:
        return
    repetitions = [results.where(repetition=i) for i in sorted({c["repetition"] for c in results})]
    slopes = {
        name: [_slope(found, name) for found in repetitions if len(found) > 1]
        for name in ("svm", *_SHARES)
    }
    smallest, largest = (find(cell["n"] for cell in results) for find in (min, max))
    at = results.where(n=largest)
    # A factor of two between the two ends of the curve.
    margin = float(np.log(2.0) / np.log(largest / smallest))
    for name in _SHARES:
        gaps = np.subtract(slopes[name], slopes["svm"])
        ours = (
            f"n^{np.mean(slopes[name]):.2f}, SVM n^{np.mean(slopes['svm']):.2f}; "
            f"{at[name].mean():.2g} s against {at['svm'].mean():.2g} s at n = {largest}"
        )
        yield after_the_fact(
            equivalent(
                f"run time of {name} grows like that of the SVM",
                "similar asymptotic behaviour, log-log plot",
                ours,
                gaps,
                margin=margin,
                basis=f"a factor of two from n = {smallest} to {largest}",
            )
        )


def _draw(results: Results) -> Figure:
    page, axes = figure(width=5.0, height=3.4)
    ax = axes[0, 0]
    sizes = sorted({cell["n"] for cell in results})
    for position, name in enumerate(("svm", *_SHARES)):
        means = [results.where(n=n)[name].mean() for n in sizes]
        title = "SVM" if name == "svm" else f"RMM, {name}"
        ax.plot(sizes, means, marker="o", label=title, **model_style(position))
    ax.set(xscale="log", yscale="log", xlabel="training rows", ylabel="seconds")
    ax.legend(frameon=False)
    return page


FIGURE_10 = Experiment(
    name="rmm-fig10",
    paper=RMM,
    title="run time of SVM and RMM as the number of rows grows",
    cells=_cells,
    rows=_rows,
    draw=_draw,
    alone=True,
    minutes=12,
    data=("mnist",),
    protocol=(
        "MNIST 0-4 against 5-9, degree 5, C = 1, tolerance as in the paper, one thread; θ from the "
        "SVM, then B₁ = 1 + (θ − 1)/2, B₂ with 4 and B₃ with 10 in the place of 2. 500 to 8,000 "
        "rows, 5 repetitions (10 in the paper). Times differ from run to run."
    ),
    quick="250 to 1,000 rows, 2 repetitions",
)
