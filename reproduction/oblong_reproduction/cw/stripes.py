"""CW-Var and CW-Stdev as the stripe and the noise vary (beside figure 2)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from oblong.datasets import make_rotated_stripe
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results
from oblong_reproduction._papers import CW
from oblong_reproduction._verdict import (
    Row,
    after_the_fact,
    not_comparable,
    not_run,
    signed,
    value_row,
)
from oblong_reproduction.cw.synthetic import cw_choices, cw_grid, learner

_LENGTHS = (1.2, 1.5, 2.0, 3.0, 5.0)
_NOISE = ((2, 2.0), (8, 2.0), (18, 2.0), (18, 4.0), (18, 8.0), (48, 2.0), (98, 2.0))
_FEATURES = 18
_LEARNERS = ("var-diag", "stdev-diag", "var-full", "stdev-full")
# More mistakes of CW-Var than of CW-Stdev in print, in percent.
_PUBLISHED = {"diag": 8.0, "full": 17.0}


def _grid(name: str, wider: bool = False) -> list[dict[str, Any]]:
    """Parameters to choose from, fewer than in figure 2 unless the grid is the wider one."""
    if wider:
        return cw_grid(name)
    return cw_grid(name, (0.6, 0.7, 0.8, 0.9, 0.95, 0.99), (0.1, 1.0, 10.0))


def _cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    length: float,
    n_noise: int,
    variance: float,
    tuned: int,
    runs: int,
    wider: bool = False,
) -> dict:
    """Mistakes of the four learners, with the parameters that were best on other draws."""

    def draw() -> tuple[np.ndarray, np.ndarray]:
        seed = int(rng.integers(2**31))
        return make_rotated_stripe(
            1000, n_noise=n_noise, length=length, noise_variance=variance, random_state=seed
        )

    def mistakes(name: str, parameters: dict[str, Any], X: np.ndarray, y: np.ndarray) -> int:
        return learner(name, parameters).partial_fit(X, y, classes=[0, 1]).n_mistakes_

    grids = {name: _grid(name, wider) for name in _LEARNERS}
    totals = {name: np.zeros(len(grid)) for name, grid in grids.items()}
    for _ in range(tuned):
        X, y = draw()
        for name, grid in grids.items():
            totals[name] += [mistakes(name, parameters, X, y) for parameters in grid]
    chosen = {name: grids[name][int(np.argmin(total))] for name, total in totals.items()}
    found: dict[str, list[int]] = {name: [] for name in _LEARNERS}
    for _ in range(runs):
        X, y = draw()
        for name in _LEARNERS:
            found[name].append(mistakes(name, chosen[name], X, y))
    return {"mistakes": found, "chosen": chosen}


def _name(length: float, n_noise: int, variance: float) -> str:
    return f"length-{length:g}/noise-{n_noise}/variance-{variance:g}"


def _cells(quick: bool) -> list[Cell]:
    settings = [(2.0, (8, 2.0))] if quick else list(product(_LENGTHS, _NOISE))
    return [
        Cell(
            _name(length, n_noise, variance),
            _cell,
            {
                "length": length,
                "n_noise": n_noise,
                "variance": variance,
                "tuned": 2 if quick else 30,
                "runs": 5 if quick else 200,
            },
        )
        for length, (n_noise, variance) in settings
    ]


def _rows(results: Results) -> Iterator[Row]:
    what, printed = "more mistakes of CW-Var than of CW-Stdev", "8 % diag, 17 % full"
    if not results:
        yield not_run(what, printed)
        return
    met: dict[bool, list[tuple[str, bool]]] = {True: [], False: []}
    for cell in _last(results):
        rows, shown = [], []
        for shape, more in _PUBLISHED.items():
            var, stdev = (np.array(cell["mistakes"][f"{k}-{shape}"]) for k in ("var", "stdev"))
            ratio = float(var.mean() / stdev.mean())
            # Standard error of the ratio of two means over the same draws; the paper has 1,000.
            spread = float((var - ratio * stdev).std(ddof=1) / stdev.mean())
            error = spread * np.hypot(1.0 / np.sqrt(len(var)), 1.0 / np.sqrt(1000.0))
            difference, tolerance = 100.0 * (ratio - 1.0), 200.0 * error + 0.5
            rows.append(value_row("", more, difference, tolerance=tolerance, basis="", digits=0))
            shown.append(f"{signed(difference, 0)} % {shape} ({stdev.mean():.0f} of CW-Stdev)")
        agrees = all(row.verdict == "agrees" for row in rows)
        where = (
            f"length {cell['length']:g}, {cell['n_noise']} features of noise of variance "
            f"{cell['variance']:g}"
        )
        theirs = cell["n_noise"] == _FEATURES
        met[theirs].append((where, agrees))
        row = Row(
            f"{where}: {what}",
            printed,
            ", ".join(shown),
            ", ".join(row.difference for row in rows),
            "agrees" if agrees else "differs",
            "two standard errors of both, and rounding, for diag and for full",
        )
        other = f"the paper has {_FEATURES} features of noise"
        yield after_the_fact(row if theirs else not_comparable(*_first(row), other))
    for theirs, settings in met.items():
        found = [where for where, agrees in settings if agrees]
        ours = f"{len(found)} of {len(settings)}" + (f": {'; '.join(found)}" if found else "")
        number = f"the {_FEATURES} features of noise of the paper"
        row = Row(
            f"settings with {number if theirs else 'other numbers of features'} and both printed "
            "numbers",
            printed,
            ours,
            "",
            "agrees" if found else "differs",
            "at least one setting of the stripe and the noise",
        )
        if settings:
            why = f"not {number}"
            yield after_the_fact(row if theirs else not_comparable(*_first(row), why))


def _choices(results: Results) -> Iterator[Choice]:
    for cell in _last(results):
        for name, chosen in cell["chosen"].items():
            yield from cw_choices(name, chosen, _grid(name, cell.get("wider", False)))


def _wider_cells(quick: bool, results: Results) -> list[Cell]:
    """The settings in which a learner chose an end of its grid, with a wider one."""
    keys = ("length", "n_noise", "variance", "tuned", "runs")
    return [
        Cell(f"{name}/wider", _cell, {**{key: cell[key] for key in keys}, "wider": True}, draw=name)
        for cell in (() if quick else results)
        if any(choice.edge for choice in _choices(Results([cell])))
        for name in [_name(cell["length"], cell["n_noise"], cell["variance"])]
    ]


def _last(results: Results) -> Results:
    """One cell for each setting: the one with the wider grid, if there is one."""
    return Results({(c["length"], c["n_noise"], c["variance"]): c for c in results}.values())


def _first(row: Row) -> tuple[str, str, str]:
    return row.what, row.paper, row.ours


FIGURE_2_STRIPES = Experiment(
    name="cw-fig2-stripes",
    paper=CW,
    title="CW-Var and CW-Stdev as the length of the stripe and the noise vary",
    cells=_cells,
    then=_wider_cells,
    rows=_rows,
    choices=_choices,
    minutes=1,
    protocol=(
        "As cw-fig2: 1,000 points at 45 degrees, one pass, parameters of each learner with the "
        "fewest mistakes on 30 draws, 200 other draws with them; where a choice was at an end of "
        "its grid, once more with the wider grids of cw-fig2. The length of the stripe is 1.2 "
        "to 5 times its width; 2 to 98 features of noise of variance 2, and 18 of variance 4 "
        "and 8. The paper has 18 and the angle of 45 degrees, and states no length."
    ),
    finding=(
        "With the paper's 18 features of noise no length of the stripe and no variance of the "
        "noise gives 17 % more mistakes of CW-Var with a full matrix: it is 7 to 9 % in all. Both"
        " printed numbers come out together with fewer features of noise: 9 and 16 % with 8 of "
        "them and a stripe three times as long as wide. So the number of features decides, and "
        "with that of the paper the 17 % are not reproduced."
    ),
    quick="one setting, 5 draws, tuned on 2",
)
