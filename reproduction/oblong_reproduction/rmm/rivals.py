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
_SCALES = (0.125, 0.5, 2.0, 8.0)
# Parameters with more than two values, whose ends mean something.
_SEARCHED = ("width", "C", "alpha", "learning_rate")
# Further values beyond the ends that more than a tenth of a method's choices lie at.
_BEYOND_WIDTH = (1 / 128, 1 / 32)
_BEYOND = {
    "rmm": (1e3, 1e4),
    "sigma": (0.01, 0.1),
    "kfda": (1e-5, 1e-4),
    "ldm": (1e3, 1e4),
    "odm": (100.0, 1e3),
}
_SPLITS, _SPLITS_OF_MANY = 20, 10
_ROWS, _TESTED = 400, 3000
# Columns of a text that gradient boosting sees.
_WORDS = 300


def _grid(method: str) -> dict[str, Sequence[Any]]:
    """Four widths and six other candidates; gradient boosting has no width."""
    penalties = (1.0, 10.0, 100.0)
    own: dict[str, dict[str, Sequence[Any]]] = {
        "svm": {"C": [10.0**k for k in range(-2, 4)], "spread": (1.0,)},
        "rmm": {"C": penalties, "spread": (0.5, 0.1)},
        "sigma": {"C": penalties, "D": (0.5, 0.99)},
        "kfda": {"alpha": [10.0**k for k in range(-3, 3)]},
        "ldm": {"C": penalties, "share": (0.01, 0.1)},
        "odm": {"C": (0.1, 1.0, 10.0), "weights": ((0.2, 0.5), (0.5, 0.2))},
        "trees": {"learning_rate": (0.03, 0.1, 0.3), "max_leaf_nodes": (4, 16)},
    }
    return own[method] if method == "trees" else {"width": _SCALES, **own[method]}


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
    result: dict = {"chosen": dict(before["chosen"]) if before else {}}
    for method in further or ("svm", *_TITLES):
        A, B = seen if method == "trees" else (X, T)
        candidates = _settings(method)
        if method == "trees" and (set in _DIGITS or set in TEXT_TASKS):
            # Of hundreds of columns they would take longer than all others.
            candidates = [{"learning_rate": 0.1, "max_leaf_nodes": 16}]
        first: list[dict[str, Any]] = []
        if before and further:
            # Parameters with two values are not recorded: both are tried once more.
            chosen = before["chosen"][method].items()
            first = [one for one in candidates if all(np.isclose(one[k], v) for k, v in chosen)]
            candidates = [*first, *added(_grid(method), further[method])]
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
        model = _make(method, candidates[best], unit, len(y), classes).fit(A, y)
        result[method] = 100.0 * float(np.mean(model.predict(B) != t))
    return result


def _settings(method: str) -> list[dict[str, Any]]:
    grid = _grid(method)
    return [dict(zip(grid, values)) for values in product(*grid.values())]


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
            {"set": name, "split": split, "folds": 3},
            data=(TEXT_TASKS.get(name, name),),
        )
        for split in range(1 if quick else _SPLITS)
        for name in (("ida_heart",) if quick else splits)
        if split < splits[name]
    ]


def _choices(results: Results) -> Iterator[Choice]:
    # The results of the thirteen tables are older than this record.
    for cell in results.having("chosen"):
        for method, chosen in cell["chosen"].items():
            for name, value in chosen.items():
                yield Choice(
                    f"{_TITLES.get(method, 'SVM')}, {name}",
                    value,
                    tried(cell, _grid(method)[name], method, name),
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
    minutes=35,
    data=(*(f"ida_{name}" for name in _TABLES), *_DIGITS, *dict.fromkeys(TEXT_TASKS.values())),
    protocol=(
        "Gaussian kernel, 400 training rows (two thirds of smaller sets) and up to 3,000 test "
        "rows, 20 random splits of the tables and 10 of digits and text, features standardised by "
        "the training rows (digits by one number). Texts are the eight tasks of cw-fig2c, as "
        "sets of words weighted by how rare they are in the training rows (Reuters as it "
        "comes), of length one. Each method chooses among 24 candidates, four widths and six of "
        "its own parameters, by 3-fold cross-validation; gradient boosting, for orientation, among "
        "six, on digits and on the 300 most frequent words of a text with a learning rate of 0.1 "
        "and 16 leaves. On digits and text, where a method chose an end that more than a tenth of "
        "its first choices lay at, its search was repeated with two values beyond it: widths from "
        "1/128, C of the RMM and the LDM up to 10⁴, of the ODM up to 1,000, of the Σ-SVM from "
        "0.01, ridges of KFDA from 10⁻⁵. LDM and ODM have no bias but a constant in the kernel, "
        "and decide several classes by pairs. All but gradient boosting are convex and solved to a "
        "certified gap. "
        "Repetitions share rows, so that p-values of single sets are too small."
    ),
    finding=(
        "No method is ahead of the SVM on most sets beyond chance. With 400 rows of digits and the "
        "Gaussian kernel the RMM is below the SVM on usps, and level on optdigits and MNIST. "
        "rmm-when sees a lead on both with 500 rows: that on MNIST is smaller than ten splits can "
        "show, and that on optdigits is over an SVM with half as many errors again, where each "
        "column is standardised and not all of them by one number. On text the RMM is the SVM: "
        "nearly every one of 400 rows with thousands of words lies on the margin, no output is "
        "much above one, and a bound has nothing to do. The values beyond the first grids moved "
        "no mean by more than 0.4 points and two verdicts: the LDM on Reuters and the ODM on "
        "reviews of books, behind the SVM before, are level with it. Gradient boosting is far "
        "ahead on image and splice and behind on all digits and texts. "
        "The tables were run on another machine, and their choices were not recorded: they have "
        "the first grids only."
    ),
    quick="1 set, 1 split",
)
