"""Thirteen benchmark sets, all parameters of a method chosen together (table 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.model_selection import StratifiedKFold

from oblong import KernelFisherClassifier, RelativeMarginClassifier, SigmaSVC
from oblong_reproduction._counts import wins
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results, added, tried
from oblong_reproduction._papers import RMM
from oblong_reproduction._verdict import Row, claim, mean_row

_TITLES = {
    "svm": "SVM",
    "kfda": "KFDA",
    "sigma": "Σ-SVM",
    "rmm_tied": "RMM (C = D)",
    "rmm": "RMM",
}
# Test errors in per cent with their deviations, in the order of the titles.
_PUBLISHED = {
    "banana": ((10.5, 0.4), (10.8, 0.5), (10.5, 0.4), (10.4, 0.4), (10.4, 0.4)),
    "breast_cancer": ((25.3, 4.6), (26.6, 4.8), (28.8, 4.6), (25.9, 4.5), (25.4, 4.6)),
    "diabetis": ((23.1, 1.7), (23.2, 1.8), (24.2, 1.9), (23.1, 1.7), (23.0, 1.7)),
    "flare_solar": ((32.3, 1.8), (33.1, 1.6), (34.6, 2.0), (32.3, 1.8), (32.3, 1.8)),
    "german": ((23.4, 2.2), (24.1, 2.4), (25.9, 2.4), (23.4, 2.1), (23.2, 2.2)),
    "heart": ((15.5, 3.3), (15.7, 3.2), (19.9, 3.6), (15.4, 3.3), (15.2, 3.1)),
    "image": ((3.0, 0.6), (3.1, 0.6), (3.3, 0.7), (3.0, 0.6), (2.9, 0.7)),
    "ringnorm": ((1.5, 0.1), (1.5, 0.1), (1.5, 0.1), (1.5, 0.1), (1.5, 0.1)),
    "splice": ((10.9, 0.7), (10.6, 0.7), (10.8, 0.6), (10.8, 0.6), (10.8, 0.6)),
    "thyroid": ((4.7, 2.1), (4.2, 2.1), (4.5, 2.1), (4.2, 1.8), (4.2, 2.2)),
    "titanic": ((22.3, 1.1), (22.0, 1.3), (23.1, 2.2), (22.3, 1.1), (22.3, 1.0)),
    "twonorm": ((2.4, 0.1), (2.4, 0.2), (2.5, 0.2), (2.4, 0.1), (2.4, 0.1)),
    "waveform": ((9.9, 0.4), (9.9, 0.4), (10.5, 0.5), (10.0, 0.4), (9.7, 0.4)),
}
_PARTITIONS = {"image": 20, "splice": 20}
_SCALES = (0.0625, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
_FRACTIONS = (0.1, 0.5, 0.9, 0.99)
_RATIOS = (0.1, 1.0, 10.0, 100.0)
_NUS = (2.0, 5.0, 20.0, 100.0)
# Further values beyond the ends that more than a tenth of a method's choices lie at.
_BEYOND = {
    "scale": (1 / 256, 1 / 64),
    "C": (1e4,),
    "nu": (500.0,),
    "ratio": (1e3,),
    "alpha": (1e-5, 1e-4),
}
_BEYOND_C = ("svm", "rmm", "rmm_tied")
# Random numbers depend on the name of an experiment, and the stored results were made under this.
_DRAWN = "rmm-table4-joint"
_QUICK_SETS = ("breast_cancer", "heart", "thyroid")


def _partition(sets: Sets, name: str, split: int) -> tuple[np.ndarray, ...]:
    """Training and test rows of one partition, scaled by the training rows."""
    data = sets.load(f"ida_{name}")
    train = sets.extra(f"ida_{name}", "train_idx")[split].astype(int)
    test = np.setdiff1d(np.arange(len(data.y)), train)
    X = np.asarray(data.X, dtype=float)
    deviation = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    return X[train], data.y[train], X[test], data.y[test]


def _make(method: str, parameters: dict[str, float]) -> Any:
    """The classifier of a method."""
    made: dict[str, Any] = {
        "svm": RelativeMarginClassifier,
        "kfda": KernelFisherClassifier,
        "sigma": SigmaSVC,
    }
    fixed = {"spread": 1.0} if method == "svm" else {}
    return made.get(method, RelativeMarginClassifier)(**fixed, **parameters)


def _grid(method: str, full: bool) -> dict[str, Sequence[float]]:
    """The grid of a method; that of the RMM is without D = 0, which is the SVM."""
    own: dict[str, dict[str, Sequence[float]]] = {
        "svm": {"C": _PENALTIES},
        "kfda": {"alpha": _RIDGES},
        "sigma": {"C": _PENALTIES, "D": _FRACTIONS},
        "rmm_tied": {"C": _PENALTIES, "nu": _NUS},
        "rmm": {"C": _PENALTIES, "ratio": _RATIOS, "nu": _NUS},
    }
    grid = {"scale": _SCALES, **own[method]}
    return {name: values[:: 1 if full else 3] for name, values in grid.items()}


def _parameters(method: str, setting: Mapping[str, float], unit: float) -> dict[str, float]:
    """The parameters of the classifier: γ for its scale, and D for its ratio to C."""
    found = {name: value for name, value in setting.items() if name not in ("scale", "ratio")}
    if method in ("rmm", "rmm_tied"):
        nu = found.pop("nu")
        found |= {"D": setting.get("ratio", 1.0) * setting["C"], "nu": nu}
    return {**found, "gamma": setting["scale"] * unit}


def _choice_cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    stage: str,
    set: str,
    split: int,
    method: str,
    folds: int,
    full: bool,
    further: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    before: Mapping[str, Any] | None = None,
) -> dict:
    """The best parameters of a method on the training rows of a partition, the first of equals.

    With `further` values, the first choice and what they add are compared.
    """
    X, y, _, _ = _partition(sets, set, split)
    unit = 1.0 / float(np.median(pdist(X, "sqeuclidean")) or 1.0)
    cut = StratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**31)))
    parts = list(cut.split(X, y))
    grid = _grid(method, full)
    settings = [dict(zip(grid, values)) for values in product(*grid.values())]
    if further:
        settings = added(grid, further[method])
    candidates = [_parameters(method, setting, unit) for setting in settings]
    if before:
        candidates.insert(0, dict(before["parameters"]))
    best, least = candidates[0], np.inf
    for parameters in candidates:
        error = _validation_error(method, parameters, X, y, parts, least)
        if round(error, 9) < round(least, 9):
            best, least = parameters, error
    return {"parameters": best, "unit": unit, "error": float(least)}


def _validation_error(
    method: str,
    parameters: dict[str, float],
    X: np.ndarray,
    y: np.ndarray,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    least: float,
) -> float:
    """Mean error over the folds, or any number from the least so far on if it is not below that."""
    if method == "kfda":  # The error of leaving each row out is exact and costs no fits.
        return float(_make(method, parameters).fit(X, y).loo_error_[0])
    errors = np.zeros(len(parts))
    for k, (train, held) in enumerate(parts):
        errors[k] = _error(method, parameters, X[train], y[train], X[held], y[held])
        # The folds that are left cannot lower the mean. Means that differ by rounding are equal.
        if round(float(errors.mean()), 9) >= round(least, 9):
            break
    return float(errors.mean())


def _error(method: str, parameters: dict[str, float], *rows: np.ndarray) -> float:
    """Test error of a model: training rows and labels, test rows and labels."""
    X, y, Z, z = rows
    return float(np.mean(_make(method, parameters).fit(X, y).predict(Z) != z))


def _test_cell(
    sets: Sets, rng: np.random.Generator, *, stage: str, set: str, splits: list[int], chosen: dict
) -> dict:
    """Test errors of every method on some partitions, with parameters chosen before."""
    result: dict = {method: [] for method in _TITLES}
    for split in splits:
        X, y, Z, z = _partition(sets, set, split)
        for method in _TITLES:
            result[method].append(100.0 * _error(method, chosen[method], X, y, Z, z))
    return result


def _choice_cells(quick: bool) -> list[Cell]:
    return [
        Cell(
            f"choice/{name}/{i}/{method}",
            _choice_cell,
            {
                "stage": "choice",
                "set": name,
                "split": i,
                "method": method,
                "folds": 3 if quick or name in _PARTITIONS else 5,
                "full": not quick,
            },
            data=(f"ida_{name}",),
            draw=f"choice/{name}/{i}",
            owner=_DRAWN,
        )
        for name in (_QUICK_SETS if quick else _PUBLISHED)
        for i in range(1 if quick else 5)
        for method in _TITLES
    ]


def _test_cells(quick: bool, results: Results) -> list[Cell]:
    cells = []
    for name in _PUBLISHED:
        found = results.where(stage="choice", set=name)
        if not found:
            continue
        chosen = {}
        for method in _TITLES:
            tried = sorted(found.where(method=method), key=lambda cell: cell["error"])
            chosen[method] = tried[len(tried) // 2]["parameters"]
        number = 10 if quick else _PARTITIONS.get(name, 100)
        cells += [
            Cell(
                f"test/{name}/{start}",
                _test_cell,
                {
                    "stage": "test",
                    "set": name,
                    "splits": list(range(start, min(start + 10, number))),
                    "chosen": chosen,
                },
                data=(f"ida_{name}",),
            )
            for start in range(0, number, 10)
        ]
    return cells


def _choices(results: Results) -> Iterator[Choice]:
    signs = {"scale": "γ", "C": "C", "nu": "ν", "ratio": "D/C", "alpha": "ridge"}
    # Beyond these ends lies the SVM, which the RMM must not be: its lead could not fail then.
    natural = {"nu": (_NUS[0],), "ratio": (_RATIOS[0],)}
    for cell in results.where(stage="choice"):
        method, chosen = cell["method"], dict(cell["parameters"])
        chosen["scale"] = chosen["gamma"] / cell["unit"]
        chosen["ratio"] = chosen.get("D", 0.0) / chosen.get("C", 1.0)
        for name, grid in _grid(method, cell["full"]).items():
            if name in signs:
                again = name != "C" or method in _BEYOND_C
                yield Choice(
                    f"{_TITLES[method]}, {signs[name]}",
                    chosen[name],
                    tried(cell, grid, method, name),
                    natural.get(name, ()),
                    search=(method, name),
                    beyond=_BEYOND[name] if again else (),
                )


def _rows(results: Results) -> Iterator[Row]:
    pairs = []
    for name, published in _PUBLISHED.items():
        found = results.where(stage="test", set=name)
        errors = {m: np.concatenate([c[m] for c in found] or [[]]) for m in _TITLES}
        for (method, title), numbers in zip(_TITLES.items(), published):
            yield mean_row(
                f"{name}, {title}",
                numbers[0],
                errors[method],
                standard_error=numbers[1] / np.sqrt(_PARTITIONS.get(name, 100)),
                printed=f"{numbers[0]} ± {numbers[1]} %",
                unit="%",
            )
        if not found:
            continue
        pairs.append((name, float(np.mean(errors["rmm"] - errors["svm"]))))
        if published[4][0] < published[0][0]:
            what = f"{name}: RMM below SVM"
            yield claim(what, "lower mean", errors["rmm"], errors["svm"], unit="%")
    if pairs:
        before = sum(rmm[0] < svm[0] for svm, *_, rmm in _PUBLISHED.values())
        lost = sum(rmm[0] > svm[0] for svm, *_, rmm in _PUBLISHED.values())
        yield wins(
            "sets on which the RMM has a lower error than the SVM",
            (before, 13),
            pairs,
            tie=0.05,
            printed=f"{before} of 13, {13 - before - lost} tied, {lost} lost",
        )


TABLE_4 = Experiment(
    name="rmm-table4",
    paper=RMM,
    title="test errors of five kernel classifiers on thirteen benchmark sets",
    cells=_choice_cells,
    then=_test_cells,
    rows=_rows,
    minutes=170,
    finding=(
        "The RMM is below the SVM on one of the eight sets for which the paper says so, thyroid, "
        "and above it on four, banana, german, splice and waveform. On flat grids the choice is "
        "noise: ν is the smallest of its grid in half of the choices, and the RMM, which has "
        "sixteen times as many candidates as the SVM, has more noise to choose from. More than "
        "half of the printed means differ from ours by more than chance; neither partitions nor "
        "grids of the paper are ours. diabetis, KFDA: our threshold is midway between the class "
        "means, which does not suit classes of 35 and 65 %."
    ),
    data=tuple(f"ida_{name}" for name in _PUBLISHED),
    protocol=(
        "Gaussian kernel. All parameters of a method are chosen together by 5-fold cross- "
        "validation (3-fold for image and splice; leave-one-out for KFDA) on the training rows "
        "of each of the first five partitions; the choice of the partition with the median "
        "error is used on all. The partitions are random ones of the published sizes, not the "
        "authors', so means are to be compared and single partitions are not. Features "
        "standardised by the training rows. γ 1/16 to 8 over the median squared distance, C "
        "0.01 to 1,000, Σ-SVM with D 0.1, 0.5, 0.9 and 0.99; RMM in its relaxed form (15) with "
        "D 0.1, 1, 10, 100 times C and ν 2, 5, 20, 100, and never D = 0, which is the SVM. "
        "Searches that ended at an open end were repeated with values beyond it: γ 1/64 and 1/256, "
        "C 10,000, D 1,000 times C, ν 500, ridges 1e-4 and 1e-5. C 10,000 for the SVM was added "
        "when the results of the others had been seen. The other five columns of the table, RBF "
        "networks and boosting, are not part of this library."
    ),
    quick="3 sets, parameters from one partition, 10 test partitions, every third grid value",
    choices=_choices,
)
