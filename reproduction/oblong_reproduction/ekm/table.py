"""Test accuracies on small data sets (table 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from oblong import LinearRelativeMarginClassifier, MinimumVolumeEllipsoid
from oblong_reproduction._counts import wins
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results, tried
from oblong_reproduction._papers import EKM
from oblong_reproduction._verdict import (
    Row,
    after_the_fact,
    claim,
    mean_row,
    not_comparable,
    not_run,
    paired_p,
)

# Accuracies of SVM, Gaussian and EKM, each with its printed spread; setup 1, then setup 2.
_PUBLISHED = {
    "heart": (
        ((0.833, 0.008), (0.762, 0.004), (0.833, 0.006)),
        ((0.841, 0.009), (0.829, 0.010), (0.851, 0.007)),
    ),
    "pima": (
        ((0.801, 0.001), (0.741, 0.001), (0.802, 0.001)),
        ((0.745, 0.002), (0.749, 0.003), (0.746, 0.002)),
    ),
    "ionosphere": (
        ((0.842, 0.001), (0.838, 0.007), (0.857, 0.004)),
        ((0.842, 0.004), (0.854, 0.004), (0.862, 0.002)),
    ),
    "pendigits": (
        ((0.997, 0.0), (0.998, 0.0), (1.0, 0.0)),
        ((1.0, 0.0), (0.998, 0.0), (1.0, 0.0)),
    ),
    "iris": (
        ((0.953, 0.005), (0.927, 0.009), (0.953, 0.005)),
        ((0.946, 0.001), (0.973, 0.004), (0.973, 0.004)),
    ),
    "bupa": (
        ((0.702, 0.004), (0.664, 0.005), (0.705, 0.003)),
        ((0.688, 0.003), (0.691, 0.005), (0.702, 0.005)),
    ),
    "segment": (
        ((0.824, 0.002), (0.810, 0.005), (0.828, 0.003)),
        ((0.852, 0.009), (0.857, 0.007), (0.861, 0.004)),
    ),
    "sonar": (
        None,
        ((0.738, 0.004), (0.723, 0.007), (0.733, 0.006)),
    ),
}
# The paper reduces these to two classes without saying how. Here: the two that a linear classifier
# tells apart worst.
_PAIRS = {"pendigits": (5, 8), "iris": (1, 2), "segment": (2, 4)}
_OTHER_CLASSES = "the paper does not say which classes it took"
# Means and differences of other columns: what is left of them is rounding, which no ellipsoid
# should be fitted to.
_DEPENDENT = {"segment": (9, 13, 14, 15)}
_METHODS = ("svm", "gaussian", "ekm")
_TITLES = {"svm": "SVM", "gaussian": "Gaussian", "ekm": "EKM"}

_COVERAGES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65)
_PENALTIES = tuple(2.0**k for k in range(-5, 16, 2))
# Further values of Gaussian whitening, where it chooses the smallest.
_BEYOND = (2.0**-11, 2.0**-9, 2.0**-7)


class _Box:
    """Features scaled to the unit box, as the paper does before an SVM."""

    def fit(self, X: np.ndarray) -> _Box:
        self.low = X.min(axis=0)
        extent = np.ptp(X, axis=0)
        self.extent = np.where(extent > 0.0, extent, 1.0)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return (X - self.low) / self.extent


def _maps(coverages: tuple[float, ...]) -> dict[str, list]:
    """What each method does to the rows before the linear SVM; one map a parameter."""
    return {
        "svm": [_Box()],
        "gaussian": [MinimumVolumeEllipsoid(coverage=0.0)],
        "ekm": [MinimumVolumeEllipsoid(coverage=coverage) for coverage in coverages],
    }


def _correct(
    T: np.ndarray, y: np.ndarray, T_test: np.ndarray, y_test: np.ndarray, C: float
) -> float:
    model = LinearRelativeMarginClassifier(C=C, spread=1.0).fit(T, y)
    return float(np.mean(model.predict(T_test) == y_test))


def _split(rng: np.random.Generator, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nine tenths and one tenth at random, both classes in the larger part."""
    while True:
        order = rng.permutation(len(y))
        test, train = order[: len(y) // 10], order[len(y) // 10 :]
        if len(np.unique(y[train])) == 2:
            return train, test


def _rows_of(sets: Sets, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a set, of two classes."""
    data = sets.load(name)
    X, y = np.asarray(data.X, dtype=float), data.y
    if data.X_test is not None:
        X, y = np.vstack([X, data.X_test]), np.concatenate([y, data.y_test])
    if name in _PAIRS:
        rows = np.isin(y, _PAIRS[name])
        X, y = X[rows], (y[rows] == _PAIRS[name][1]).astype(int)
    return np.delete(X, _DEPENDENT.get(name, ()), axis=1), y


def _cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    set: str,
    setup: int,
    repetition: int,
    inner: int,
    coverages: list[float],
    penalties: list[float],
    further: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    before: Mapping[str, Any] | None = None,
) -> dict:
    """Accuracies of the three methods on one held-out tenth, or of those with further values."""
    X, y = _rows_of(sets, set)
    train, test = _split(rng, y)
    folds = [_split(rng, y[train]) for _ in range(inner)]
    result: dict = {"test_rows": len(test)}
    for method, maps in _maps(tuple(coverages)).items():
        if further and before:
            if method not in further:
                continue
            # The first choice comes first, so that of equal ones it stays.
            penalties = [before[f"{method}_C"], *further[method]["C"]]
        # In setup 2 the maps come from all rows, those held out included.
        if setup == 2:
            for one in maps:
                one.fit(X)
        scores = np.zeros((len(maps), len(penalties)))
        for kept, held in folds:
            a, b = train[kept], train[held]
            for i, one in enumerate(maps):
                if setup == 1:
                    one.fit(X[a])
                T, T_held = one.transform(X[a]), one.transform(X[b])
                for j, C in enumerate(penalties):
                    scores[i, j] += _correct(T, y[a], T_held, y[b], C)
        # The first of equal ones: the largest coverage, then the smallest penalty.
        best, penalty = np.unravel_index(np.argmax(np.round(scores, 9)), scores.shape)
        one, C = maps[best], penalties[penalty]
        if setup == 1:
            one.fit(X[train])
        result[method] = _correct(
            one.transform(X[train]), y[train], one.transform(X[test]), y[test], C
        )
        result[f"{method}_C"] = C
        if method == "ekm":
            result["coverage"] = coverages[best]
    return result


def _curve_cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    set: str,
    setup: int,
    repetition: int,
    penalties: list[float],
) -> dict:
    """Accuracies of the SVM on the held-out tenth for every C, none of them chosen."""
    X, y = _rows_of(sets, set)
    train, test = _split(rng, y)
    box = _Box().fit(X if setup == 2 else X[train])
    T, T_test = box.transform(X[train]), box.transform(X[test])
    return {"curve": [_correct(T, y[train], T_test, y[test], C) for C in penalties]}


def _cells(quick: bool) -> list[Cell]:
    repetitions, inner = (2, 2) if quick else (100, 10)
    grids = {
        "inner": inner,
        "coverages": list(_COVERAGES[::3] if quick else _COVERAGES),
        "penalties": list(_PENALTIES[::3] if quick else _PENALTIES),
    }
    cells = []
    # Repetition by repetition, so that a part of a run has some of every set.
    for i in range(repetitions):
        for setup in (1, 2):
            for name, published in _PUBLISHED.items():
                if not published[setup - 1]:
                    continue
                shared = {"set": name, "setup": setup, "repetition": i}
                draw, own = f"setup-{setup}/{name}/{i}", {"penalties": grids["penalties"]}
                cells.append(Cell(draw, _cell, {**shared, **grids}, data=(name,)))
                cells.append(
                    Cell(f"C/{draw}", _curve_cell, {**shared, **own}, data=(name,), draw=draw)
                )
    return cells


def _choices(results: Results) -> Iterator[Choice]:
    for cell in results.having("svm"):
        for method in _METHODS:
            value, grid = cell[f"{method}_C"], tried(cell, cell["penalties"], method, "C")
            # More than a tenth of its choices, and of no other's, are at an end.
            again: dict[str, Any] = {"search": (method, "C"), "beyond": _BEYOND}
            widens = method == "gaussian"
            yield Choice(f"{_TITLES[method]}, C", value, grid, **(again if widens else {}))
        yield Choice("EKM, coverage", cell["coverage"], cell["coverages"], natural=(1.0,))


def _rows(results: Results) -> Iterator[Row]:
    there: dict[int, list[str]] = {1: [], 2: []}
    for setup in (1, 2):
        for name, published in _PUBLISHED.items():
            numbers = published[setup - 1]
            if numbers is None:
                continue
            found = results.where(set=name, setup=setup).having("svm")
            for method, printed in zip(_METHODS, numbers):
                what = f"setup {setup}, {name}, {_TITLES[method]}"
                if not found:
                    yield not_run(what, _text(printed))
                elif name in _PAIRS:
                    accuracy = found[method]
                    ours = f"{accuracy.mean():.3f} ± {accuracy.std(ddof=1):.3f}"
                    yield not_comparable(what, _text(printed), ours, _OTHER_CLASSES)
                else:
                    yield _compared(what, printed, found[method])
            curves = results.where(set=name, setup=setup).having("curve")
            if curves:
                yield _curve_row(f"setup {setup}, {name}, SVM", curves, numbers[0], name in _PAIRS)
            if found:
                there[setup].append(name)
    for setup, names in there.items():
        if not names:
            continue
        found = results.where(setup=setup).having("svm")
        errors = {
            method: {name: 1.0 - found.where(set=name)[method] for name in names}
            for method in _METHODS
        }
        for rival in ("svm", "gaussian"):
            yield from _against(rival, setup, errors["ekm"], errors[rival])


def _against(
    rival: str, setup: int, ekm: dict[str, np.ndarray], other: dict[str, np.ndarray]
) -> Iterator[Row]:
    """Whether the EKM has fewer errors than a rival: on each set, on most sets, and on average."""
    title = _TITLES[rival]
    column = {name: both[setup - 1] for name, both in _PUBLISHED.items() if both[setup - 1]}
    printed = {name: n[2][0] - n[_METHODS.index(rival)][0] for name, n in column.items() if n}
    for name, lead in printed.items():
        if lead > 0.0 and name in ekm:
            what = f"setup {setup}, {name}: error of EKM below that of {title}"
            yield after_the_fact(claim(what, "lower mean", ekm[name], other[name], digits=3))
    won, lost = (sum(sign * lead > 0.0 for lead in printed.values()) for sign in (1, -1))
    count = wins(
        f"setup {setup}: sets on which EKM has a lower error than {title}",
        (won, len(printed)),
        [(name, float(np.mean(ekm[name] - other[name]))) for name in ekm],
        tie=0.0005,
        digits=3,
        printed=f"{won} of {len(printed)}, {len(printed) - won - lost} tied, {lost} lost",
    )
    yield count if rival == "svm" else after_the_fact(count)
    # The paper claims it for most sets, and splits of one set say nothing about another.
    means = [[float(np.mean(errors[name])) for name in ekm] for errors in (ekm, other)]
    what = f"setup {setup}: error of EKM below that of {title}, means of the sets"
    row = after_the_fact(claim(what, "EKM outperforms", means[0], means[1], digits=4))
    splits = np.concatenate([ekm[name] - other[name] for name in ekm])
    p = paired_p(splits)
    if p is not None:
        shown = "< 0.0001" if p < 1e-4 else f"= {p:.2g}"
        over = f"over {len(splits)} splits of these very sets, p {shown}"
        row = replace(row, why=f"{row.why}; {over}")
    yield row


def _text(printed: tuple[float, float]) -> str:
    return f"{printed[0]:.3f} ± {printed[1]:.3f}"


def _compared(what: str, printed: tuple[float, float], ours: np.ndarray) -> Row:
    mean, variance = printed
    # The spread in print is a variance over ten runs.
    error = float(np.sqrt(variance / 10.0))
    return mean_row(what, mean, ours, standard_error=error, printed=_text(printed), digits=3)


def _curve_row(what: str, found: Results, printed: tuple[float, float], other: bool) -> Row:
    """The SVM for every C, and where the printed number comes out."""
    curve, penalties = found["curve"], [f"2^{np.log2(C):g}" for C in found[0]["penalties"]]
    shown = " ".join(f"{value:.3f}" for value in curve.mean(axis=0))
    what = f"{what} for C = {penalties[0]} to {penalties[-1]}, none chosen"
    if other:
        return not_comparable(what, _text(printed), shown, _OTHER_CLASSES)
    rows = [_compared("", printed, accuracy) for accuracy in curve.T]
    at = [C for C, row in zip(penalties, rows) if row.verdict == "agrees"]
    where = f"C = {', '.join(at)}" if at else "no C"
    why = f"no C is chosen; by two standard errors of both means the printed one is met at {where}"
    return not_comparable(what, _text(printed), shown, f"{why}; {len(curve)} repetitions")


TABLE_2 = Experiment(
    name="ekm-table2",
    paper=EKM,
    title="accuracy of SVM, Gaussian whitening and EKM on eight sets, in two setups",
    cells=_cells,
    rows=_rows,
    choices=_choices,
    minutes=65,
    data=tuple(_PUBLISHED),
    protocol=(
        "A hundred times (in the paper ten), a random tenth is held out; on the rest ten random "
        "9:1 splits choose C (SVM, Gaussian) or coverage and C (EKM); the choice is fitted to the "
        "nine tenths and tested on the tenth. All three see the same splits. In setup 2 the maps "
        "come from the whole set, without its labels. Grids, which the paper does not list: "
        "coverage 0.65, 0.70, ..., 1; C 2⁻⁵, 2⁻³, ..., 2¹⁵. Where Gaussian whitening chose the "
        "smallest C, as in more than a quarter of the first results, its search has 2⁻⁷, 2⁻⁹ and "
        "2⁻¹¹ as well. The rows with every C show what the choice of C decides for the SVM. The "
        "SVM sees features scaled to [0, 1]. Of pendigits, iris and segment the two classes are "
        "taken that a linear classifier tells apart worst (5 and 8, versicolor and virginica, "
        "foliage and window); four columns of segment that are means and differences of others "
        "are left out."
    ),
    finding=(
        "There is no lead of the EKM over the SVM, nor over whitening, in either setup. The two "
        "differ by more than a point on iris, where the EKM is ahead by about two, and on sonar "
        "(setup 2), where it is behind by six, as by half a point in print. The paper claims a "
        "lead in most cases, so sets are what is counted here; over the splits of all sets "
        "together the EKM would be behind the SVM in setup 2, by sonar alone. Beyond the "
        "tolerance, in setup 1: our SVM is 3 points above the printed one on ionosphere, Gaussian "
        "whitening 7 above on heart and 3 on pima, and SVM and EKM 3 below theirs on pima; in "
        "setup 2, the SVM 3 above on pima. The paper does not say which C it searched; here all "
        "methods search the same wide grid. On ionosphere the smallest C of the grid comes "
        "nearest to the printed accuracy of the SVM in both setups. A tenth of 100 to 800 rows, "
        "as most sets have, is a small test part: one set alone says little."
    ),
    quick="2 repetitions and 2 inner splits instead of 100 and 10, every third value of the grids",
)
