"""Online e-SVM, Newton's method and SVM on two large sets (section 5.4)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from oblong import EllipsoidalSVC, LinearRelativeMarginClassifier, OnlineEllipsoidalSVC
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results
from oblong_reproduction._papers import ESVM
from oblong_reproduction._verdict import Row, claim, mean_row, not_comparable, not_run
from oblong_reproduction.esvm._tables import adult_records, error, whole

# Errors in percent and seconds: online e-SVM, SMO for e-SVM, error of the SVM.
_PUBLISHED = {
    "adult": (15.6, 76.0, "887 s", 16.2),
    "adult, shares": (15.6, 76.0, "887 s", 16.2),
    "covtype": (23.4, 14386.0, "> 3 days", 23.8),
}
_DATA = {"adult": "adult", "adult, shares": "adult", "covtype": "covtype_93k"}
# Columns of adult with categories: their codes, or the share of the second class in each.
_CATEGORIES = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)
_TITLES = {"online": "online e-SVM", "newton": "e-SVM, Newton", "svm": "SVM"}
_NUS = (0.005, 0.02, 0.1, 0.4, 1.6, 6.4)
_GRIDS = {"online": _NUS, "newton": _NUS, "svm": (1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)}
# Newton's method takes up to half a minute on covtype: there it has three values.
_FEW = (0.02, 0.1, 0.4)
_NO_FURTHER = {"newton": (0.0013, np.inf), "online": (0.0, 400.0)}


def _task(sets: Sets, name: str) -> tuple[np.ndarray, np.ndarray]:
    if _DATA[name] == "adult":
        return adult_records(sets)
    X, y = whole(sets, "covtype_93k")
    # The largest class against all others.
    return X, (y == 1).astype(int)


def _shares(sets: Sets, X: np.ndarray, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Categories as the share of the second class among their training rows."""
    names = list(sets.load("adult").feature_names or ())
    coded = X.copy()
    for column in (names.index(name) for name in _CATEGORIES):
        for value in np.unique(X[:, column]):
            own = train[X[train, column] == value]
            share = y[own].mean() if own.size else y[train].mean()
            coded[X[:, column] == value, column] = share
    return coded


def _model(method: str, parameter: float, seed: int) -> Any:
    if method == "online":
        return OnlineEllipsoidalSVC(nu=parameter, random_state=seed)
    if method == "newton":
        return EllipsoidalSVC(nu=parameter, kernel="linear", tol=1e-4)
    return LinearRelativeMarginClassifier(C=parameter, spread=1.0)


def _cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    set: str,
    method: str,
    half: int,
    rows: int | None,
    grid: Sequence[float] = _FEW,
) -> dict:
    """Test error and time of one classifier on one half."""
    X, y = _task(sets, set)
    order = rng.permutation(len(y))[:rows]
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    if set == "adult, shares":
        X = _shares(sets, X, y, train)
    scaler = StandardScaler().fit(X[train])
    A, B = scaler.transform(X[train]), scaler.transform(X[test])
    seed = int(rng.integers(2**31))
    # A fifth of the training half chooses the parameter; that fit compiles as well.
    cut = len(train) // 5
    tried = [_model(method, p, seed).fit(A[cut:], y[train][cut:]) for p in grid]
    # A model that is none of its problem's solutions is no candidate.
    scores = [
        error(model, A[:cut], y[train][:cut]) if getattr(model, "converged_", True) else np.inf
        for model in tried
    ]
    chosen = grid[int(np.argmin(np.round(scores, 9)))]
    model = _model(method, chosen, seed)
    start = time.perf_counter()
    model.fit(A, y[train])
    seconds = time.perf_counter() - start
    gap = float(np.max(model.dual_gap_)) if hasattr(model, "dual_gap_") else None
    return {
        "error": error(model, B, y[test]),
        "seconds": seconds,
        "chosen": chosen,
        "gap": gap,
        "passes": int(np.max(model.n_iter_)),
        "train_rows": len(train),
    }


def _cells(quick: bool) -> list[Cell]:
    cells = []
    for name in _PUBLISHED:
        for method, grid in _GRIDS.items():
            few = not quick and (name, method) == ("covtype", "newton")
            own = {} if few else {"grid": list(grid[1:5:2] if quick else grid)}
            cells += [
                Cell(
                    f"{name}/{method}/{i}",
                    _cell,
                    {
                        "set": name,
                        "method": method,
                        "half": i,
                        "rows": 4000 if quick else None,
                        **own,
                    },
                    data=(_DATA[name],),
                    draw=f"{name.split(',')[0]}/{i}",
                )
                for i in range(2 if quick else 5)
            ]
    return cells


def _chosen(cell: Mapping[str, Any]) -> Choice:
    parameter = "C" if cell["method"] == "svm" else "ν"
    what = f"{cell['set']}, {_TITLES[cell['method']]}, {parameter}"
    grid = cell.get("grid", _FEW)
    # From here on no prediction changes: Newton's solution has the least possible loss, and the
    # online method meets its gap with all weights where they started.
    least, most = _NO_FURTHER.get(cell["method"], (0.0, np.inf))
    return Choice(what, cell["chosen"], grid, tuple(v for v in grid if v <= least or v >= most))


def _wider_cells(quick: bool, results: Results) -> list[Cell]:
    """The cells that chose an end of their grid, once more with further values beyond it."""
    cells = []
    for cell in () if quick else results:
        choice = _chosen(cell)
        if choice.edge not in ("smallest", "largest"):
            continue
        grid = choice.wider(10.0 if cell["method"] == "svm" else 4.0)
        name, method, half = cell["set"], cell["method"], cell["half"]
        own = {"set": name, "method": method, "half": half, "rows": cell["rows"], "grid": grid}
        cells.append(
            Cell(
                f"{name}/{method}/{half}/wider",
                _cell,
                own,
                data=(_DATA[name],),
                draw=f"{name.split(',')[0]}/{half}",
            )
        )
    return cells


def _last(results: Results) -> Results:
    """One cell for each set, method and half: the one with the wider grid, if there is one."""
    return Results({(c["set"], c["method"], c["half"]): c for c in results}.values())


def _rows(results: Results) -> Iterator[Row]:
    results = _last(results)
    for name, (online, seconds, smo, svm) in _PUBLISHED.items():
        # The paper prints no error for its batch method.
        published = {"online": online, "newton": None, "svm": svm}
        found = {m: results.where(set=name, method=m) for m in _TITLES}
        for method, title in _TITLES.items():
            number = published[method]
            what = f"{name}: test error of {title}"
            printed = "not given" if number is None else f"{number:.1f} %"
            if not found[method]:
                yield not_run(what, printed)
                continue
            errors = found[method]["error"]
            ours = f"{errors.mean():.1f} ± {errors.std():.1f} %"
            if number is None:
                yield not_comparable(
                    what, printed, ours, "no error is printed for the batch method"
                )
            elif name == "covtype" or found[method][0]["rows"] is not None:
                rows = found[method][0]["train_rows"]
                yield not_comparable(what, printed, ours, f"{rows:,} training rows, a part of all")
            else:
                yield mean_row(what, number, errors, standard_error=None, printed=printed, unit="%")
        if not all(found.values()):
            continue
        for method in ("online", "newton"):
            yield claim(
                f"{name}: test error of {_TITLES[method]} below that of SVM",
                "below",
                found[method]["error"],
                found["svm"]["error"],
                unit="%",
            )
        if name == "adult, shares":
            continue
        yield not_comparable(
            f"{name}: seconds of online e-SVM, Newton and SVM",
            f"{seconds:g} s online, {smo} SMO",
            ", ".join(f"{found[m]['seconds'].mean():.2g}" for m in _TITLES),
            f"another computer and stopping rule; our gap online "
            f"{found['online']['gap'].max():.1e}, Newton {found['newton']['gap'].max():.1e}",
        )


def _choices(results: Results) -> Iterator[Choice]:
    yield from map(_chosen, _last(results))


ONLINE = Experiment(
    name="esvm-online",
    paper=ESVM,
    title="online e-SVM, Newton's method and SVM on adult and covtype",
    cells=_cells,
    then=_wider_cells,
    rows=_rows,
    choices=_choices,
    minutes=12,
    data=tuple(dict.fromkeys(_DATA.values())),
    alone=True,
    protocol=(
        "Half of the rows at random for training, the rest for the test, five times; a fifth of "
        "the training half chooses among six values of ν (0.005 to 6.4) or C (10⁻⁴ to 10), for "
        "Newton's method on covtype among three (0.02 to 0.4); where the choice was at an end, "
        "which was seen in the first results, once more with three further values. adult: the "
        "45,222 records without missing values, 14 columns, categories as numbers, which the paper "
        "does not say but its dimension does: their codes or, in the rows with shares, the share "
        "of the second class among the training rows of a category. covtype: 92,962 of the 581,012 "
        "rows, the largest class against the others. The paper stops by a rule that is not valid "
        "as printed: here the online method stops at a certified gap of 10⁻², Newton's at 10⁻⁴."
    ),
    quick="4,000 rows, twice, two values of ν and C",
    finding=(
        "How categories became numbers, which the paper does not say, decides both the level and "
        "who is ahead on adult. With their codes all classifiers have more errors than in the "
        "paper, and the e-SVM fewer than the SVM as there; with shares the level is that of the "
        "paper, the online method and the SVM are level, and Newton's solution is behind them. "
        "Wider grids of ν and C, twice, changed no verdict. On covtype Newton's method stops "
        "before its tolerance with ν of 0.00125 and less, and such models are no candidates. Four "
        "of the fifteen choices of the "
        "online method are ν of 6 and more, where it is no longer the e-SVM: on 10,000 rows of "
        "adult with ν = 6.4 the certified solution predicts one class only (25 % errors), while "
        "the online method, which meets its gap of 10⁻² before it gets there, has 17.6 %. From ν = "
        "400 on its predictions change no more, nor do those of Newton's solution below 0.001. The "
        "times were taken beside other work."
    ),
)
