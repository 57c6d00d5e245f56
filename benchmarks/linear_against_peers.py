"""How long the linear models take to a relative objective gap of 1e-3, next to their peers.

Every method minimises the hinge loss with ``|w|²/2``; peers that regularise the bias solve that
problem, and are measured against its own optimum. A peer has one tolerance or a number of passes
as its knob: it is turned, a factor of ten at a time, until the gap is small enough, and only that
last fit is timed, once if it takes long. A peer whose fit exceeds two minutes before is given up.
Time is that of the processor, in all threads, which other programs hardly change. LIBLINEAR is what
scikit-learn's LinearSVC wraps.

A table is stored only as a whole: with ``--only`` the rows are shown and nothing is written, so
that rows of two runs are never mixed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
from _harness import interleaved, parse_arguments, run_per_thread_count, write
from sklearn.svm import LinearSVC

from oblong import LinearRelativeMarginClassifier, datasets

GAP = 1e-3
# Seconds beyond which one fit is enough to time a peer, and beyond which it is given up.
LONG, TOO_LONG = 15.0, 120.0
# Shrinks every problem, to try the script out.
SCALE = float(os.environ.get("OBLONG_BENCHMARK_SCALE", "1"))

COLUMNS = [
    "data",
    "rows x columns",
    "type",
    "threads",
    "oblong SVM (s)",
    "oblong spread 0.5 (s)",
    "oblong B 1.5 (s)",
    "LinearSVC (s)",
    "skglm (s)",
    "lightning (s)",
    "ReHLine (s)",
    "fastest peer / oblong SVM",
    "spread 0.5 / SVM",
    "B 1.5 / SVM",
    "steps of SVM",
    "dual gap",
]


def dense() -> tuple[str, np.ndarray, np.ndarray, float]:
    n = int(200_000 * SCALE)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 50))
    signal = X @ rng.standard_normal(50) / 7
    return "generated, dense", X, np.where(signal + rng.standard_normal(n) > 0.3, 1, -1), 1.0


def sparse() -> tuple[str, sp.csr_matrix, np.ndarray, float]:
    """Rows of unit norm with a hundred entries, in columns that follow a power law."""
    n = int(100_000 * SCALE)
    rng = np.random.default_rng(0)
    columns = np.minimum((n * rng.random((n, 100)) ** 3).astype(np.int32), n - 1)
    values = np.abs(rng.standard_normal(n * 100))
    X = sp.csr_matrix((values, columns.ravel(), np.arange(n + 1) * 100), shape=(n, n))
    X.sum_duplicates()
    X.data /= np.repeat(np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()), np.diff(X.indptr))
    signal = X @ rng.standard_normal(n)
    noisy = signal + 0.3 * signal.std() * rng.standard_normal(n)
    return "generated, sparse", X, np.where(noisy > np.quantile(signal, 0.6), 1, -1), 1.0


def covtype(data: str | None) -> tuple[str, np.ndarray, np.ndarray, float]:
    loaded = datasets.load("covtype_93k", data_home=data)
    X = np.asarray(loaded.X, dtype=np.float64)
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    labels, counts = np.unique(np.asarray(loaded.y), return_counts=True)
    # Every third row: with all of them LIBLINEAR takes minutes.
    keep = slice(None, None, max(3, round(3 / SCALE)))
    target = np.where(np.asarray(loaded.y) == labels[counts.argmax()], 1, -1)
    return "covtype, largest class against the rest", X[keep].copy(), target[keep], 1.0


def problems(data: str | None, only: str) -> Iterator[tuple[str, object, np.ndarray, float]]:
    makers = {"dense": dense, "covtype": lambda: covtype(data), "sparse": sparse}
    for name, make in makers.items():
        if only in name:
            try:
                yield make()
            except Exception as error:
                print(f"{name} not run: {error}", file=sys.stderr)


def objective(model: object, X: object, y: np.ndarray, C: float, with_bias: bool) -> float:
    w = np.ravel(model.coef_).astype(float)
    b = float(np.ravel(getattr(model, "intercept_", 0.0))[0])
    value = 0.5 * (w @ w + (b * b if with_bias else 0.0))
    return value + C * float(np.maximum(1 - y * (X @ w + b), 0).sum())


def best(X: object, y: np.ndarray, C: float, bias: str) -> float:
    """A lower bound of the optimum, from the certificate of a tighter fit.

    ``bias`` says what the peer does with it: "free", "regularised" or "none".
    """
    rows = X
    if bias == "regularised":
        ones = np.ones((X.shape[0], 1), dtype=X.dtype)
        rows = sp.hstack([X, ones]).tocsr() if sp.issparse(X) else np.hstack([X, ones])
    tight = LinearRelativeMarginClassifier(
        C=C, spread=1.0, tol=GAP / 20, max_iter=-1, fit_intercept=bias == "free"
    ).fit(rows, y)
    return float(tight.objective_[0] * (1 - tight.dual_gap_[0]))


def peers(n: int, C: float) -> dict[str, tuple[Callable[[float], object], str, list[float]]]:
    """Name: how to make it from its knob, what it does with the bias, and the knob's values."""
    falling = [10.0**-k for k in range(-1, 9)]
    found = {
        "LinearSVC": (
            lambda tol: LinearSVC(C=C, loss="hinge", dual=True, tol=tol, max_iter=100_000),
            "regularised",
            falling,
        )
    }
    try:
        from skglm import LinearSVC as SkglmSVC

        # Without a bias. Most rows matter, which its working sets would find out slowly, so that
        # all of them are in the first one, and the number of passes is the knob.
        found["skglm"] = (
            lambda passes: SkglmSVC(C=C, tol=1e-9, p0=n, max_iter=1, max_epochs=int(passes)),
            "none",
            [10.0 * 4**k for k in range(4)],
        )
    except ImportError:
        print("skglm is not installed", file=sys.stderr)
    try:
        from lightning.classification import LinearSVC as LightningSVC

        found["lightning"] = (
            lambda tol: LightningSVC(C=C, loss="hinge", tol=tol, max_iter=10_000),
            "none",
            falling,
        )
    except ImportError:
        print("lightning is not installed", file=sys.stderr)
    try:
        from rehline import plqERM_Ridge
    except ImportError:
        print("ReHLine is not installed", file=sys.stderr)
    else:
        found["ReHLine"] = (
            lambda tol: plqERM_Ridge(loss={"name": "svm"}, C=C, tol=tol, max_iter=100_000),
            "none",
            falling,
        )
    return found


def settle(
    make: Callable, bias: str, knob: list[float], X: object, y: np.ndarray, C: float
) -> tuple[object, float]:
    """The loosest setting of a peer that reaches the gap, and its seconds; None if none does."""
    target = best(X, y, C, bias) * (1 + GAP)
    for value in knob:
        model = make(value)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        seconds = time.process_time() - start
        reached = objective(model, X, y, C, bias == "regularised")
        print(f"{type(model)} {value:.0e}: {seconds:.2f} s, {reached / target}", file=sys.stderr)
        if reached <= target:
            return model, seconds
        if seconds > TOO_LONG:
            break
    return None, float("inf")


def measure(threads: int, repeats: int, data: str | None, only: str) -> list[dict]:
    rows = []
    for name, X, y, C in problems(data, only):
        models = {
            "oblong SVM": LinearRelativeMarginClassifier(C=C, spread=1.0, tol=GAP),
            "oblong spread 0.5": LinearRelativeMarginClassifier(C=C, spread=0.5, tol=GAP),
            "oblong B 1.5": LinearRelativeMarginClassifier(C=C, B=1.5, tol=GAP),
        }
        slow: dict[str, float | None] = {}
        for peer, (make, bias, knob) in peers(X.shape[0], C).items():
            settled, taken = settle(make, bias, knob, X, y, C)
            if settled is None or taken > LONG:
                slow[peer] = None if settled is None else taken
            else:
                models[peer] = settled
        tasks = {n: lambda m=m, X=X, y=y: m.fit(X, y) for n, m in models.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds = {**interleaved(tasks, repeats, processor=True), **slow}
        svm = seconds["oblong SVM"]
        row = {
            "data": name,
            "rows x columns": f"{X.shape[0]} x {X.shape[1]}",
            "type": str(X.dtype),
            "threads": threads,
            **{f"{n} (s)": s for n, s in seconds.items()},
            "spread 0.5 / SVM": seconds["oblong spread 0.5"] / svm,
            "B 1.5 / SVM": seconds["oblong B 1.5"] / svm,
            "steps of SVM": int(models["oblong SVM"].n_iter_[0]),
            "dual gap": float(models["oblong SVM"].dual_gap_[0]),
        }
        others = [s for n, s in seconds.items() if s is not None and not n.startswith("oblong")]
        if others:
            row["fastest peer / oblong SVM"] = min(others) / svm
        print(row, file=sys.stderr)
        rows.append(row)
    return rows


def main() -> None:
    arguments = parse_arguments(__doc__)
    if arguments.child:
        print(
            json.dumps(measure(arguments.child, arguments.repeats, arguments.data, arguments.only))
        )
        return
    rows = run_per_thread_count(__file__, arguments)
    if arguments.only:
        print(json.dumps(rows, indent=1))
        return
    write(
        "linear_against_peers",
        "Linear models next to their peers",
        "Median processor seconds of a warm fit to a relative objective gap of 1e-3, C = 1, "
        "alternating, those of peers that take more than 15 s once; a ratio of peer to oblong "
        "above one means that oblong is faster. Peers regularise the bias or have none, and are "
        "held to the optimum of their own problem; a dash means that no setting that was tried "
        "reached the gap.",
        # A peer that is not installed has no column.
        [column for column in COLUMNS if any(column in row for row in rows)],
        rows,
    )


if __name__ == "__main__":
    main()
