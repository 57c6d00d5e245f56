"""Hard-margin machines with a Gaussian kernel on eleven sets (figure 1, left)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.preprocessing import StandardScaler

from oblong import BayesPointClassifier, EllipsoidalSVC, RelativeMarginClassifier
from oblong_reproduction._counts import wins
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Experiment, Results
from oblong_reproduction._papers import ESVM
from oblong_reproduction._verdict import (
    Row,
    claim,
    mean_row,
    no_difference,
    not_comparable,
    not_run,
)
from oblong_reproduction.esvm._tables import error, whole


@dataclass(frozen=True)
class _Published:
    """Errors in percent with their standard errors; whether they are significantly below SVM."""

    data: str
    svm: tuple[float, float]
    bpm: tuple[float, float]
    esvm: tuple[float, float]
    bpm_below: bool = True
    esvm_below: bool = True


PUBLISHED = {
    "thyroid": _Published("ida_thyroid", (4.96, 0.24), (4.24, 0.22), (4.42, 0.25)),
    "heart": _Published("ida_heart", (25.86, 0.40), (22.58, 0.33), (20.87, 0.32)),
    "diabetes": _Published("ida_diabetis", (33.87, 0.21), (31.06, 0.22), (29.68, 0.24)),
    "wave": _Published("ida_waveform", (13.19, 0.12), (12.02, 0.08), (11.59, 0.07)),
    "banana": _Published("ida_banana", (16.24, 0.14), (13.70, 0.10), (12.76, 0.08)),
    "wisc-bc": _Published("breast_wisconsin", (4.22, 0.13), (2.56, 0.10), (3.28, 0.12)),
    "bupa": _Published("bupa", (37.04, 0.39), (34.5, 0.38), (32.71, 0.35)),
    "german": _Published("ida_german", (30.07, 0.22), (27.16, 0.24), (26.34, 0.27)),
    "breast": _Published("ida_breast_cancer", (35.17, 0.51), (33.04, 0.48), (31.96, 0.51)),
    "sonar": _Published("sonar", (14.90, 0.38), (16.26, 0.36), (16.87, 0.38), False, False),
    "ionosphere": _Published("ionosphere", (7.94, 0.25), (11.45, 0.25), (5.92, 0.21), False),
}
TITLES = {"svm": "SVM", "bpm": "Bayes point", "esvm": "e-SVM"}
# exp(-γ |x - z|²) with γ = 2^k over the number of features, of variance one.
_WIDTHS = tuple(range(-6, 5))
_SPLITS = 5
_FITTED = "the width was chosen with the SVM's test error"
# Points of error that are no difference, on ten splits. Errors fall and rise again with the width,
# so that two widths may have the published error: the wider is taken.
_NEAR = 0.75


def _split(sets: Sets, name: str, y: np.ndarray, split: int) -> tuple[np.ndarray, np.ndarray]:
    """The partition that comes with a set, or a random one of three to two."""
    if name.startswith("ida_"):
        train = sets.extra(name, "train_idx")[split].astype(np.intp)
    else:
        train = np.random.default_rng(split).permutation(len(y))[: round(0.6 * len(y))]
    test = np.ones(len(y), dtype=bool)
    test[train] = False
    return train, np.flatnonzero(test)


def _parts(sets: Sets, name: str, split: int) -> tuple[np.ndarray, ...]:
    X, y = whole(sets, name)
    train, test = _split(sets, name, y, split)
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def _svm(gamma: float) -> RelativeMarginClassifier:
    # Rows that contradict each other leave nothing to separate: then the price decides, and the
    # limit on the steps keeps that from taking forever.
    return RelativeMarginClassifier(C=1e6, spread=1.0, gamma=gamma, max_iter=200_000)


def _width_cell(
    sets: Sets, rng: np.random.Generator, *, set: str, splits: int, widths: list[int]
) -> dict:
    """Errors of the support vector machine for all widths."""
    name = PUBLISHED[set].data
    training, test = np.zeros(len(widths)), np.zeros(len(widths))
    for split in range(splits):
        X, y, X_test, y_test = _parts(sets, name, split)
        for i, k in enumerate(widths):
            model = _svm(2.0**k / X.shape[1]).fit(X, y)
            training[i] += error(model, X, y) / splits
            test[i] += error(model, X_test, y_test) / splits
    return {"width_training": training, "width_test": test}


def compare_cell(
    sets: Sets, rng: np.random.Generator, *, set: str, first: int, splits: int, width: int
) -> dict:
    """Test errors of the three classifiers on some splits."""
    errors: dict[str, list[float]] = {method: [] for method in TITLES}
    for split in range(first, first + splits):
        X, y, X_test, y_test = _parts(sets, PUBLISHED[set].data, split)
        gamma = 2.0**width / X.shape[1]
        models = {
            "svm": _svm(gamma),
            "bpm": BayesPointClassifier(gamma=gamma),
            "esvm": EllipsoidalSVC(margin="hard", r=1.0 - 1e-6, gamma=gamma),
        }
        for method, model in models.items():
            errors[method].append(error(model.fit(X, y), X_test, y_test))
    return {"errors": errors}


def width_cells(quick: bool, owner: str | None = None) -> list[Cell]:
    """Cells that say which widths separate the training rows."""
    parameters = {"splits": 2 if quick else 10, "widths": list(_WIDTHS[::2] if quick else _WIDTHS)}
    return [
        Cell(
            f"width/{name}",
            _width_cell,
            {"set": name, **parameters},
            data=(published.data,),
            owner=owner,
        )
        for name, published in PUBLISHED.items()
    ]


def separates(cell: dict) -> np.ndarray:
    """Which widths separate the training rows as far as any does."""
    return np.array(cell["width_training"]) <= np.min(cell["width_training"]) + 0.1


def _width(cell: dict, published: float) -> int:
    """The widest kernel with the published error, of those that separate as far as any does."""
    away = np.abs(np.array(cell["width_test"]) - published)
    away[~separates(cell)] = np.inf
    near = np.flatnonzero(away <= max(_NEAR, float(away.min())))
    return int(cell["widths"][near[0]])


def _then(quick: bool, results: Results) -> list[Cell]:
    cells = []
    for name, published in PUBLISHED.items():
        for cell in results.where(set=name).having("width_test"):
            width = _width(cell, published.svm[0])
            splits = 1 if quick else _SPLITS
            cells += [
                Cell(
                    f"{name}/{first}",
                    compare_cell,
                    {"set": name, "first": first, "splits": splits, "width": width},
                    data=(published.data,),
                )
                for first in range(cell["splits"], 4 if quick else 100, splits)
            ]
    return cells


def _errors(found: Results, method: str) -> np.ndarray:
    return np.concatenate([np.asarray(cell["errors"][method], dtype=float) for cell in found])


def _rows(results: Results) -> Iterator[Row]:
    means: dict[str, dict[str, float]] = {}
    judged = _free_of_test_data(results)
    for name, published in PUBLISHED.items():
        found = _tested(results, name)
        if not found:
            yield not_run(name, "errors of SVM, Bayes point and e-SVM")
            continue
        errors = {method: _errors(found, method) for method in TITLES}
        means[name] = {method: float(values.mean()) for method, values in errors.items()}
        for method, title in TITLES.items():
            mean, se = getattr(published, method)
            printed, values = f"{mean:.2f} ({se:.2f})", errors[method]
            own = float(values.std(ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            if method == "svm" or name not in judged:
                why = f"{_FITTED}: 2^{found[0]['width']} over the features"
                yield not_comparable(
                    f"{name}, {title}", printed, f"{values.mean():.2f} ({own:.2f}) %", why
                )
                continue
            yield mean_row(
                f"{name}, {title}",
                mean,
                values,
                standard_error=se,
                printed=printed,
                digits=2,
                unit="%",
            )
        for method in ("bpm", "esvm"):
            pair = (method, "svm") if getattr(published, f"{method}_below") else ("svm", method)
            row = claim(
                f"{name}: {TITLES[pair[0]]} below {TITLES[pair[1]]}",
                "significantly below" if pair[1] == "svm" else "below",
                errors[pair[0]],
                errors[pair[1]],
                unit="%",
            )
            if name not in judged:
                row = not_comparable(row.what, row.paper, row.ours, _FITTED)
            yield row
    yield from _count_rows({name: means[name] for name in means if name in judged})


def _free_of_test_data(results: Results) -> set[str]:
    """Sets whose width is the widest that separates the training rows, whatever the test says."""
    widest = {
        cell["set"]: int(cell["widths"][np.flatnonzero(separates(cell))[0]])
        for cell in results.having("width_training")
    }
    taken = {cell["set"]: cell["width"] for cell in results.having("errors")}
    return {name for name, width in taken.items() if widest.get(name) == width}


def _tested(results: Results, name: str) -> Results:
    """Splits after those that chose the width."""
    cells = results.where(set=name)
    chosen_on = max((cell["splits"] for cell in cells.having("width_test")), default=0)
    return Results(cell for cell in cells.having("errors") if cell["first"] >= chosen_on)


def _count_rows(means: dict[str, dict[str, float]]) -> Iterator[Row]:
    if not means:
        return
    for method in ("bpm", "esvm"):
        published = sum(getattr(PUBLISHED[name], f"{method}_below") for name in means)
        yield wins(
            f"sets with a width free of test data, {TITLES[method]} with fewer errors than SVM",
            (published, len(means)),
            [(name, mean[method] - mean["svm"]) for name, mean in means.items()],
            tie=0.005,
            printed=f"{published} of {len(means)}, significantly",
        )
    yield no_difference(
        "errors of e-SVM and of Bayes point, means of the sets",
        "very similar",
        [mean["esvm"] for mean in means.values()],
        [mean["bpm"] for mean in means.values()],
        unit="%",
    )


FIGURE_1 = Experiment(
    name="esvm-fig1",
    paper=ESVM,
    title="hard margin: SVM, Bayes point and e-SVM with a Gaussian kernel on eleven sets",
    cells=width_cells,
    then=_then,
    rows=_rows,
    minutes=30,
    data=tuple(published.data for published in PUBLISHED.values()),
    protocol=(
        "The last 90 of 100 splits: those of the benchmark (made anew, of the same sizes) where "
        "there are some, else three to two; they do not depend on the seed. Features with variance "
        "one. The widths are in another paper, which we do not have: on the first ten splits, "
        "which are not tested, the widest, of exp(−γ |x − z|²) with γ = 2⁻⁶ to 2⁴ over the number "
        "of features, is taken with which the support vector machine separates the rows and has "
        "the published error to 0.75 points. Other splits have the same rows, so that such a width "
        "has seen test rows: a set is judged only if the width is the widest that separates the "
        "training rows, which needs no test data. e-SVM with r = 1 − 10⁻⁶. The Bayes point is "
        "found by expectation propagation, in the paper by a billiard."
    ),
    finding=(
        "The narrower the kernel, the less e-SVM gains: on ionosphere with γ = 2⁴ over the "
        "features it has 22 % errors (four splits) where the SVM has 11 %, at a certified optimum; "
        "with γ = 2 over the features, 3.9 % against 5.2 %. Widths therefore decide who wins, and "
        "the paper's are not known to us. A first rule, the width whose error is nearest to the "
        "published one, took that narrow kernel for ionosphere; the rule above was made after this "
        "had been seen, and favours e-SVM there. esvm-fig1-widths has the whole curve."
    ),
    quick="2 splits, every other width",
)
