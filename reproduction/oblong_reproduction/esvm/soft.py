"""Soft margins: linear SVM and e-SVM, nested cross-validation (table 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from oblong import EllipsoidalSVC, LinearRelativeMarginClassifier
from oblong_reproduction._counts import wins
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results, added, tried
from oblong_reproduction._papers import ESVM
from oblong_reproduction._verdict import FEWEST, Row, claim, mean_row, not_comparable, not_run
from oblong_reproduction.esvm._tables import error, one_hot, whole

# Errors in percent: SVM, e-SVM.
_PUBLISHED = {
    "ionosphere": (7.41, 7.12),
    "mushroom": (0.74, 0.00),
    "splice": (15.31, 14.67),
    "dna": (5.48, 4.72),
    "letter": (20.82, 20.54),
    "satimage": (16.20, 13.60),
    "usps": (8.13, 6.48),
}
_DATA = {name: "ida_splice" if name == "splice" else name for name in _PUBLISHED}
# Rows of the larger sets, of which some hundred models are fitted.
_ROWS = {"mushroom": 1000, "dna": 1000, "letter": 5000, "satimage": 3000, "usps": 1000}
_NUS = (0.02, 0.1, 0.4)
_RS = (0.9, 0.99)
_COSTS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
# The search with all rows: wide grids, and this many rows for the choice.
_WIDE: dict[str, Any] = {
    "nus": [0.001, 0.005, 0.02, 0.1, 0.4, 0.7],
    "rs": [0.1, 0.5, 0.9, 0.99],
    "costs": [1e-4, *_COSTS],
    "most": 1000,
}
# Further values, where a choice is at an end of the wide grid.
_BEYOND = {"nu": (1e-4, 3e-4, 1.0, 2.0), "r": (0.01, 0.03, 0.999)}


def _svm(C: float) -> LinearRelativeMarginClassifier:
    return LinearRelativeMarginClassifier(C=C, spread=1.0)


def _esvm(nu: float, r: float) -> EllipsoidalSVC:
    return EllipsoidalSVC(kernel="linear", nu=nu, r=r, tol=1e-4)


def _several(model: Any, pairs: bool, n_classes: int) -> Any:
    """A classifier of several classes: of pairs, or of each class against the rest."""
    if n_classes == 2:
        return model
    return OneVsOneClassifier(model) if pairs else OneVsRestClassifier(model)


def _cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    set: str,
    fold: int,
    rows: int | None,
    outer: int,
    inner: int,
    nus: list[float],
    rs: list[float],
    costs: list[float],
    pairs: bool = False,
    most: int | None = None,
    further: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    before: Mapping[str, Any] | None = None,
) -> dict:
    """Test errors of both classifiers on one fold, with the parameters that inner folds choose.

    With `most`, the inner folds are of at most so many of the training rows. With `further`
    values, the first choice and what they add are compared, and only what changes is returned.
    """
    X, y = whole(sets, _DATA[set])
    if set == "mushroom":
        X = one_hot(X)
    # The same rows and folds in every cell of a set.
    if rows is not None and rows < len(y):
        kept = np.random.default_rng(len(y)).permutation(len(y))[:rows]
        X, y = X[kept], y[kept]
    train, test = list(_folds(outer, X, y))[fold]
    n_classes = len(np.unique(y))
    grids: dict[str, list[tuple[Any, tuple]]] = {
        "svm": [(_svm, (C,)) for C in costs],
        "esvm": [(_esvm, (nu, r)) for r in rs for nu in nus],
    }
    result: dict = {"set_rows": len(y)}
    if before is not None and further is not None:
        first, more = before["esvm_chosen"], added({"r": rs, "nu": nus}, further["esvm"])
        settings = [tuple(first), *((one["nu"], one["r"]) for one in more)]
        grids, result = {"esvm": [(_esvm, setting) for setting in settings]}, {}
    some = train if most is None else _some(train, y, most)
    for method, grid in grids.items():
        wrong = np.zeros(len(grid))
        for kept, held in _folds(inner, X[some], y[some]):
            A, B = _scaled(X[some[kept]], X[some[held]])
            for i, (make, arguments) in enumerate(grid):
                model = _several(make(*arguments), pairs, n_classes).fit(A, y[some[kept]])
                wrong[i] += error(model, B, y[some[held]])
        best = int(np.argmin(np.round(wrong, 9)))
        if before is not None and best == 0:
            continue
        make, arguments = grid[best]
        A, B = _scaled(X[train], X[test])
        model = _several(make(*arguments), pairs, n_classes).fit(A, y[train])
        result[method] = error(model, B, y[test])
        result[f"{method}_chosen"] = list(arguments)
    return result


def _some(train: np.ndarray, y: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the training rows, of every class its share."""
    if most >= len(train):
        return train
    cut = StratifiedShuffleSplit(1, train_size=most, random_state=0)
    return train[next(cut.split(train, y[train]))[0]]


def _folds(n: int, X: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return StratifiedKFold(n, shuffle=True, random_state=0).split(X, y)


def _scaled(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaler = StandardScaler().fit(A)
    return scaler.transform(A), scaler.transform(B)


def _cells(quick: bool) -> list[Cell]:
    outer, inner = (2, 2) if quick else (10, 3)
    grids = {
        "outer": outer,
        "inner": inner,
        "nus": list(_NUS[:2] if quick else _NUS),
        "rs": [0.9] if quick else list(_RS),
        "costs": list(_COSTS[1::2] if quick else _COSTS),
    }
    return [
        Cell(
            f"{name}/{fold}",
            _cell,
            {"set": name, "fold": fold, "rows": 200 if quick else _ROWS.get(name), **grids},
            data=(_DATA[name],),
        )
        for name in _PUBLISHED
        for fold in range(outer)
    ]


def _full_cells(quick: bool) -> list[Cell]:
    grids = {"outer": 10, "inner": 2, **_WIDE}
    if quick:
        grids |= {"outer": 2, "nus": [0.02, 0.1], "rs": [0.5], "costs": [0.01, 1.0], "most": 100}
    kinds = {
        name: (False, True) if name in ("dna", "letter", "satimage", "usps") else (False,)
        for name in (("ionosphere", "dna") if quick else _PUBLISHED)
    }
    # Fold by fold, so that a part of a run has some of everything.
    return [
        Cell(
            f"{name}/{'pairs' if pairs else 'rest'}/{fold}",
            _cell,
            {"set": name, "fold": fold, "rows": 300 if quick else None, "pairs": pairs, **grids},
            data=(_DATA[name],),
            draw=f"{name}/{fold}",
        )
        for fold in range(grids["outer"])
        for name, both in kinds.items()
        for pairs in both
    ]


def _full_rows(results: Results) -> Iterator[Row]:
    """By pairs where there are more than two classes, and against the rest."""
    several = {cell["set"] for cell in results.where(pairs=True)}
    for pairs, words in ((False, "against the rest"), (True, "by pairs")):
        found = Results(
            cell for cell in results if cell["pairs"] == pairs or cell["set"] not in several
        )
        for row in _rows(found):
            alone = not pairs or any(row.what.startswith(name) for name in several)
            if alone or row.what.startswith("sets"):
                yield replace(row, what=f"{words}, {row.what}")


def _rows(results: Results) -> Iterator[Row]:
    differences = []
    for name, published in _PUBLISHED.items():
        found = results.where(set=name)
        if not found:
            yield not_run(name, f"SVM {published[0]:.2f}, e-SVM {published[1]:.2f} %")
            continue
        for method, title, mean in (("svm", "SVM", published[0]), ("esvm", "e-SVM", published[1])):
            values = found[method]
            what, printed = f"{name}, {title}", f"{mean:.2f} %"
            if found[0]["rows"] is not None:
                ours = f"{values.mean():.2f} ± {values.std(ddof=1):.2f} %"
                yield not_comparable(what, printed, ours, f"{found[0]['set_rows']} of the rows")
            else:
                yield mean_row(
                    what, mean, values, standard_error=None, printed=printed, digits=2, unit="%"
                )
        yield claim(f"{name}: e-SVM below SVM", "below", found["esvm"], found["svm"], unit="%")
        if len(found) >= FEWEST:
            differences.append((name, float(np.mean(found["esvm"] - found["svm"]))))
    if differences:
        yield wins("sets on which e-SVM has fewer errors than SVM", (7, 7), differences, tie=0.005)


def _choices(results: Results) -> Iterator[Choice]:
    for cell in results:
        both = zip(("nu", "r"), ("ν", "r"), cell["esvm_chosen"], (cell["nus"], cell["rs"]))
        for name, sign, chosen, grid in both:
            yield Choice(
                f"e-SVM, {sign}",
                chosen,
                tried(cell, grid, "esvm", name),
                search=("esvm", name),
                beyond=_BEYOND[name] if cell.get("most") else (),
            )
        yield Choice("SVM, C", cell["svm_chosen"][0], cell["costs"])


TABLE_2 = Experiment(
    name="esvm-table2",
    paper=ESVM,
    title="soft margin, linear: SVM and e-SVM on seven sets, nested cross-validation",
    cells=_cells,
    rows=_rows,
    choices=_choices,
    minutes=20,
    data=tuple(_DATA.values()),
    protocol=(
        "Ten outer folds as in the paper; three inner ones (the paper: five) choose C of the SVM "
        "(10⁻³ to 10²; the paper has the form with ν, which has the same solutions) or ν (0.02, "
        "0.1, 0.4) and r (0.9, 0.99) of e-SVM; the paper's grids are not stated. Features with "
        "variance one. With more than two classes, one classifier per class against the rest. "
        "The larger sets are reduced to random rows: mushroom, dna and usps 1,000, satimage "
        "3,000, letter 5,000; their numbers cannot be compared, but the two classifiers can."
    ),
    finding=(
        "e-SVM is clearly ahead on satimage and level on the other six sets, where the paper has "
        "it ahead on all; no test is given there. Most folds choose the smallest ν and r of this "
        "grid: esvm-table2-full has wider ones, all rows and pairs of classes. The level on "
        "ionosphere is that of other linear classifiers here, and the lower published one is "
        "unexplained."
    ),
    quick="200 rows, two outer and two inner folds, two values of ν and three of C",
)


TABLE_2_FULL = Experiment(
    name="esvm-table2-full",
    paper=ESVM,
    title="soft margin with all rows, wide grids, and pairs of classes beside one against the rest",
    cells=_full_cells,
    rows=_full_rows,
    choices=_choices,
    minutes=150,
    data=tuple(_DATA.values()),
    protocol=(
        "Sets and outer folds of esvm-table2 with all their rows. Two inner folds of at most "
        "1,000 training rows choose C of the SVM (10⁻⁴ to 10²) or ν (0.001 to 0.7) and r (0.1 to "
        "0.99) of e-SVM, and once more with ν from 0.0001 to 2 or r from 0.01 to 0.999 where the "
        "choice was at an end, which was seen in the first results; the model is then fitted to "
        "all training rows, which have a sum of losses in place of the smaller one for both "
        "classifiers. With more than two classes, one classifier per class against the rest and, "
        "apart from that, one per pair of classes."
    ),
    finding=(
        "Against the rest the e-SVM is ahead of the SVM by two points on satimage and by nearly "
        "five on letter, behind it by 0.7 on usps, and level on the other four. By pairs, which "
        "gives both classifiers fewer errors, it is behind by 2.8 points on letter and by 0.6 on "
        "satimage, and level on dna and usps. The printed errors of the SVM on letter and satimage "
        "lie between our two. On mushroom there is next to nothing left to misclassify for either. "
        "The choices of ν and r go all over the grid; values beyond its ends, which 41 of 110 "
        "searches have tried, changed no verdict."
    ),
    quick="two sets of 300 rows, two outer folds, few values of the parameters",
)
