"""Rows in passes: passes, seconds, memory and gaps, next to a plain read and to peers.

Every case runs in a process of its own, whose peak memory is reported. The rows are generated: 20
columns in single precision, 10 % of the labels wrong, written to Parquet files with row groups of
131,072 rows. A plain read makes blocks in double precision of them; passes are compared with it in
processor seconds, which count all threads and nothing else that runs on the computer. The peers are
LinearSVC on a tenth of the rows, and the best that SGDClassifier.partial_fit has after as many
passes with three kinds of steps, with their gaps to the certified optimum. The Dask cluster has two
workers; it and the local fit are timed in one process. Merged are eight AROW learners with a
diagonal covariance, relative to one stream of all rows: with r = 1, with r = 1/8 for the shards
(relative to the better of one stream with either r), and with r = 1 after one more round that takes
the mean.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from _harness import RESULTS, write

# Shrinks every problem, to try the script out.
SCALE = float(os.environ.get("OBLONG_BENCHMARK_SCALE", "1"))
D, GROUP = 20, 131_072
N, HUGE = int(1e7 * SCALE), int(1e8 * SCALE)
COLUMNS = [
    "case",
    "rows x columns",
    "seconds",
    "processor seconds",
    "passes",
    "gap",
    "processor seconds per pass / plain read",
    "peak MB",
    "value",
    "with r / shards",
    "after two rounds",
    "bar",
]


def rows_of(k: int, n: int, d: int = D) -> tuple[np.ndarray, np.ndarray]:
    """Block `k`, the same at every call."""
    rng = np.random.default_rng(k)
    w = np.random.default_rng(12345).standard_normal(d)
    X = rng.standard_normal((n, d), dtype=np.float32)
    y = np.where(X @ w + 0.3 > 0, 1, -1)
    y[rng.random(n) < 0.1] *= -1
    return X, y


class Formula:
    """Rows that a formula gives, as a source: nothing is stored."""

    feature_names = None
    labelled = True

    def __init__(self, n: int, memory: float = 256e6) -> None:
        self.n_features, self.memory = D, memory
        self.lengths = [min(GROUP, n - start) for start in range(0, n, GROUP)]
        self.n_blocks = len(self.lengths)

    def block(self, k: int) -> Any:
        """Rows of a block."""
        from oblong.linalg.row_passes import Block

        return Block(*rows_of(k, self.lengths[k]))

    def place(self, k: int) -> Any:
        """Where it lies."""
        from oblong.linalg.row_passes import Place

        return Place(f"block {k}", 0, self.lengths[k])


def make_files(folder: Path, n: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = Formula(n)
    per_file = max(1, -(-source.n_blocks // 8))
    names = [f"x{j}" for j in range(D)]
    for file, start in enumerate(range(0, source.n_blocks, per_file)):
        writer = None
        for k in range(start, min(source.n_blocks, start + per_file)):
            X, y, _ = source.block(k)
            columns = {name: X[:, j] for j, name in enumerate(names)}
            table = pa.table({**columns, "y": y.astype(np.int8)})
            writer = writer or pq.ParquetWriter(folder / f"part-{file}.parquet", table.schema)
            writer.write_table(table, row_group_size=GROUP)
        if writer is not None:
            writer.close()


# Cases: each returns what it has to say -----------------------------------------------------------


def of_model(model: Any) -> dict:
    gap = getattr(model, "gap_", None)
    gap = float(np.max(model.dual_gap_)) if gap is None else gap
    value = getattr(model, "log_volume_", None)
    value = float(model.objective_[0]) if value is None else value
    return {"passes": int(model.n_passes_), "gap": gap, "value": value}


def case_read(folder: str) -> dict:
    from oblong.io import open_rows

    for block in open_rows(folder, target="y"):
        np.asarray(block.X, dtype=np.float64)
    return {"passes": 1}


def case_svm(folder: str, tol: float = 1e-6, **form: Any) -> dict:
    from oblong import LinearRelativeMarginClassifier
    from oblong.io import open_rows

    form = form or {"spread": 1.0}
    model = LinearRelativeMarginClassifier(tol=tol, **form).fit(open_rows(folder, target="y"))
    return of_model(model)


def case_bounded(folder: str) -> dict:
    return case_svm(folder, B=2.5)


def case_spread(folder: str) -> dict:
    return case_svm(folder, spread=0.25)


def case_ellipsoid(folder: str, coverage: float = 1.0) -> dict:
    from oblong import MinimumVolumeEllipsoid
    from oblong.io import open_rows

    names = [f"x{j}" for j in range(D)]
    model = MinimumVolumeEllipsoid(coverage=coverage).fit(open_rows(folder, columns=names))
    return of_model(model)


def case_dask(folder: str) -> dict:
    from distributed import Client, LocalCluster

    from oblong import LinearRelativeMarginClassifier
    from oblong.dask import DaskLinearRelativeMarginClassifier
    from oblong.io import open_rows

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        source = open_rows(folder, target="y")

        def spent() -> float:
            return time.process_time() + sum(client.run(time.process_time).values())

        times = []
        for kind in (LinearRelativeMarginClassifier, DaskLinearRelativeMarginClassifier):
            # What is compiled and imported is there.
            kind().fit(Formula(4000))
            started, used = time.perf_counter(), spent()
            model = kind(spread=1.0, tol=1e-6).fit(source)
            times.append((time.perf_counter() - started, spent() - used))
    (local, local_used), (wall, used) = times
    return {
        "seconds": wall,
        "processor seconds": used,
        **of_model(model),
        "bar": f"≤ 1.3 of the local time: {wall / local:.2f} in seconds, "
        f"{used / local_used:.2f} in processor seconds",
    }


def case_formula(folder: str) -> dict:
    from oblong import LinearRelativeMarginClassifier

    return of_model(LinearRelativeMarginClassifier(spread=1.0, tol=1e-6).fit(Formula(HUGE)))


def objectives(weights: np.ndarray, biases: np.ndarray, folder: str) -> np.ndarray:
    """Objectives of support vector machines, weights in columns, for all rows of the files."""
    from oblong.io import open_rows

    losses = np.zeros(len(biases))
    for block in open_rows(folder, target="y"):
        outputs = block.X @ weights + biases
        losses += np.maximum(1.0 - block.y[:, None] * outputs, 0.0).sum(axis=0)
    return 0.5 * (weights * weights).sum(axis=0) + losses


def case_linear_svc(folder: str) -> dict:
    from sklearn.svm import LinearSVC

    count = N // 10
    blocks = [rows_of(k, GROUP) for k in range(-(-count // GROUP))]
    X, y = (np.concatenate(parts)[:count] for parts in zip(*blocks))
    model = LinearSVC(loss="hinge", tol=1e-4, max_iter=50).fit(X, y)
    return {"value": float(objectives(model.coef_.T, model.intercept_, folder)[0])}


def case_sgd(folder: str) -> dict:
    from sklearn.linear_model import SGDClassifier

    from oblong.io import open_rows

    steps: list[dict] = [
        {},
        {"average": True},
        {"average": True, "learning_rate": "invscaling", "eta0": 0.1},
    ]
    models = [SGDClassifier(alpha=1.0 / N, random_state=0, **how) for how in steps]
    best = np.inf
    for _ in range(3):
        for block in open_rows(folder, target="y"):
            for model in models:
                model.partial_fit(block.X, block.y, classes=[-1, 1])
        weights = np.column_stack([model.coef_[0] for model in models])
        biases = np.array([model.intercept_[0] for model in models])
        best = min(best, objectives(weights, biases, folder).min())
    return {"value": float(best), "passes": 3}


def case_memory(folder: str, d: int = D, dtype: str = "float64", solver: str = "bands") -> dict:
    from oblong import LinearRelativeMarginClassifier

    n = int(1e6 * SCALE)
    X, y = rows_of(0, n, d)
    X = X.astype(dtype)
    if solver == "liblinear":
        from sklearn.svm import LinearSVC

        model: Any = LinearSVC(dual=False)
    else:
        model = LinearRelativeMarginClassifier(spread=1.0, solver=solver)
        model.fit(X[:5000], y[:5000])
    started, used = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds = {
        "seconds": time.perf_counter() - started,
        "processor seconds": time.process_time() - used,
    }
    if solver == "liblinear":
        return seconds
    gap = float(model.dual_gap_[0])
    return {**seconds, "passes": int(model.n_iter_[0]), "gap": gap, "value": model.objective_[0]}


def case_merge(folder: str, name: str = "", data: str = "") -> dict:
    import scipy.sparse as sp
    from sklearn.preprocessing import normalize

    from oblong import AROWClassifier

    held = np.load(Path(data) / f"{name}.npz", allow_pickle=False)
    X, y, X_test, y_test = text_set(held, sp)
    X, X_test = (normalize(part.astype(np.float64).log1p()) for part in (X, X_test))
    classes, orders = np.unique(y), [np.random.default_rng(k).permutation(len(y)) for k in range(3)]

    def learned(mine: np.ndarray, r: float = 1.0, model: Any = None) -> Any:
        model = copy.deepcopy(model) or AROWClassifier(covariance="diag", r=r)
        return model.partial_fit(X[mine], y[mine], classes=classes)

    def merged(models: list[Any], how: str = "product") -> Any:
        return models[0].merge(*models[1:], how=how)

    found = []
    for order in orders:
        shards = [order[k::8] for k in range(8)]
        first = merged([learned(shard) for shard in shards])
        models = [
            learned(order),
            learned(order, 1 / 8),
            copy.deepcopy(first),
            merged([learned(shard, 1 / 8) for shard in shards]),
            merged([learned(shard, model=first) for shard in shards], "mean"),
        ]
        found.append([model.score(X_test, y_test) for model in models])
    one, small, product, divided, again = np.mean(found, axis=0)
    return {
        "value": product / one,
        "with r / shards": divided / max(one, small),
        "after two rounds": again / one,
    }


def text_set(held: Any, sp: Any) -> tuple[Any, ...]:
    """Training and test rows of a stored text set; every fifth row is for testing if none are."""

    def rows(suffix: str) -> Any:
        names = ("data", "indices", "indptr")
        data, *places = (held[f"X{suffix}_{name}"] for name in names)
        parts = (data, *(place.astype(np.int32) for place in places))
        return sp.csr_matrix(parts, shape=tuple(held[f"X{suffix}_shape"]))

    if "X_test_data" in held:
        return rows(""), held["y"], rows("_test"), held["y_test"]
    X, y = rows(""), held["y"]
    test = np.arange(len(y)) % 5 == 0
    return X[~test], y[~test], X[test], y[test]


TEXTS = ("news20_bydate_stripped", "sentiment_multidomain", "reuters_moneyfx")
CASES: dict[str, tuple[str, dict, str]] = {
    "plain read": ("case_read", {}, ""),
    "SVM": ("case_svm", {}, "≤ 6 passes, ≤ 1500 MB, ≤ 2.5 reads per pass"),
    "RMM, B = 2.5": ("case_bounded", {}, "≤ 8 passes"),
    "RMM, spread 0.25": ("case_spread", {}, ""),
    "ellipsoid": ("case_ellipsoid", {}, "≤ 8 passes, gap ≤ 1e-6"),
    "ellipsoid, coverage 0.95": ("case_ellipsoid", {"coverage": 0.95}, ""),
    "SVM on two Dask workers": ("case_dask", {}, ""),
    "SVM, rows from a formula": ("case_formula", {}, "≤ 3000 MB"),
    "LinearSVC on what fits": ("case_linear_svc", {}, ""),
    "SGDClassifier, 3 passes": ("case_sgd", {}, ""),
    "memory, bands": ("case_memory", {}, "not above the next"),
    "memory, interior point": ("case_memory", {"solver": "interior-point"}, ""),
    "memory, 10 float32, auto": (
        "case_memory",
        {"d": 10, "dtype": "float32", "solver": "auto"},
        "",
    ),
    "memory, 10 float32, LinearSVC": (
        "case_memory",
        {"d": 10, "dtype": "float32", "solver": "liblinear"},
        "",
    ),
    **{
        f"merge of 8, {name}": ("case_merge", {"name": name}, "≥ 0.99 after two rounds")
        for name in TEXTS
    },
}


def timed_passes() -> dict[str, float]:
    """Processor seconds of all passes from now on."""
    from oblong.linalg.row_passes import LocalPasses

    spent, run = {"passes": 0.0}, LocalPasses.run

    def timed(self: Any, *arguments: Any, **options: Any) -> Any:
        used = time.process_time()
        try:
            return run(self, *arguments, **options)
        finally:
            spent["passes"] += time.process_time() - used

    LocalPasses.run = timed
    return spent


def child(case: str, folder: str, data: str) -> None:
    function, arguments, _ = CASES[case]
    arguments = {**arguments, **({"data": data} if function == "case_merge" else {})}
    # Imports are no part of a read.
    import_module("oblong.io.arrow")
    import_module("pyarrow.parquet")
    spent = timed_passes()
    started, used = time.perf_counter(), time.process_time()
    found = globals()[function](folder, **arguments)
    row = {
        "seconds": time.perf_counter() - started,
        "processor seconds": time.process_time() - used,
        "in passes": spent["passes"],
        **found,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(row, default=float))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("OBLONG_DATA"), help="folder of text sets")
    parser.add_argument("--folder", help="where the files are, or will be written (default: none)")
    parser.add_argument("--only", default="", help="cases whose names hold this")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.folder, arguments.data)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.folder or scratch)
        cases = [name for name in CASES if arguments.only in name or name == "plain read"]
        if not list(folder.glob("*.parquet")):
            make_files(folder, N)
        path = RESULTS / "larger_than_memory.json"
        before = json.loads(path.read_text())["rows"] if arguments.only and path.exists() else []
        rows = {row["case"]: row for row in before}
        for case in cases:
            if case.startswith("merge") and not arguments.data:
                continue
            command = [sys.executable, __file__, "--child", case, "--folder", str(folder)]
            command += ["--data", arguments.data] if arguments.data else []
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            row = {"case": case, "bar": CASES[case][2] or None, **json.loads(done.stdout)}
            count = int(1e6 * SCALE) if case.startswith("memory") else N
            count = HUGE if "formula" in case else count
            if not case.startswith("merge"):
                row["rows x columns"] = f"{count:,} x {10 if 'float32' in case else D}"
            used = row.pop("in passes")
            apart = ("formula", "Dask", "memory")
            if row.get("passes") and used and not any(word in case for word in apart):
                read = rows["plain read"]["processor seconds"]
                row["processor seconds per pass / plain read"] = used / row["passes"] / read
            rows[case] = row
            print(row, file=sys.stderr, flush=True)
            optimum = rows.get("SVM", {}).get("value")
            for peer in ("LinearSVC on what fits", "SGDClassifier, 3 passes"):
                if optimum is not None and peer in rows:
                    rows[peer]["gap"] = 1.0 - optimum / rows[peer]["value"]
            note = " ".join(__doc__.split("\n\n")[1].split())
            # After every case: some of them take long.
            ordered = [rows[name] for name in CASES if name in rows]
            write("larger_than_memory", "Rows in passes", note, COLUMNS, ordered)


if __name__ == "__main__":
    main()
