"""Online e-SVM, Newton's method and SVM on two large sets (section 5.4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from oblong import EllipsoidalSVC, LinearRelativeMarginClassifier, OnlineEllipsoidalSVC
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Experiment, Results
from oblong_reproduction._verdict import Row, claim, not_comparable, not_run, value_row
from oblong_reproduction.esvm._paper import PAPER
from oblong_reproduction.esvm._tables import adult_records, error, whole

__all__ = ["ONLINE"]

# Errors in percent and seconds: online e-SVM, SMO for e-SVM, error of the SVM.
_PUBLISHED = {"adult": (15.6, 76.0, "887 s", 16.2), "covtype": (23.4, 14386.0, "> 3 days", 23.8)}
_DATA = {"adult": "adult", "covtype": "covtype_93k"}
_TITLES = {"online": "online e-SVM", "newton": "e-SVM, Newton", "svm": "SVM"}
_NUS = (0.02, 0.1, 0.4)
_COSTS = (0.01, 0.1, 1.0)


def _task(sets: Sets, name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "adult":
        return adult_records(sets)
    X, y = whole(sets, "covtype_93k")
    # The largest class against all others.
    return X, (y == 1).astype(int)


def _makers(seed: int) -> dict[str, tuple[Callable[[float], Any], tuple[float, ...]]]:
    return {
        "online": (lambda nu: OnlineEllipsoidalSVC(nu=nu, random_state=seed), _NUS),
        "newton": (lambda nu: EllipsoidalSVC(nu=nu, kernel="linear", tol=1e-4), _NUS),
        "svm": (lambda C: LinearRelativeMarginClassifier(C=C, spread=1.0), _COSTS),
    }


def _cell(
    sets: Sets, rng: np.random.Generator, *, set: str, method: str, half: int, rows: int | None
) -> dict:
    """Test error and time of one classifier on one half."""
    X, y = _task(sets, set)
    order = rng.permutation(len(y))[:rows]
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    scaler = StandardScaler().fit(X[train])
    A, B = scaler.transform(X[train]), scaler.transform(X[test])
    make, grid = _makers(int(rng.integers(2**31)))[method]
    # A fifth of the training half chooses the parameter; that fit compiles as well.
    cut = len(train) // 5
    scores = [error(make(p).fit(A[cut:], y[train][cut:]), A[:cut], y[train][:cut]) for p in grid]
    chosen = grid[int(np.argmin(np.round(scores, 9)))]
    model = make(chosen)
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
    return [
        Cell(
            f"{name}/{method}/{i}",
            _cell,
            {"set": name, "method": method, "half": i, "rows": 4000 if quick else None},
            data=(_DATA[name],),
            draw=f"{name}/{i}",
        )
        for name in _PUBLISHED
        for method in _TITLES
        for i in range(2 if quick else 5)
    ]


def _rows(results: Results) -> Iterator[Row]:
    for name, (online, seconds, smo, svm) in _PUBLISHED.items():
        published = {"online": online, "newton": online, "svm": svm}
        found = {m: results.where(set=name, method=m) for m in _TITLES}
        for method, title in _TITLES.items():
            what, printed = f"{name}: test error of {title}", f"{published[method]:.1f} %"
            if not found[method]:
                yield not_run(what, printed)
                continue
            errors = found[method]["error"]
            if name == "covtype" or found[method][0]["rows"] is not None:
                ours = f"{errors.mean():.1f} ± {errors.std():.1f} %"
                rows = found[method][0]["train_rows"]
                yield not_comparable(what, printed, ours, f"{rows:,} training rows, a part of all")
            else:
                yield value_row(
                    what,
                    published[method],
                    float(errors.mean()),
                    tolerance=0.5,
                    basis="how categories became numbers is not stated",
                    digits=1,
                    unit="%",
                )
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
        yield not_comparable(
            f"{name}: seconds of online e-SVM, Newton and SVM",
            f"{seconds:g} s online, {smo} SMO",
            ", ".join(f"{found[m]['seconds'].mean():.2g}" for m in _TITLES),
            f"another computer and stopping rule; our gap online "
            f"{found['online']['gap'].max():.1e}, Newton {found['newton']['gap'].max():.1e}",
        )


ONLINE = Experiment(
    name="esvm-online",
    paper=PAPER,
    title="online e-SVM, Newton's method and SVM on adult and covtype",
    cells=_cells,
    rows=_rows,
    minutes=6,
    data=tuple(_DATA.values()),
    alone=True,
    protocol=(
        "Half of the rows at random for training, the rest for the test, five times; a fifth of "
        "the training half chooses ν or C. adult: the 45,222 records without missing values, 14 "
        "columns, categories as numbers, which the paper does not say but its dimension does. "
        "covtype: 92,962 of the 581,012 rows, the largest class against the others. The paper "
        "stops by a rule that is not valid as printed: here the online method stops at a "
        "certified gap of 10⁻², Newton's at 10⁻⁴."
    ),
    quick="4,000 rows, twice",
    finding=(
        "On adult all classifiers have more errors than in the paper, and the e-SVM fewer than the "
        "SVM as there. How categories became numbers explains the level: with the share of the "
        "second class among the training rows of a category as its number, a linear SVM has 15.4 "
        "to 15.8 % on three such halves and the e-SVM (ν = 0.2, r = 0.9) 16.5 to 16.8 %; then "
        "the SVM is the better one. The paper does not say how it coded them."
    ),
)
