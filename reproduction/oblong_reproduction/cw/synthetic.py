"""Mistakes and test errors of seven learners on a stripe among noise (figure 2, a and b)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from oblong import (
    ConfidenceWeightedClassifier,
    PassiveAggressiveClassifier,
    SecondOrderPerceptron,
)
from oblong.datasets import make_rotated_stripe
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results
from oblong_reproduction._figure import figure
from oblong_reproduction._papers import CW
from oblong_reproduction._verdict import Row, claim, not_run, statement, value_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {
    "perceptron": "perceptron",
    "pa": "PA",
    "sop": "SOP",
    "var-diag": "CW-Var-diag",
    "stdev-diag": "CW-Stdev-diag",
    "var-full": "CW-Var-full",
    "stdev-full": "CW-Stdev-full",
}
_FIRST = ("perceptron", "pa")
_SECOND = ("sop", "var-diag", "stdev-diag", "var-full", "stdev-full")
# Standard deviation along the stripe and variance of the noise. The paper says neither how long
# the stripe is nor whether the 2 of N(0, 2) is a variance.
_SETTINGS = {"a": (2.0, 2.0), "b": (3.0, 2.0), "c": (1.5, 4.0)}
_CONFIDENCES = (0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
_VARIANCES = (0.001, 0.01, 0.1, 1.0, 10.0)
_CAPS = (0.001, 0.01, 0.1, 1.0)
_IDENTITIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_BATCH = 25


def cw_grid(
    name: str,
    confidences: Sequence[float] = _CONFIDENCES,
    variances: Sequence[float] = _VARIANCES,
) -> list[dict[str, Any]]:
    """Parameters to choose from."""
    kind, _, shape = name.partition("-")
    if kind == "perceptron":
        return [{}]
    if kind == "pa":
        return [{"variant": 0}, *({"variant": 1, "C": C} for C in _CAPS)]
    if kind == "sop":
        return [{"a": a} for a in _IDENTITIES]
    return [
        {"variant": kind, "covariance": shape, "confidence": eta, "initial_variance": variance}
        for eta in confidences
        for variance in (variances if kind == "var" else (1.0,))
    ]


def learner(name: str, parameters: dict[str, Any], average: bool = False) -> Any:
    """The online learner of this name."""
    # No intercept: the separator passes through the origin, as in the paper.
    common: dict[str, Any] = {"fit_intercept": False, "average": average}
    if name == "perceptron":
        # With so much of the identity in its matrix the second-order perceptron is of first order.
        return SecondOrderPerceptron(a=1e9, covariance="diag", **common)
    if name == "pa":
        return PassiveAggressiveClassifier(**parameters, **common)
    if name == "sop":
        return SecondOrderPerceptron(**parameters, **common)
    return ConfidenceWeightedClassifier(**parameters, **common)


def _draw(rng: np.random.Generator, setting: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    length, variance = _SETTINGS[setting]
    seed = int(rng.integers(2**31))
    return make_rotated_stripe(n, length=length, noise_variance=variance, random_state=seed)


def _tuning_cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    setting: str,
    batch: int,
    runs: int,
    grids: dict[str, list[dict[str, Any]]],
) -> dict:
    """Mean mistakes of every learner with every value of its parameters."""
    totals = {name: np.zeros(len(grid)) for name, grid in grids.items()}
    for _ in range(runs):
        X, y = _draw(rng, setting, 1000)
        for name, grid in grids.items():
            for i, parameters in enumerate(grid):
                model = learner(name, parameters).partial_fit(X, y, classes=[0, 1])
                totals[name][i] += model.n_mistakes_
    return {"tuning": {name: total / runs for name, total in totals.items()}}


def _cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    setting: str,
    batch: int,
    runs: int,
    chosen: dict[str, dict[str, Any]],
) -> dict:
    """Mistakes and test errors of the tuned learners."""
    mistakes: dict[str, list[int]] = {name: [] for name in TITLES}
    errors: dict[str, list[float]] = {name: [] for name in TITLES}
    averaged: dict[str, list[float]] = {name: [] for name in _FIRST}
    for _ in range(runs):
        X, y = _draw(rng, setting, 1000)
        X_test, y_test = _draw(rng, setting, 10_000)
        for name, parameters in chosen.items():
            model = learner(name, parameters).partial_fit(X, y, classes=[0, 1])
            mistakes[name].append(model.n_mistakes_)
            errors[name].append(100.0 * float(np.mean(model.predict(X_test) != y_test)))
            if name in _FIRST:
                mean = learner(name, parameters, average=True).partial_fit(X, y, classes=[0, 1])
                averaged[name].append(100.0 * float(np.mean(mean.predict(X_test) != y_test)))
    return {"mistakes": mistakes, "errors": errors, "averaged": averaged}


def _cells(quick: bool) -> list[Cell]:
    settings, batches = (("a",), 1) if quick else (tuple(_SETTINGS), 4)
    runs = 5 if quick else _BATCH
    # The grids are parameters, so that a result of other grids does not count.
    grids = {name: cw_grid(name) for name in TITLES}
    return [
        Cell(
            f"tune/{s}/{i}", _tuning_cell, {"setting": s, "batch": i, "runs": runs, "grids": grids}
        )
        for s in settings
        for i in range(batches)
    ]


def _then(quick: bool, results: Results) -> list[Cell]:
    cells = []
    for setting in _SETTINGS:
        found = results.where(setting=setting)
        if not found:
            continue
        chosen = {}
        for name in TITLES:
            means = np.mean([cell["tuning"][name] for cell in found], axis=0)
            chosen[name] = cw_grid(name)[int(np.argmin(means))]
        cells += [
            Cell(
                f"run/{setting}/{i}",
                _cell,
                {"setting": setting, "batch": i, "runs": _BATCH, "chosen": chosen},
            )
            for i in range(1 if quick else 40)
        ]
    return cells


def _joined(found: Results, key: str, name: str) -> np.ndarray:
    return np.concatenate([np.asarray(cell[key][name], dtype=float) for cell in found])


def _setting_rows(setting: str, found: Results, main: bool) -> Iterator[Row]:
    length, variance = _SETTINGS[setting]
    where = f"length {length:g}, noise {variance:g}"
    mistakes = {name: _joined(found, "mistakes", name) for name in TITLES}
    counts = {
        name: f"{values.mean():.0f} ± {values.std():.0f}" for name, values in mistakes.items()
    }
    yield statement(
        f"{where}: mistakes of the second-order learners",
        "fewer than 80",
        ", ".join(f"{TITLES[name]} {counts[name]}" for name in _SECOND),
        all(mistakes[name].mean() < 80.0 for name in _SECOND),
        "mean of each",
    )
    yield statement(
        f"{where}: mistakes of the first-order learners",
        "at least 129",
        ", ".join(f"{TITLES[name]} {counts[name]}" for name in _FIRST),
        all(mistakes[name].mean() >= 128.5 for name in _FIRST),
        "mean of each, rounded",
    )
    for shape, more in (("diag", 8.0), ("full", 17.0)):
        var, stdev = mistakes[f"var-{shape}"], mistakes[f"stdev-{shape}"]
        ratio = float(var.mean() / stdev.mean())
        # Standard error of the ratio of two means over the same draws; the paper has as many.
        error = float((var - ratio * stdev).std(ddof=1) / stdev.mean() / np.sqrt(len(var)))
        yield value_row(
            f"{where}: more mistakes of CW-Var than of CW-Stdev, {shape}",
            more,
            100.0 * (ratio - 1.0),
            tolerance=round(200.0 * np.sqrt(2.0) * error + 0.5, 1),
            basis="two standard errors of both, and rounding",
            digits=0,
            unit="%",
        )
        yield claim(
            f"{where}: mistakes of CW-Stdev-{shape} below those of CW-Var-{shape}",
            "fewer",
            mistakes[f"stdev-{shape}"],
            mistakes[f"var-{shape}"],
            digits=1,
        )
    best_first = min(_FIRST, key=lambda name: mistakes[name].mean())
    for name in _SECOND:
        yield claim(
            f"{where}: mistakes of {TITLES[name]} below those of {TITLES[best_first]}",
            "fewer",
            mistakes[name],
            mistakes[best_first],
            digits=1,
        )
    if main:
        yield from _error_rows(where, found)


def _error_rows(where: str, found: Results) -> Iterator[Row]:
    errors = {name: _joined(found, "errors", name) for name in TITLES}
    averaged = {name: _joined(found, "averaged", name) for name in _FIRST}
    for name in TITLES:
        if name != "stdev-full":
            yield claim(
                f"{where}: test error of CW-Stdev-full below that of {TITLES[name]}",
                "lowest of all",
                errors["stdev-full"],
                errors[name],
                unit="%",
            )
    for name in _FIRST:
        yield claim(
            f"{where}: test error of the mean {TITLES[name]} below that of the last",
            "averaging improves first-order methods",
            averaged[name],
            errors[name],
            unit="%",
        )
    best = min(_FIRST, key=lambda name: averaged[name].mean())
    for name in _SECOND:
        yield claim(
            f"{where}: test error of {TITLES[name]} below that of the mean {TITLES[best]}",
            "lower",
            errors[name],
            averaged[best],
            unit="%",
        )
    for kind in ("var", "stdev"):
        full, diag = (errors[f"{kind}-{shape}"] for shape in ("full", "diag"))
        row = claim(
            f"{where}: deviation of the test error over runs, CW-{kind.title()}",
            "full is less sensitive than diag",
            (full - full.mean()) ** 2,
            (diag - diag.mean()) ** 2,
        )
        ours = f"{full.std():.2f} against {diag.std():.2f}"
        yield replace(row, ours=ours, difference="", why=f"squared deviations, {row.why}")


def cw_choices(name: str, chosen: dict[str, Any], grid: list[dict[str, Any]]) -> Iterator[Choice]:
    """Where the chosen parameters of a learner lie in its grid.

    CW-Var with the variance v and the quantile φ of the confidence is the same learner for all
    pairs with one φ² v (its weights scale with 1/φ), and CW-Stdev does not depend on v at all.
    """
    title = TITLES[name]
    if name.startswith("var"):

        def product(one: dict[str, Any]) -> float:
            return float(norm.ppf(one["confidence"]) ** 2 * one["initial_variance"])

        yield Choice(f"{title}, φ² times the variance", product(chosen), [*map(product, grid)])
    for key in ("C", "a", *(("confidence",) if name.startswith("stdev") else ())):
        if key in chosen:
            values = [one[key] for one in grid if key in one]
            # No step of PA on these rows is as long as 1: that cap is none.
            yield Choice(f"{title}, {key}", chosen[key], values, (1.0,) if key == "C" else ())


def _choices(results: Results) -> Iterator[Choice]:
    for setting in _SETTINGS:
        for cell in list(results.where(setting=setting).having("chosen"))[:1]:
            for name in TITLES:
                yield from cw_choices(name, cell["chosen"][name], cw_grid(name))


def _rows(results: Results) -> Iterator[Row]:
    for setting in _SETTINGS:
        found = results.where(setting=setting).having("mistakes")
        if found:
            yield from _setting_rows(setting, found, main=setting == "a")
        else:
            length, variance = _SETTINGS[setting]
            yield not_run(f"length {length:g}, noise {variance:g}", "mistakes and test errors")


def _draw_figure(results: Results) -> Figure | None:
    found = results.where(setting="a").having("mistakes")
    if not found:
        return None
    page, axes = figure(1, 2, width=4.2, height=3.4)
    panels = (("mistakes", "mistakes in 1,000 rounds"), ("errors", "test error, %"))
    for ax, (key, label) in zip(axes.flat, panels):
        values = [_joined(found, key, name) for name in TITLES]
        ax.bar(
            range(len(values)),
            [v.mean() for v in values],
            yerr=[v.std() for v in values],
            color="C0",
            alpha=0.7,
        )
        ax.set_xticks(range(len(values)), TITLES.values(), rotation=45, ha="right")
        ax.set_ylabel(label)
    return page


FIGURE_2 = Experiment(
    name="cw-fig2",
    paper=CW,
    title="mistakes and test errors of seven online learners on a stripe among noise",
    cells=_cells,
    then=_then,
    rows=_rows,
    choices=_choices,
    draw=_draw_figure,
    minutes=3,
    protocol=(
        "1,000 points in 20 features, two of which matter, one pass; 10,000 points for the test. "
        "Parameters with the fewest mistakes on 100 draws, then 1,000 other draws with them; the "
        "paper tunes on the 1,000. Grids: confidence 0.55 to 0.999, initial variance of CW-Var "
        "0.001 to 10 (with the quantile φ of the confidence only φ² times the variance matters, "
        "and for CW-Stdev the variance does not), weight of the identity of SOP 0.001 to 1,000, PA "
        "and PA-I with C 0.001 to 1; they were widened when the first results had been seen. The "
        "paper gives neither the length of the stripe (its width is 1) nor the unit of the noise "
        "N(0, 2): three settings, of which the first is drawn."
    ),
    quick="25 draws, tuned on 5, one setting",
    finding=(
        "The order of the learners is that of the paper in all three settings. Fewer than 80 "
        "mistakes of the second order and 129 or more of the first go together if the 2 of the "
        "noise is a deviation and the stripe is short (length 1.5), and 8 % more mistakes of "
        "CW-Var with a diagonal lie between those of the longer stripes (5 and 10 %). The 17 % "
        "with a full matrix are not reached in any (7 to 8 %); cw-fig2-stripes varies the stripe."
    ),
)
