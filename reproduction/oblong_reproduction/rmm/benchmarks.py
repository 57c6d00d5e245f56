"""Thirteen benchmark sets with their partitions (table 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.model_selection import StratifiedKFold

from oblong import (
    KernelFisherClassifier,
    RelativeMarginClassifier,
    RelativeMarginClassifierCV,
    SigmaSVC,
)
from oblong_reproduction._counts import wins
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results
from oblong_reproduction._verdict import Row, claim, mean_row, statement
from oblong_reproduction.rmm._paper import PAPER

__all__ = ["PARTITIONS", "PUBLISHED", "TABLE_4", "TITLES", "make", "partition"]

TITLES = {
    "svm": "SVM",
    "kfda": "KFDA",
    "sigma": "Σ-SVM",
    "rmm_tied": "RMM (C = D)",
    "rmm": "RMM",
}
# Test errors in per cent with their deviations, in the order of the titles.
PUBLISHED = {
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
PARTITIONS = {"image": 20, "splice": 20}
_SCALES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_PENALTIES = (0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
_QUICK_SETS = ("breast_cancer", "heart", "thyroid")


def partition(sets: Sets, name: str, split: int) -> tuple[np.ndarray, ...]:
    """Training and test rows of one partition, scaled by the training rows."""
    data = sets.load(f"ida_{name}")
    train = sets.extra(f"ida_{name}", "train_idx")[split].astype(int)
    test = np.setdiff1d(np.arange(len(data.y)), train)
    X = np.asarray(data.X, dtype=float)
    deviation = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    return X[train], data.y[train], X[test], data.y[test]


def make(method: str, parameters: dict[str, float]) -> Any:
    """The classifier of a method."""
    made: dict[str, Any] = {
        "svm": RelativeMarginClassifier,
        "kfda": KernelFisherClassifier,
        "sigma": SigmaSVC,
    }
    fixed = {"spread": 1.0} if method == "svm" else {}
    return made.get(method, RelativeMarginClassifier)(**fixed, **parameters)


def _search(
    method: str,
    candidates: list[dict[str, float]],
    X: np.ndarray,
    y: np.ndarray,
    folds: list[tuple[np.ndarray, np.ndarray]],
) -> tuple[dict[str, float], float]:
    """Best candidate, the first of equal ones, and its cross-validated error."""
    errors = np.zeros(len(candidates))
    for train, held in folds:
        for k, parameters in enumerate(candidates):
            model = make(method, parameters).fit(X[train], y[train])
            errors[k] += np.mean(model.predict(X[held]) != y[held]) / len(folds)
    best = int(np.argmin(np.round(errors, 9)))
    return candidates[best], float(errors[best])


def _choice_cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    stage: str,
    set: str,
    split: int,
    folds: int,
    full: bool,
) -> dict:
    """Parameters of every method, chosen on the training rows of one partition."""
    X, y, _, _ = partition(sets, set, split)
    unit = 1.0 / float(np.median(pdist(X, "sqeuclidean")) or 1.0)
    cut = StratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**31)))
    parts = list(cut.split(X, y))
    scales, penalties = (_SCALES, _PENALTIES) if full else (_SCALES[::2], _PENALTIES[1::2])
    search = RelativeMarginClassifierCV(
        Cs=penalties, gammas=[s * unit for s in scales], spreads=(1.0,), cv=parts, refit=False
    ).fit(X, y)
    gamma, C = float(search.gamma_), float(search.C_)
    svm_error = 1.0 - search.best_score_
    result: dict = {"svm": {"C": C, "gamma": gamma}}
    # The error of leaving each row out is exact and costs no fits.
    ridges = [10.0**k for k in range(-3, 3)]
    fisher = [{"alpha": a, "gamma": s * unit} for s in scales for a in ridges]
    left_out = [float(make("kfda", p).fit(X, y).loo_error_[0]) for p in fisher]
    result["kfda"] = fisher[int(np.argmin(np.round(left_out, 9)))]
    shares, prices, outliers = [0.1, 0.5, 0.9, 0.99], [0.1, 1.0, 10.0, 100.0], [2.0, 5.0, 20.0]
    if not full:
        shares, prices, outliers = shares[1:3], prices[1:3], outliers[1:2]
    near = [C * factor for factor in ((0.3, 1.0, 3.0) if full else (1.0,))]
    found, error = _search(
        "sigma", [{"C": c, "D": D, "gamma": gamma} for D in shares for c in near], X, y, parts
    )
    result["sigma"] = found if error < svm_error else {"C": C, "D": 0.0, "gamma": gamma}
    tied = [{"C": c, "D": c, "nu": nu, "gamma": gamma} for c in penalties for nu in outliers]
    result["rmm_tied"], _ = _search("rmm_tied", tied, X, y, parts)
    free = [
        {"C": c, "D": price * c, "nu": nu, "gamma": gamma}
        for price in prices
        for nu in outliers
        for c in near
    ]
    found, error = _search("rmm", free, X, y, parts)
    without = {"C": C, "D": 0.0, "nu": found["nu"], "gamma": gamma}
    result["rmm"] = found if error < svm_error else without
    return result


def _test_cell(
    sets: Sets, rng: np.random.Generator, *, stage: str, set: str, splits: list[int], chosen: dict
) -> dict:
    """Test errors of every method on some partitions, with parameters chosen before."""
    result: dict = {method: [] for method in TITLES}
    for split in splits:
        X, y, Z, z = partition(sets, set, split)
        for method in TITLES:
            model = make(method, chosen[method]).fit(X, y)
            result[method].append(100.0 * float(np.mean(model.predict(Z) != z)))
    return result


def _choice_cells(quick: bool) -> list[Cell]:
    return [
        Cell(
            f"choice/{name}/{i}",
            _choice_cell,
            {
                "stage": "choice",
                "set": name,
                "split": i,
                "folds": 3 if quick or name in PARTITIONS else 5,
                "full": not quick,
            },
            data=(f"ida_{name}",),
        )
        for name in (_QUICK_SETS if quick else PUBLISHED)
        for i in range(1 if quick else 5)
    ]


def _test_cells(quick: bool, results: Results) -> list[Cell]:
    cells = []
    for name in PUBLISHED:
        found = results.where(stage="choice", set=name)
        if not found:
            continue
        chosen = {
            method: {
                key: float(np.median([cell[method][key] for cell in found]))
                for key in found[0][method]
            }
            for method in TITLES
        }
        number = 10 if quick else PARTITIONS.get(name, 100)
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
    for cell in results.where(stage="choice"):
        for method, title in TITLES.items():
            chosen = cell[method]
            if method in ("svm", "rmm_tied"):
                yield Choice(f"{title}, C", chosen["C"], _PENALTIES)
            if method.startswith("rmm") and chosen["D"] > 0.0:
                yield Choice(f"{title}, ν", chosen["nu"], (2.0, 5.0, 20.0))
            if method == "rmm" and chosen["D"] > 0.0:
                yield Choice(f"{title}, D/C", chosen["D"] / chosen["C"], (0.1, 1.0, 10.0, 100.0))
            if method == "kfda":
                yield Choice(f"{title}, ridge", chosen["alpha"], [10.0**k for k in range(-3, 3)])


def _rows(results: Results) -> Iterator[Row]:
    pairs = []
    for name, published in PUBLISHED.items():
        found = results.where(stage="test", set=name)
        errors = {m: np.concatenate([c[m] for c in found] or [[]]) for m in TITLES}
        for (method, title), numbers in zip(TITLES.items(), published):
            what = f"{name}, {title}"
            yield mean_row(
                what,
                numbers[0],
                errors[method],
                standard_error=numbers[1] / np.sqrt(PARTITIONS.get(name, 100)),
                printed=f"{numbers[0]} ± {numbers[1]} %",
                unit="%",
            )
        if not found:
            continue
        pairs.append((name, float(np.mean(errors["rmm"] - errors["svm"]))))
        if published[4][0] < published[0][0]:
            what = f"{name}: RMM below SVM"
            if found[0]["chosen"]["rmm"]["D"] == 0.0:
                yield statement(what, "lower mean", "the chosen RMM is the SVM", None, "D = 0")
            else:
                yield claim(what, "lower mean", errors["rmm"], errors["svm"], unit="%")
    if pairs:
        columns = [numbers for name, numbers in PUBLISHED.items()]
        before = sum(rmm[0] < svm[0] for svm, *_, rmm in columns)
        lost = sum(rmm[0] > svm[0] for svm, *_, rmm in columns)
        yield wins(
            "sets on which the RMM has a lower error than the SVM",
            (before, len(columns)),
            pairs,
            tie=0.05,
            printed=f"{before} of 13, {13 - before - lost} tied, {lost} lost",
        )


TABLE_4 = Experiment(
    name="rmm-table4",
    paper=PAPER,
    title="test errors of five kernel machines on thirteen benchmark sets",
    cells=_choice_cells,
    then=_test_cells,
    rows=_rows,
    minutes=30,
    data=tuple(f"ida_{name}" for name in PUBLISHED),
    protocol=(
        "Gaussian kernel. Parameters are chosen by 5-fold cross-validation (3-fold for image and "
        "splice; leave-one-out for KFDA) on the training rows of the first five partitions; the "
        "median of the five is used on all. The partitions are random ones of the published "
        "sizes, not the authors', so means are to be compared and single partitions are not. "
        "Features standardised by the training rows. γ 0.25 to 8 over the median squared distance, "
        "C 0.3 to 1,000; at the SVM's γ: Σ-SVM with C a third to three times the SVM's and D 0, "
        "0.1, 0.5, 0.9, 0.99; RMM in its relaxed form (15) with the same C, D 0, 0.1, 1, 10, 100 "
        "times C and ν 2, 5, 20; RMM (C = D) with C 0.3 to 1,000. The other five columns of the "
        "table, RBF networks and boosting, are not part of this library."
    ),
    finding=(
        "The published partitions are not ours, nor are its grids, and half of the means differ by "
        "more than chance. diabetis, KFDA: the threshold of ours "
        "is midway between the class means, which does not suit classes of 35 and 65 %; the usual "
        "one, a linear SVM on the single output, takes 25.1 down to 24.0 % over 30 partitions. "
        "banana, RMM: the five partitions choose C from 1 to 1,000 and the medians of C and γ, "
        "taken apart, make a pair that none of them chose; C = 10 at about the same γ has 10.6 %, "
        "inside the published spread, and for the SVM it is the same. heart, Σ-SVM: ours is better "
        "than the published one; our search takes C = 0.3 and D = 0.1, near the SVM. With 100 "
        "times that C and D of 0.5 or 0.9 it makes 19 and 22 % over 30 partitions, so that the "
        "paper's 19.9 % look like a choice of larger parameters. That the RMM gains on the SVM "
        "is not seen in ours: the two differ by at most 0.07 points on every set, and on four sets "
        "the choice falls on D = 0, which is the SVM. γ is that of the SVM, and the medians of "
        "parameters are taken apart; a joint search may find more, and has not been run."
    ),
    choices=_choices,
    quick="3 sets, parameters from one partition, 10 test partitions, every second grid value",
)
