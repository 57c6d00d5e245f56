"""Seven classifiers with the same number of candidates: a table that no paper has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from oblong import KernelFisherClassifier, RelativeMarginClassifier, SigmaSVC
from oblong_reproduction._counts import wins
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results, added, tried
from oblong_reproduction._papers import OURS
from oblong_reproduction._verdict import Row, claim, not_comparable
from oblong_reproduction.cw.text import TEXT_TASKS, text_task
from oblong_reproduction.rmm._distributions import LDM, ODM, Pairs

_TABLES = (
    *("banana", "breast_cancer", "diabetis", "flare_solar", "german", "heart", "image"),
    *("ringnorm", "splice", "thyroid", "titanic", "twonorm", "waveform"),
)
_DIGITS = ("optdigits", "usps", "mnist")
_TITLES = {
    "rmm": "RMM",
    "sigma": "Σ-SVM",
    "kfda": "KFDA",
    "ldm": "LDM",
    "odm": "ODM",
    "trees": "gradient boosting",
}
_WIDTHS = (1 / 128, 1 / 32, 1 / 8, 0.5, 2.0, 8.0)
# Parameters with more than two values, whose ends mean something.
_SEARCHED = ("width", "C", "alpha", "learning_rate")
# Further values beyond the end that a choice lies at.
_BEYOND_WIDTH = (1 / 2048, 1 / 512, 32.0, 128.0)
_BEYOND = {
    "svm": (1e-5, 1e-4, 1e7),
    "rmm": (1e-3, 1e-2, 1e4, 1e5),
    "sigma": (1e-4, 1e-3, 1e3, 1e4),
    "kfda": (1e-8, 1e-7, 1e4, 1e5),
    "ldm": (1e-3, 1e-2, 1e4, 1e5),
    "odm": (1e-3, 1e-2, 1e4, 1e5),
    "trees": (0.001, 0.003),
}
# A learning rate of one takes whole steps.
_NATURAL = {"learning_rate": (1.0,)}
_SPLITS, _SPLITS_OF_MANY = 20, 10
_ROWS, _TESTED = 400, 3000
# Columns of a text that gradient boosting sees.
_WORDS = 300


def _grid(method: str, widths: Sequence[float] = _WIDTHS) -> dict[str, Sequence[Any]]:
    """The widths and ten other candidates; gradient boosting has no width."""
    penalties = (0.1, 1.0, 10.0, 100.0, 1e3)
    own: dict[str, dict[str, Sequence[Any]]] = {
        "svm": {"C": [10.0**k for k in range(-3, 7)], "spread": (1.0,)},
        "rmm": {"C": penalties, "spread": (0.5, 0.1)},
        "sigma": {"C": (0.01, 0.1, 1.0, 10.0, 100.0), "D": (0.5, 0.99)},
        "kfda": {"alpha": [10.0**k for k in range(-6, 4)]},
        "ldm": {"C": penalties, "share": (0.01, 0.1)},
        "odm": {"C": penalties, "weights": ((0.2, 0.5), (0.5, 0.2))},
        "trees": {"learning_rate": (0.01, 0.03, 0.1, 0.3, 1.0), "max_leaf_nodes": (4, 16)},
    }
    return own[method] if method == "trees" else {"width": widths, **own[method]}


def _make(method: str, setting: Mapping[str, Any], unit: float, n: int, classes: int) -> Any:
    """The classifier of a setting, for so many rows and classes."""
    if method == "trees":
        return HistGradientBoostingClassifier(max_iter=100, random_state=0, **setting)
    parameters = {**setting, "gamma": setting["width"] * unit}
    del parameters["width"]
    if method == "ldm":
        # The terms of the distribution are means and the loss is a sum: they grow with the rows.
        weight = parameters.pop("share") * parameters["C"] * n
        parameters |= {"lambda1": weight, "lambda2": weight}
    if method == "odm":
        parameters["theta"], parameters["upsilon"] = parameters.pop("weights")
    made = {"sigma": SigmaSVC, "kfda": KernelFisherClassifier, "ldm": LDM, "odm": ODM}
    model = made.get(method, RelativeMarginClassifier)(**parameters)
    return Pairs(model) if method in ("ldm", "odm") and classes > 2 else model


def _parts(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Training and test rows of so many."""
    return np.split(rng.permutation(n)[: _ROWS + _TESTED], [min(_ROWS, 2 * n // 3)])


def _drawn(sets: Sets, name: str, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Training and test rows and labels, and the rows for gradient boosting."""
    if name in TEXT_TASKS:
        words, y = text_task(sets, name)
        train, test = _parts(rng, len(y))
        common = np.argsort(-words[train].getnnz(axis=0), kind="stable")[:_WORDS]
        few = words[:, common]
        seen = few[train].toarray(), few[test].toarray()
        return *_coordinates(*_weighted(words[train], words[test])), y[train], y[test], *seen
    data = sets.load(name)
    X, y = np.asarray(data.X, dtype=float), data.y
    train, test = _parts(rng, len(y))
    deviation = X[train].std(axis=0)
    scale = X[train].std() if name in _DIGITS else np.where(deviation > 0.0, deviation, 1.0)
    X = (X - X[train].mean(axis=0)) / scale
    return X[train], X[test], y[train], y[test], X[train], X[test]


def _weighted(A: sp.csr_matrix, B: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Rows of unit length; sets of words are weighted by how rare they are in the first rows."""
    if np.all(A.data == 1.0):
        weights = TfidfTransformer().fit(A)
        return weights.transform(A), weights.transform(B)
    return normalize(A), normalize(B)


def _coordinates(A: sp.csr_matrix, B: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows with the distances of the first rows to each other and to the second ones.

    What the second rows have outside the span of the first is in a column of its own.
    """
    values, vectors = np.linalg.eigh((A @ A.T).toarray())
    kept = values > 1e-10 * values[-1]
    base = vectors[:, kept] / np.sqrt(values[kept])
    found = [(M @ A.T).toarray() @ base for M in (A, B)]
    squares = np.asarray(B.multiply(B).sum(axis=1)).ravel() - np.sum(found[1] ** 2, axis=1)
    beside = np.zeros(A.shape[0]), np.sqrt(np.maximum(squares, 0.0))
    inside, outside = (np.column_stack(both) for both in zip(found, beside))
    return inside, outside


def _cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    set: str,
    split: int,
    folds: int,
    widths: Sequence[float],
    further: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    before: Mapping[str, Any] | None = None,
) -> dict:
    """Test errors of all methods, each with its own choice among as many candidates.

    With `further` values, only of those methods whose choice changes.
    """
    X, T, y, t, *seen = _drawn(sets, set, rng)
    unit = 1.0 / float(np.median(pdist(X, "sqeuclidean")) or 1.0)
    cut = StratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**31)))
    parts, classes = list(cut.split(X, y)), len(np.unique(y))
    result: dict = {key: dict(before[key]) if before else {} for key in ("chosen", "validation")}
    for method in further or ("svm", *_TITLES):
        A, B = seen if method == "trees" else (X, T)
        grid = _grid(method, widths)
        candidates = [dict(zip(grid, values)) for values in product(*grid.values())]
        if method == "trees" and (set in _DIGITS or set in TEXT_TASKS):
            # Of hundreds of columns they would take longer than all others.
            candidates = [{"learning_rate": 0.1, "max_leaf_nodes": 16}]
        first: list[dict[str, Any]] = []
        if before and further:
            # Parameters with two values are not recorded: both are tried once more.
            chosen = before["chosen"][method].items()
            first = [one for one in candidates if all(np.isclose(one[k], v) for k, v in chosen)]
            candidates = [*first, *added(grid, further[method])]
        errors = [
            sum(
                np.mean(
                    _make(method, one, unit, len(y), classes).fit(A[a], y[a]).predict(A[b]) != y[b]
                )
                for a, b in (parts if len(candidates) > 1 else ())
            )
            for one in candidates
        ]
        best = int(np.argmin(np.round(errors, 9)))
        if best < len(first):
            continue
        if len(candidates) > 1:
            result["chosen"][method] = {k: v for k, v in candidates[best].items() if k in _SEARCHED}
            result["validation"][method] = 100.0 * float(errors[best]) / folds
        model = _make(method, candidates[best], unit, len(y), classes).fit(A, y)
        result[method] = 100.0 * float(np.mean(model.predict(B) != t))
    return result


def _cells(quick: bool) -> list[Cell]:
    splits = {
        **dict.fromkeys((f"ida_{name}" for name in _TABLES), _SPLITS),
        **dict.fromkeys((*_DIGITS, *TEXT_TASKS), _SPLITS_OF_MANY),
    }
    # Split by split, so that a part of a run has some of every set.
    return [
        Cell(
            f"{name}/{split}",
            _cell,
            {"set": name, "split": split, "folds": 3, "widths": list(_WIDTHS)},
            data=(TEXT_TASKS.get(name, name),),
        )
        for split in range(1 if quick else _SPLITS)
        for name in (("ida_heart",) if quick else splits)
        if split < splits[name]
    ]


def _choices(results: Results) -> Iterator[Choice]:
    for cell in results:
        for method, chosen in cell["chosen"].items():
            for name, value in chosen.items():
                values = tried(cell, _grid(method, cell["widths"])[name], method, name)
                # No value can have fewer validation errors than none.
                perfect = cell["validation"][method] == 0.0
                yield Choice(
                    f"{_TITLES.get(method, 'SVM')}, {name}",
                    value,
                    values,
                    tuple(values) if perfect else _NATURAL.get(name, ()),
                    search=(method, name),
                    beyond=_BEYOND_WIDTH if name == "width" else _BEYOND.get(method, ()),
                )


def _rows(results: Results) -> Iterator[Row]:
    names = list(dict.fromkeys(cell["set"] for cell in results))
    kinds = {
        "tables": [name for name in names if name.startswith("ida_")],
        "sets of digits and text": [name for name in names if not name.startswith("ida_")],
    }
    for name in names:
        part = results.where(set=name)
        means = {title: part[method].mean() for method, title in {"svm": "SVM", **_TITLES}.items()}
        shown = ", ".join(f"{title} {mean:.1f}" for title, mean in means.items())
        why = f"means of {len(part)} splits; no paper has this table"
        yield not_comparable(f"{name}: test errors in percent", "", shown, why)
    for method, title in _TITLES.items():
        for kind, among in kinds.items():
            parts = {name: results.where(set=name) for name in among}
            for name, part in parts.items():
                yield claim(f"{name}: {title} below SVM", "", part[method], part["svm"], unit="%")
            gains = [(name, float(np.mean(p[method] - p["svm"]))) for name, p in parts.items()]
            if gains:
                what = f"{kind} on which {title} is below SVM"
                yield wins(what, (1, 2), gains, tie=0.05, printed="more than half")


RIVALS = Experiment(
    name="rmm-rivals",
    paper=OURS,
    title="seven classifiers with the same number of candidates, beside the SVM",
    cells=_cells,
    rows=_rows,
    choices=_choices,
    minutes=25,
    data=(*(f"ida_{name}" for name in _TABLES), *_DIGITS, *dict.fromkeys(TEXT_TASKS.values())),
    protocol=(
        "Gaussian kernel, 400 training rows (two thirds of smaller sets) and up to 3,000 test "
        "rows, 20 random splits of the tables and 10 of digits and text, features standardised by "
        "the training rows (digits by one number). Texts are the eight tasks of cw-fig2c, as "
        "sets of words weighted by how rare they are in the training rows (Reuters as it "
        "comes), of length one. Each method chooses among 60 candidates, six widths and ten of "
        "its own parameters, by 3-fold cross-validation; gradient boosting, for orientation, among "
        "ten, on digits and on the 300 most frequent words of a text with a learning rate of 0.1 "
        "and 16 leaves. γ is 1/128 to 8 over the median squared distance; C of the SVM 10⁻³ to "
        "10⁶, of RMM, LDM and ODM 0.1 to 1,000 and two values of another parameter, of the "
        "Σ-SVM 0.01 to 100 with D 0.5 and 0.99; ridges of KFDA 10⁻⁶ to 1,000; learning rates 0.01 "
        "to 1. Where a method chose an end, its search was repeated with values beyond it: widths "
        "from 1/2048 or up to 128, C of the SVM from 10⁻⁵ or up to 10⁷, of RMM, LDM and ODM from "
        "10⁻³ or up to 10⁵, of the Σ-SVM from 10⁻⁴ or up to 10⁴, ridges from 10⁻⁸ or up to 10⁵, "
        "learning rates from 0.001. All this is a second run of the whole table: a first one, with "
        "24 candidates, had shown that more than a tenth of the choices lay at ends, and its "
        "results had been seen. LDM and ODM have no bias but a constant in the kernel, "
        "and decide several classes by pairs. All but gradient boosting are convex and solved to a "
        "certified gap, but for the few fits counted below, nearly all of repeated searches. "
        "Repetitions share rows, so that p-values of single sets are too small."
    ),
    finding=(
        "No method is ahead of the SVM on most sets beyond chance. Of the 120 comparisons on "
        "single sets without gradient boosting 21 are beyond the 5 % level, where chance alone "
        "gives six: ten below the SVM and eleven above it. KFDA is behind on five sets, the LDM "
        "ahead on four tables. With 400 rows of digits and the "
        "Gaussian kernel the RMM is below the SVM on usps, and level on optdigits and MNIST. "
        "rmm-when sees a lead on both with 500 rows: that on MNIST is smaller than ten splits can "
        "show, and that on optdigits is over an SVM with half as many errors again, where each "
        "column is standardised and not all of them by one number. On text the RMM is the SVM to "
        "a tenth of a point: nearly every one of 400 rows with thousands of words lies on the "
        "margin, no output is much above one, and a bound has nothing to do. Gradient boosting is "
        "far ahead on image and splice and behind on all digits and texts. Against the first run, "
        "with grids of 24, nine verdicts on single sets changed and none over sets; the RMM is no "
        "longer behind on heart and ringnorm. No mean of the kernel methods moved by more than 1.1 "
        "points, and some rose: with "
        "few rows more candidates are more to choose wrongly from. 1,012 searches ended at an open "
        "end and were repeated, 162 of them with another choice."
    ),
    quick="1 set, 1 split",
)
