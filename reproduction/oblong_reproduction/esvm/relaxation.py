"""The exact problem against its relaxation (table 1)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold

from oblong import EllipsoidalSVC
from oblong_reproduction._counts import count_row
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results, added, tried
from oblong_reproduction._papers import ESVM
from oblong_reproduction._verdict import (
    Row,
    after_the_fact,
    not_comparable,
    not_run,
    statement,
    value_row,
)
from oblong_reproduction.esvm._tables import error, one_hot, whole

# Errors in percent and seconds of the exact problem (5), then of the relaxed one (6).
_PUBLISHED = {
    "splice": ((17.37, 525.9), (17.67, 320.0)),
    "mushroom": ((0.81, 2249.1), (0.97, 807.2)),
    "a1a": ((24.09, 1512.9), (24.09, 612.6)),
    "a2a": ((16.24, 2282.8), (16.25, 966.3)),
    "a3a": ((16.06, 3823.2), (16.22, 1201.8)),
    "w1a": ((2.92, 3191.3), (2.96, 1028.3)),
    "w2a": ((2.91, 4544.4), (2.97, 1606.8)),
    "w3a": ((2.85, 9789.3), (2.98, 2411.6)),
}
_LARGEST_IN_PRINT = 0.3
_DATA = {
    "splice": ("ida_splice",),
    "mushroom": ("mushroom",),
    "a1a": ("a9a",),
    "a2a": ("a9a",),
    "a3a": ("a9a",),
    "w1a": ("w1a", "w8a"),
}
_ADULT_ROWS = {"a1a": 1605, "a2a": 2265, "a3a": 3185}
_NUS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)
_RS = (0.5, 0.9, 0.99)
# Further values, where a choice is the smallest.
_BEYOND = {
    "nu": (0.0001, 0.0005, 0.002, 0.005, 0.01),
    "r": (0.0001, 0.001, 0.01, 0.05, 0.1, 0.25),
}
# From r = 0.01 down the relaxed model hardly changes: on a3a the cosine between the weights of
# neighbouring values is 0.999 and more.
_NATURAL = {"r": (0.0001,)}
_COMPONENTS = 30


def _parts(sets: Sets, rng: np.random.Generator, name: str) -> tuple[np.ndarray, ...]:
    """Training and test rows before the projection."""
    if name == "w1a":
        X, y = whole(sets, "w1a")
        X_all, y_all = whole(sets, "w8a")
        rest = _without(X_all, y_all, X, y)
        return X, y, X_all[rest], y_all[rest]
    if name in _ADULT_ROWS:
        data: Any = sets.load("a9a")
        X, y = np.asarray(data.X.todense(), dtype=float), data.y
        order = rng.permutation(len(y))
        train, test = order[: _ADULT_ROWS[name]], order[_ADULT_ROWS[name] :]
    else:
        X, y = whole(sets, _DATA[name][0])
        if name == "mushroom":
            X = one_hot(X)
        order = rng.permutation(len(y))
        train, test = order[: 3 * len(y) // 4], order[3 * len(y) // 4 :]
    return X[train], y[train], X[test], y[test]


def _without(X_all: np.ndarray, y_all: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Positions of the rows that are left when each row of a part is taken out once."""
    taken: dict[bytes, int] = {}
    for key in _keys(X, y):
        taken[key] = taken.get(key, 0) + 1
    left = []
    for i, key in enumerate(_keys(X_all, y_all)):
        if taken.get(key, 0):
            taken[key] -= 1
        else:
            left.append(i)
    return np.array(left)


def _keys(X: np.ndarray, y: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in np.column_stack([X, y]).astype(np.uint8)]


def _model(formulation: Any, nu: float, r: float, A: np.ndarray) -> EllipsoidalSVC:
    # Equation (6) sums over the rows where the consistent form has their mean: this makes the
    # values of ν mean about the same.
    scale = 1.0 if formulation == "consistent" else A.shape[0] / (r * A.shape[1])
    return EllipsoidalSVC(kernel="linear", formulation=formulation, nu=scale * nu, r=r)


def _cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    set: str,
    rows: int | None,
    nus: list[float],
    rs: list[float],
    further: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    before: Mapping[str, Any] | None = None,
) -> dict:
    """Errors and times of the three forms with the parameters that three folds choose.

    With `further` values, only of those forms whose choice changes.
    """
    X, y, X_test, y_test = _parts(sets, rng, set)
    if rows is not None:
        X, y = _both_classes(rng, X, y, rows)
    pca = PCA(min(_COMPONENTS, *X.shape), svd_solver="full").fit(X)
    A, B = pca.transform(X), pca.transform(X_test)
    length = float(np.sqrt(np.mean(np.einsum("ij,ij->i", A, A))))
    A, B = A / length, B / length
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(A, y))
    result: dict = {"train_rows": len(y), "test_rows": len(y_test)}
    weights = {}
    chosen: dict[str, tuple[float, float]] = {}
    for form in ("paper", "consistent", "exact"):
        if form == "exact" and find_spec("clarabel") is None:
            continue
        # The exact problem is too slow to be tuned: it takes what suits equation (6).
        if form == "exact":
            chosen[form] = chosen["paper"]
        else:
            settings = [{"r": r, "nu": nu} for r in rs for nu in nus]
            if before is not None:
                # Of equal settings the one nearest to the first grid, since the model tends to the
                # SVM as r goes to zero.
                near = {k: sorted(v)[::-1] for k, v in (further or {}).get(form, {}).items()}
                more = added({"r": rs, "nu": nus}, near)
                settings = [{"r": before[f"{form}_r"], "nu": before[f"{form}_nu"]}, *more]
            chosen[form] = _tuned(form, A, y, folds, settings)
        old = "paper" if form == "exact" else form
        if before is not None and chosen[form] == (before[f"{old}_nu"], before[f"{old}_r"]):
            continue
        model = _model(form, *chosen[form], A)
        start = time.process_time()
        model.fit(A, y)
        seconds = time.process_time() - start
        if form == "exact" and not np.all(np.isfinite(model.dual_gap_)):
            # Nothing is left of an earlier solution with other parameters.
            result |= {"exact_failed": True, "exact": None, "cosine": None}
            continue
        result[f"{form}_seconds"] = seconds
        result[form] = error(model, B, y_test)
        result[f"{form}_nu"], result[f"{form}_r"] = chosen[form]
        weights[form] = model.coef_[0]
    result["majority"] = 100.0 * float(min(np.mean(y_test), 1.0 - np.mean(y_test)))
    if "exact" in weights:
        norms = np.linalg.norm(weights["exact"]) * np.linalg.norm(weights["paper"])
        result["cosine"] = float(weights["exact"] @ weights["paper"] / max(norms, 1e-300))
    return result


def _both_classes(
    rng: np.random.Generator, X: np.ndarray, y: np.ndarray, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Some rows, at least ten of each class."""
    firsts = [rng.permutation(np.flatnonzero(y == label))[:10] for label in (0, 1)]
    kept = np.concatenate([*firsts, rng.permutation(len(y))])
    kept = kept[np.sort(np.unique(kept, return_index=True)[1])][:rows]
    return X[kept], y[kept]


def _tuned(
    form: str, A: np.ndarray, y: np.ndarray, folds: list, settings: list[dict[str, float]]
) -> tuple[float, float]:
    """The setting with the fewest errors, the first of equal ones."""
    best, found = np.inf, settings[0]
    for setting in settings if len(settings) > 1 else ():
        wrong = 0.0
        for kept, held in folds:
            model = _model(form, A=A[kept], **setting).fit(A[kept], y[kept])
            wrong += float(np.sum(model.predict(A[held]) != y[held]))
        if wrong < best:
            best, found = wrong, setting
    return found["nu"], found["r"]


def _cells(quick: bool) -> list[Cell]:
    parameters = {
        "rows": 60 if quick else None,
        "nus": list(_NUS[1::3] if quick else _NUS),
        "rs": [0.9] if quick else list(_RS),
    }
    names = ("splice", "a1a") if quick else tuple(_DATA)
    return [Cell(name, _cell, {"set": name, **parameters}, data=_DATA[name]) for name in names]


def _rows(results: Results) -> Iterator[Row]:
    compared = []
    for name, (exact, relaxed) in _PUBLISHED.items():
        found = results.where(set=name)
        if not found:
            why = "this subset of the web pages is not at hand" if name in ("w2a", "w3a") else None
            yield not_run(
                f"{name}: exact and relaxed",
                f"{exact[0]:.2f} and {relaxed[0]:.2f} %",
                why or "no results for it",
            )
            continue
        cell = found[0]
        yield from _set_rows(name, cell, exact, relaxed)
        if cell.get("exact") is not None:
            compared.append(cell)
    if compared:
        worst = max(abs(cell["exact"] - cell["paper"]) for cell in compared)
        # Of the errors on the same test rows in either direction, chance explains this much.
        rows = [_same_errors(cell) for cell in compared]
        shown = f"{worst:.2f} points on {len(compared)} sets"
        yield statement(
            "largest difference of the errors of exact and relaxed",
            "0.3 points: very limited",
            shown,
            worst <= 1.0 and all(row.verdict == "agrees" for row in rows),
            "at most one point, and none beyond chance by a sign test on the same test rows: "
            + ", ".join(f"{row.what} {row.paper} and {row.ours} errors" for row in rows),
        )
        yield after_the_fact(
            statement(
                "the same by its size alone",
                "0.3 points: very limited",
                shown,
                worst <= _LARGEST_IN_PRINT,
                "no larger than in print; with tens of thousands of test rows a tenth of a point "
                "is beyond chance",
            )
        )
        ratios = [cell["exact_seconds"] / cell["paper_seconds"] for cell in compared]
        yield not_comparable(
            "time of the exact problem over that of the relaxed one",
            "1.6 to 4.1, one general solver for both",
            f"{min(ratios):.0f} to {max(ratios):.0f}",
            "ours are a general conic solver and one made for the relaxed form",
        )


def _same_errors(cell: dict) -> Row:
    """Errors of both problems in numbers of test rows."""
    exact, relaxed = (round(cell[form] * cell["test_rows"] / 100.0) for form in ("exact", "paper"))
    return count_row(cell["set"], exact, relaxed)


def _choices(results: Results) -> Iterator[Choice]:
    for cell in results:
        for form, title in (("paper", "relaxed (6)"), ("consistent", "with 1/|x|")):
            for name, sign, grid in (("nu", "ν", cell["nus"]), ("r", "r", cell["rs"])):
                yield Choice(
                    f"{title}, {sign}",
                    cell[f"{form}_{name}"],
                    tried(cell, grid, form, name),
                    _NATURAL.get(name, ()),
                    search=(form, name),
                    beyond=_BEYOND[name],
                )


def _set_rows(name: str, cell: dict, exact: tuple, relaxed: tuple) -> Iterator[Row]:
    # One random test part here and one in the paper, of the same size.
    spread = 100.0 * np.sqrt(relaxed[0] / 100.0 * (1.0 - relaxed[0] / 100.0) / cell["test_rows"])
    basis = "two standard errors of both test parts, and rounding"
    reason = {
        "a1a": "random rows of a9a, since the subset itself is not at hand",
        "a2a": "random rows of a9a, since the subset itself is not at hand",
        "a3a": "random rows of a9a, since the subset itself is not at hand",
    }.get(name)
    if cell["rows"] is not None:
        reason = f"{cell['rows']} training rows"
    printed = (("exact", exact[0], "exact (5)"), ("paper", relaxed[0], "relaxed (6)"))
    for form, published, title in printed:
        what = f"{name}, {title}"
        if cell.get(form) is None:
            why = "found no solution" if cell.get("exact_failed") else "is not installed"
            yield not_run(what, f"{published:.2f} %", f"the conic solver {why}")
        elif reason:
            yield not_comparable(what, f"{published:.2f} %", f"{cell[form]:.2f} %", reason)
        else:
            yield value_row(
                what,
                published,
                cell[form],
                tolerance=round(2.0 * np.sqrt(2.0) * spread + 0.005, 2),
                basis=basis,
                digits=2,
                unit="%",
            )
    yield not_comparable(
        f"{name}, relaxed, with the missing 1/|x|",
        "not given",
        f"{cell['consistent']:.2f} %",
        "the printed numbers are those of equation (6)",
    )
    if cell.get("cosine") is not None:
        yield not_comparable(
            f"{name}: cosine between the weights of exact and relaxed",
            "not given",
            f"{cell['cosine']:.4f}; smaller class {cell['majority']:.2f} % of the test rows",
            "the paper has errors only",
        )


TABLE_1 = Experiment(
    name="esvm-table1",
    paper=ESVM,
    title="the exact e-SVM against its relaxation, linear, 30 components",
    cells=_cells,
    rows=_rows,
    choices=_choices,
    minutes=35,
    data=("ida_splice", "mushroom", "a9a", "w1a", "w8a"),
    alone=True,
    protocol=(
        "The first 30 principal components of the training rows, over their mean length; three "
        "folds choose ν (six values) and r (0.5, 0.9, 0.99), and once more with ν or r from 0.0001 "
        "where the smallest was chosen; of equal settings the one nearest to the first grid. The "
        "further values were added when results had been seen, those below ν = 0.0005 and "
        "r = 0.01 when these had been chosen. The exact problem takes the values chosen for (6). "
        "splice and mushroom: three quarters for training. a1a to a3a: random rows of a9a, as many "
        "as in the paper, and the rest of its training part for the test. "
        "w1a: the rest of w8a for the test, which is as many rows as the supplied test part. "
        "Equation (6) lacks a factor 1/|x|, without which it is no relaxation unless rows have "
        "length one; the corrected form is shown too."
    ),
    finding=(
        "The 24.09 % of the paper on a1a, for both problems, are about the share of the smaller "
        "class: its model there predicts one class only. Our exact problem is solved by a "
        "general conic solver and the relaxed one by a method made for it, hence the ratio of "
        "the times, which in the paper are of one solver. Where the smallest ν or r was chosen, "
        "further values have been searched: on mushroom they "
        "take the errors from above the printed ones to below, and the largest difference of the "
        "two problems falls from 0.5 to 0.17 points. That is on w1a, where 3 % of the rows are of "
        "the second class and the relaxed problem has 1,269 errors instead of 1,349: small, but "
        "beyond chance. Of the values below ν = 0.0005 and r = 0.01 only r = 0.0001 was chosen, on "
        "a3a: there the weights of the two problems have the cosine 0.89, and both more errors "
        "than with r = 0.25. Below r = 0.01 the relaxed model hardly changes, so that "
        "there folds choose between nearly equal ones. The exact problem takes ν and r that suit "
        "the relaxed one."
    ),
    quick="splice and a1a, 60 training rows, two values of ν and one of r",
)
