"""How fast the online learners learn, next to their peers, and how well on text.

Parts, which ``--only`` picks by the first letters of their names (the rows of the others are
kept):

- *sparse*: a million features, a hundred of them in a row, in memory: one call of ``partial_fit``
  over all rows next to SGD of scikit-learn and lightning, and Vowpal Wabbit on its binary cache;
- *dense*: 50 features and a full covariance, next to our diagonal one and the packages ``scw`` and
  ``oll``;
- *blocks*: 1,000 features and a full covariance, block by block and row by row, next to a loop over
  ``dsymv`` and ``dsyr``, and to what the same products would take at the speed of one large
  product of matrices;
- *one*: one row at a time, as arrays and dicts, next to River;
- *instructions*: what is written in instructions of LLVM, prefetching and products of small
  matrices, next to plain loops and no prefetching;
- *first*: the first call with nothing compiled yet, and with all compiled;
- *text*: error and time on news and on Reuters, next to SGD, passive-aggressive, LinearSVC.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from _harness import RESULTS, interleaved, parse_arguments, run_per_thread_count, write
from _online_scripts import FIRST, INSTRUCTIONS, printed
from scipy.linalg.blas import dsymv, dsyr
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from oblong import (
    AROWClassifier,
    PassiveAggressiveClassifier,
    SoftConfidenceWeightedClassifier,
    datasets,
)
from oblong.solvers.online.passes.general import learn_rows
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.rules import arow
from oblong.solvers.online.slots import FULL, NOTHING, SINGLE, Batch
from oblong.solvers.online.state import OnlineState

NAME = "online_against_peers"
# Shrinks every problem, to try the script out.
SCALE = float(os.environ.get("OBLONG_BENCHMARK_SCALE", "1"))
COLUMNS = ["data", "type", "threads", "method", "µs per row", "time / first", "error (%)"]


def row(data: str, kind: str, threads: int, method: str, seconds: float, **more: object) -> dict:
    return {
        "data": data,
        "type": kind,
        "threads": threads,
        "method": method,
        "µs per row": 1e6 * seconds,
        **more,
    }


def compared(data: str, kind: str, threads: int, seconds: dict[str, float]) -> list[dict]:
    """Rows of a part, with the time of each method over that of the first."""
    first = next(iter(seconds.values()))
    return [
        row(data, kind, threads, name, s, **{"time / first": s / first})
        for name, s in seconds.items()
    ]


# Sparse -------------------------------------------------------------------------------------------


def vowpal_wabbit(X: sp.csr_matrix, y: np.ndarray, folder: str) -> Callable[[], None] | None:
    """One pass over a binary cache, made beforehand."""
    try:
        from vowpalwabbit import Workspace
    except ImportError:
        print("vowpalwabbit is not installed", file=sys.stderr)
        return None
    text, cache = os.path.join(folder, "rows"), os.path.join(folder, "cache")
    with open(text, "w") as file:
        for i in range(X.shape[0]):
            span = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[span].tolist(), X.data[span].tolist())
            file.write(f"{y[i]} | " + " ".join(f"{j}:{v:.6g}" for j, v in pairs) + "\n")
    options = "--loss_function hinge -b 20 --quiet --no_stdin"
    Workspace(f"{options} -d {text} --cache_file {cache}").finish()
    os.remove(text)
    # The text is not there any more: what is read is the cache.
    open(text, "w").close()
    os.utime(text, (0, 0))
    return lambda: Workspace(f"{options} -d {text} --cache_file {cache}").finish()


def sparse(threads: int, repeats: int, data: str | None) -> list[dict]:
    n, d, entries = int(200_000 * SCALE), 1_000_000, 100
    rng = np.random.default_rng(0)
    columns = np.minimum((d * rng.random((n, entries))).astype(np.int32), d - 1)
    columns.sort(axis=1)
    values = np.abs(rng.standard_normal(n * entries)) / 10
    weights = rng.standard_normal(d)
    rows = []
    for dtype in (np.float64, np.float32):
        spans = np.arange(n + 1, dtype=np.int32) * entries
        X = sp.csr_matrix((values.astype(dtype), columns.ravel(), spans), shape=(n, d))
        X.sum_duplicates()
        y = np.where(X @ weights > 0, 1, -1)

        def batch(model: object, X: sp.csr_matrix = X, y: np.ndarray = y) -> Callable:
            return lambda: type(model)(**model.get_params()).partial_fit(X, y, classes=[-1, 1])

        tasks = {
            "oblong AROW": batch(AROWClassifier(covariance="diag")),
            "oblong SCW-I": batch(SoftConfidenceWeightedClassifier(covariance="diag")),
            "oblong PA-I": batch(PassiveAggressiveClassifier()),
            "SGDClassifier": batch(SGDClassifier(loss="hinge")),
        }
        with tempfile.TemporaryDirectory() as folder:
            if dtype == np.float64:
                try:
                    from lightning.classification import SGDClassifier as LightningSGD

                    # One pass; it takes double precision only.
                    tasks["lightning SGD"] = lambda X=X, y=y: LightningSGD(
                        loss="hinge", max_iter=1, random_state=0
                    ).fit(X, y)
                except ImportError:
                    print("lightning is not installed", file=sys.stderr)
            else:
                task = vowpal_wabbit(X, y, folder)
                if task is not None:
                    tasks["Vowpal Wabbit, cache"] = task
            seconds = {k: s / n for k, s in interleaved(tasks, repeats).items()}
        name = f"sparse, {n} x {d}, {entries} entries per row"
        rows += compared(name, dtype.__name__, threads, seconds)
    return rows


# Dense --------------------------------------------------------------------------------------------


def dense(threads: int, repeats: int, data: str | None) -> list[dict]:
    n, few, d = int(100_000 * SCALE), int(2_000 * SCALE), 50
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + 3 * rng.standard_normal(n) > 0, 1, -1)
    learners = {"AROW": AROWClassifier, "SCW-I": SoftConfidenceWeightedClassifier}
    tasks = {
        f"oblong {name}, {shape}": lambda learner=learner, shape=shape: learner(
            covariance=shape
        ).partial_fit(X, y, classes=[-1, 1])
        for name, learner in learners.items()
        for shape in ("full", "diag")
    }
    seconds = {k: s / n for k, s in interleaved(tasks, repeats).items()}
    slow = {}
    try:
        from scw import SCW1

        class Scalars(SCW1):
            """NumPy no longer takes its arrays of one number for numbers."""

            def calc_confidence(self, x: np.ndarray) -> float:
                return super().calc_confidence(x).item()

            def calc_margin(self, x: np.ndarray, label: int) -> float:
                return super().calc_margin(x, label).item()

        slow["scw (PyPI), SCW1, full"] = lambda: Scalars(C=1.0, ETA=0.9).fit(X[:few], y[:few])
    except ImportError:
        print("scw is not installed", file=sys.stderr)
    try:
        from oll import oll

        slow["oll (PyPI), CW, diag"] = lambda: oll("CW", C=1.0).fit(X[:few], y[:few])
    except ImportError:
        print("oll is not installed", file=sys.stderr)
    seconds |= {k: s / few for k, s in interleaved(slow, min(repeats, 3)).items()}
    return compared(f"dense, {n} x {d}", "float64", threads, seconds)


# Blocks -------------------------------------------------------------------------------------------


def blocks(threads: int, repeats: int, data: str | None) -> list[dict]:
    n, d = max(64, int(1_000 * SCALE)), 1_000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    # Nothing can be learned from these labels: nearly every row leads to an update.
    labels = rng.integers(0, 2, n).astype(np.int32)
    rows, order, ones = Rows.of(X), np.arange(n), np.ones(n)
    blank = OnlineState.initial(arow(1.0), d, 1, structure=FULL, task=SINGLE)

    def by_blas() -> None:
        S, w = np.asfortranarray(np.eye(d)), np.zeros(d)
        for x, label in zip(X, labels):
            y = 2 * label - 1
            s = dsymv(1.0, S, x, lower=1)
            v = x @ s
            w += (1.0 - y * (w @ x)) / (v + 1.0) * y * s
            dsyr(-1.0 / (v + 1.0), s, lower=1, a=S, overwrite_a=1)

    def by_rows() -> None:
        state = blank.copy()
        batch = Batch(rows.data, rows.indices, rows.indptr, order, labels[:, None], ones, True)
        learn_rows(*batch, *state.model, NOTHING)

    square, batch = np.eye(d), X[:96].copy()
    turns = n // 96 + 1
    tasks = {
        "oblong AROW, full, blocks": lambda: blank.copy().learn(rows, labels[:, None], ones),
        "row by row": by_rows,
        "loop over dsymv + dsyr": by_blas,
        # 3 d² operations a row: the product with the shape, and half of that for the update.
        "3 d² operations of a product of 96 rows": lambda: [batch @ square for _ in range(turns)],
    }
    seconds = {k: s / n for k, s in interleaved(tasks, repeats).items()}
    learned = blank.copy()
    learned.learn(rows, labels[:, None], ones)
    share = learned.updates / n
    seconds["3 d² operations of a product of 96 rows"] *= 1.5 * n / (96 * turns)
    name = f"blocks, {n} x {d}, {share:.0%} of the rows updates"
    return compared(name, "float64", threads, seconds)


# One row at a time --------------------------------------------------------------------------------


def one(threads: int, repeats: int, data: str | None) -> list[dict]:
    n, d = int(5_000 * SCALE), 50
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = (X @ rng.standard_normal(d) > 0).tolist()
    names = [f"feature {j}" for j in range(d)]
    given = {"arrays": list(X), "dicts": [dict(zip(names, x.tolist())) for x in X]}

    def stream(make: Callable, kind: str) -> Callable:
        def task() -> None:
            model = make()
            for x, label in zip(given[kind], y):
                model.learn_one(x, label)

        return task

    makers = {
        "AROW, diag": lambda: AROWClassifier(covariance="diag"),
        "AROW, full": AROWClassifier,
        "PA-I": PassiveAggressiveClassifier,
    }
    tasks = {
        f"oblong {name}, {kind}": stream(make, kind)
        for name, make in makers.items()
        for kind in given
    }
    try:
        from river.linear_model import PAClassifier

        tasks["River PAClassifier, dicts"] = stream(PAClassifier, "dicts")
    except ImportError:
        print("river is not installed", file=sys.stderr)
    seconds = {k: s / n for k, s in interleaved(tasks, repeats).items()}
    few = X[:200]

    def one_by_one() -> None:
        model = SGDClassifier()
        for i in range(len(few)):
            model.partial_fit(few[i : i + 1], y[i : i + 1], classes=[False, True])

    once = interleaved({"SGDClassifier.partial_fit, one row": one_by_one}, min(repeats, 3))
    seconds |= {k: s / len(few) for k, s in once.items()}
    return compared(f"one row at a time, {d} features", "float64", threads, seconds)


# The first call -----------------------------------------------------------------------------------


def instructions(threads: int, repeats: int, data: str | None) -> list[dict]:
    found = []
    for name, sizes in (
        ("sparse, diag", {"n": int(100_000 * SCALE), "d": 1_000_000, "sparse": True}),
        ("dense, full", {"n": int(100_000 * SCALE), "d": 50, "sparse": False}),
    ):
        seconds = {}
        # Compiled code is told by its sources, which are the same here.
        for method in ("oblong AROW", "oblong AROW, plain loops"):
            script = INSTRUCTIONS.format(plain="plain" in method, repeats=repeats, **sizes)
            with tempfile.TemporaryDirectory() as empty:
                seconds[method] = printed(script, NUMBA_CACHE_DIR=empty)
        data = f"instructions, {name}, {sizes['n']} x {sizes['d']}"
        found += compared(data, "float64", threads, seconds)
    return found


def first(threads: int, repeats: int, data: str | None) -> list[dict]:
    found = []
    for shape, d in (("diag", 50), ("full", 50), ("full", 200)):
        with tempfile.TemporaryDirectory() as empty:
            for method in ("nothing compiled", "all compiled"):
                name = f"first call, {shape}, 200 x {d}"
                seconds = printed(FIRST.format(shape=shape, d=d), NUMBA_CACHE_DIR=empty)
                found.append(row(name, "float64", threads, f"oblong AROW, {method}", seconds))
    return found


# Text ---------------------------------------------------------------------------------------------


def text(threads: int, repeats: int, data: str | None) -> list[dict]:
    found = []
    for name in ("news20_bydate", "reuters_moneyfx"):
        loaded = datasets.load(name, data_home=data)
        weigh = TfidfTransformer(sublinear_tf=name.startswith("news"))
        X = weigh.fit_transform(sp.csr_matrix(loaded.X, dtype=np.float64))
        X_test = weigh.transform(sp.csr_matrix(loaded.X_test, dtype=np.float64))
        y, y_test = np.asarray(loaded.y), np.asarray(loaded.y_test)
        models = {
            "oblong AROW": AROWClassifier(covariance="diag", r=0.1, random_state=0),
            "oblong SCW-I": SoftConfidenceWeightedClassifier(covariance="diag", random_state=0),
            "oblong PA-I": PassiveAggressiveClassifier(random_state=0),
            "SGDClassifier": SGDClassifier(random_state=0),
            "SGDClassifier, PA-I": SGDClassifier(
                loss="hinge", penalty=None, learning_rate="pa1", eta0=1.0, random_state=0
            ),
            "LinearSVC": LinearSVC(),
        }
        tasks = {k: lambda m=m, X=X, y=y: m.fit(X, y) for k, m in models.items()}
        seconds = interleaved(tasks, min(repeats, 3))
        title = f"{name}, fit, {X.shape[0]} x {X.shape[1]}"
        found += [
            row(
                title,
                "float64",
                threads,
                k,
                s / X.shape[0],
                **{"error (%)": 100 * (1 - float(models[k].score(X_test, y_test)))},
            )
            for k, s in seconds.items()
        ]
    return found


PARTS = {
    "sparse": sparse,
    "dense": dense,
    "blocks": blocks,
    "one": one,
    "instructions": instructions,
    "first": first,
    "text": text,
}


def measure(threads: int, repeats: int, data: str | None, only: str) -> list[dict]:
    rows = []
    for name, part in PARTS.items():
        if name.startswith(only):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = part(threads, repeats, data)
            except Exception as error:
                print(f"{name} not run: {error!r}", file=sys.stderr)
                continue
            rows += [{**line, "part": name} for line in found]
    return rows


def kept(only: str) -> list[dict]:
    """Rows of an earlier run, less those of the parts that are measured anew."""
    path = RESULTS / f"{NAME}.json"
    rows = json.loads(path.read_text())["rows"] if only and path.exists() else []
    return [line for line in rows if not line["part"].startswith(only)]


def main() -> None:
    arguments = parse_arguments(__doc__)
    if arguments.child:
        print(
            json.dumps(measure(arguments.child, arguments.repeats, arguments.data, arguments.only))
        )
        return
    rows = kept(arguments.only) + run_per_thread_count(__file__, arguments)
    places = {name: place for place, name in enumerate(PARTS)}
    write(
        NAME,
        "Online learners next to their peers",
        "Microseconds per row of learning, with all that a call does: medians of warm runs, "
        "alternating. The next column is the time over that of the first method of the part. Rows "
        "of the first call are single cold and warm runs of a fresh process; those of text are "
        "whole fits of several passes, with the error on the test set.",
        COLUMNS,
        sorted(rows, key=lambda line: (places[line["part"]], line["data"], line["threads"])),
    )


if __name__ == "__main__":
    main()
