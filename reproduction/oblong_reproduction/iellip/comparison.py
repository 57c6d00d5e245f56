"""Test errors and updates of three multi-class learners (figure 1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Experiment, Results
from oblong_reproduction._figure import figure, model_style
from oblong_reproduction._verdict import Row, claim, not_run, statement
from oblong_reproduction.iellip import _runs
from oblong_reproduction.iellip._paper import PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE_1"]

_COSTS = (None, 1.0, 0.1, 0.01, 0.001)
_LEARNERS = {
    "iellip": "IELLIP",
    "iellip-mistakes": "IELLIP, mistakes only",
    "pa": "PA",
    "mira": "MIRA",
}
# Points of the test error within which two learners count as comparable.
_COMPARABLE = 0.5


def _cell(
    sets: Sets, rng: np.random.Generator, *, set: str, permutation: int, rows: int | None
) -> dict:
    """Three passes of every learner over the same rows in the same orders."""
    task = _runs.prepared(sets, rng, set, rows)
    orders = [rng.permutation(len(task[1])) for _ in range(_runs.EPOCHS)]
    return {
        "iellip": _runs.follow(_runs.iellip(0.3, 0.5, "margin"), task, orders),
        "iellip-mistakes": _runs.follow(_runs.iellip(0.3, 0.5, "mistake"), task, orders),
        "mira": _runs.follow(_runs.mira(task), task, orders),
        "pa": [_runs.follow(_runs.passive(C), task, orders) for C in _COSTS],
        "rounds": len(task[1]),
    }


def _cells(quick: bool) -> list[Cell]:
    return [
        Cell(
            f"{name}/{i}",
            _cell,
            {"set": name, "permutation": i, "rows": 2000 if quick else None},
            data=(name,),
        )
        for name in _runs.TITLES
        for i in range(2 if quick else 10)
    ]


def _values(found: Results, learner: str, key: str) -> np.ndarray:
    """Values by permutation and pass; of PA those of the cost with the fewest errors."""
    if learner != "pa":
        return np.array([cell[learner][key] for cell in found], dtype=float)
    errors = np.array([[run["error"][-1] for run in cell["pa"]] for cell in found])
    best = int(np.argmin(errors.mean(axis=0)))
    return np.array([cell["pa"][best][key] for cell in found], dtype=float)


def _rows(results: Results) -> Iterator[Row]:
    for name, title in _runs.TITLES.items():
        found = results.where(set=name)
        if not found:
            yield not_run(title, "errors and updates of IELLIP, PA and MIRA")
            continue
        for learner in ("iellip", "iellip-mistakes"):
            yield from _set_rows(title, found, learner)


def _set_rows(title: str, found: Results, learner: str) -> Iterator[Row]:
    what = f"{title}, {_LEARNERS[learner]}"
    error = _values(found, learner, "error")
    rivals = {rival: _values(found, rival, "error") for rival in ("pa", "mira")}
    means = {rival: float(values[:, -1].mean()) for rival, values in rivals.items()}
    best = min(means, key=means.__getitem__)
    yield statement(
        f"{what}: test error after three passes",
        "comparable to the better of PA and MIRA, or below",
        f"{error[:, -1].mean():.1f} %; PA {means['pa']:.1f} %, MIRA {means['mira']:.1f} %",
        bool(error[:, -1].mean() <= means[best] + _COMPARABLE),
        f"at most {_COMPARABLE} points above; {len(found)} permutations",
    )
    if learner == "iellip":
        plain = np.array([cell["pa"][0]["error"][-1] for cell in found])
        yield claim(
            f"{what}: test error after three passes below that of PA without a cost",
            "comparable or lower",
            error[:, -1],
            plain,
            unit="%",
        )
    updates = _values(found, learner, "updates")[:, -1]
    for rival in ("pa", "mira"):
        published = "fewer"
        if title == "Letter" and rival == "mira":
            published = "more, in the second and third pass"
        other = _values(found, rival, "updates")[:, -1]
        smaller, larger = (updates, other) if published == "fewer" else (other, updates)
        names = [_LEARNERS[learner], _LEARNERS[rival]]
        yield claim(
            "{}: updates of {} below those of {}".format(
                title, *(names if published == "fewer" else names[::-1])
            ),
            published,
            smaller,
            larger,
            digits=0,
        )
    if learner == "iellip":
        plain = np.array([cell["pa"][0]["updates"][-1] for cell in found], dtype=float)
        yield claim(
            f"{title}: updates of IELLIP below those of PA without a cost",
            "fewer",
            updates,
            plain,
            digits=0,
        )


def _draw(results: Results) -> Figure | None:
    names = [name for name in _runs.TITLES if results.where(set=name)]
    if not names:
        return None
    page, axes = figure(2, len(names), width=2.6, height=2.4)
    for column, name in enumerate(names):
        found = results.where(set=name)
        for row, key in enumerate(("error", "updates")):
            ax = axes[row, column]
            for position, (learner, title) in enumerate(_LEARNERS.items()):
                values = _values(found, learner, key).mean(axis=0)
                ax.plot([1, 2, 3], values, label=title, **model_style(position))
            ax.set_xticks([1, 2, 3])
        axes[0, column].set_title(_runs.TITLES[name])
        axes[1, column].set_xlabel("pass")
    axes[0, 0].set_ylabel("test error, %")
    axes[1, 0].set_ylabel("updates so far")
    axes[0, -1].legend(frameon=False, fontsize=7)
    return page


FIGURE_1 = Experiment(
    name="iellip-fig1",
    paper=PAPER,
    title="test errors and updates of IELLIP, PA and MIRA over three passes",
    cells=_cells,
    rows=_rows,
    draw=_draw,
    minutes=1,
    data=tuple(_runs.TITLES),
    protocol=(
        "Three passes in random orders, ten repetitions (the paper: three); margin 0.1, b = 0.3. "
        "Features with variance one, then rows of length one: the theory asks for the length, the "
        "paper does not say what was done. The share c, which the paper does not give either, is "
        "0.5, so that c + b < 1 as in its theorem 4. IELLIP learns from margins below 0.1, as PA "
        "and MIRA do; algorithm 2 as printed learns from mistakes only and is shown as well. "
        "PA-I has the cost, of four and none, with the lowest test error, which favours it; the "
        "paper takes one of another paper. Isolet: 1,000 rows of ten letters and 200 features, "
        "the sizes of the paper, which does not say which. Weights start at zero, not at random."
    ),
    quick="2 repetitions, 2,000 training rows",
    finding=(
        "With b = 0.3 the share c bᵏ⁻¹ of an example is below 10⁻⁵ after ten updates: from then on "
        "the shape stands still and IELLIP is PA in its geometry. In our runs the updates of the "
        "two differ by 1 % or less, and their errors by about half a point or less. Updates are "
        "far fewer (a quarter to three fifths) if IELLIP learns from mistakes only, as algorithm 2 "
        "is printed, while PA and MIRA learn from small margins too; then its error is higher, "
        "by half a point to five. PA-I with the best of the costs has a lower error on USPS, "
        "Letter and Shuttle. What scale of features, c and cost the paper had is not stated, "
        "and with none that we tried did fewer updates and comparable errors go together on all "
        "four sets."
    ),
)
