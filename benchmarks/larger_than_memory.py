"""Rows in passes: passes, seconds, memory and gaps, next to a plain read and to peers.

Every case runs in a process of its own, whose peak memory is reported. The rows are generated: 20
columns in single precision, 10 % of the labels wrong, written to Parquet files with row groups of
131,072 rows. The peers are LinearSVC on as many rows as fit, and SGDClassifier.partial_fit, each
with the objective that it reaches for all rows.
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
from pathlib import Path
from typing import Any

import numpy as np
from _harness import write

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
    "seconds per pass / plain read",
    "peak MB",
    "value",
    "after three rounds",
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
        from oblong.solvers.linear.passes.rows import Block

        return Block(*rows_of(k, self.lengths[k]))

    def place(self, k: int) -> Any:
        """Where it lies."""
        from oblong.solvers.linear.passes.rows import Place

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


def case_ellipsoid(folder: str) -> dict:
    from oblong import MinimumVolumeEllipsoid
    from oblong.io import open_rows

    names = [f"x{j}" for j in range(D)]
    return of_model(MinimumVolumeEllipsoid().fit(open_rows(folder, columns=names)))


def case_dask(folder: str) -> dict:
    from distributed import Client, LocalCluster

    from oblong.dask import DaskLinearRelativeMarginClassifier
    from oblong.io import open_rows

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster):
        source = open_rows(folder, target="y")
        # The workers have started and imported what they need.
        DaskLinearRelativeMarginClassifier().fit(Formula(4000))
        started = time.perf_counter()
        model = DaskLinearRelativeMarginClassifier(spread=1.0, tol=1e-6).fit(source)
        return {"seconds": time.perf_counter() - started, **of_model(model)}


def case_formula(folder: str) -> dict:
    from oblong import LinearRelativeMarginClassifier

    return of_model(LinearRelativeMarginClassifier(spread=1.0, tol=1e-6).fit(Formula(HUGE)))


def objective(w: np.ndarray, b: float, folder: str, C: float = 1.0) -> float:
    """Objective of the support vector machine for all rows of the files."""
    from oblong.io import open_rows

    losses = [
        np.maximum(1.0 - block.y * (block.X @ w + b), 0.0).sum()
        for block in open_rows(folder, target="y")
    ]
    return 0.5 * float(w @ w) + C * float(np.sum(losses))


def case_linear_svc(folder: str) -> dict:
    from sklearn.svm import LinearSVC

    count = min(N, 1_000_000)
    blocks = [rows_of(k, GROUP) for k in range(-(-count // GROUP))]
    X, y = (np.concatenate(parts)[:count] for parts in zip(*blocks))
    model = LinearSVC(loss="hinge", tol=1e-4, max_iter=50).fit(X, y)
    return {"value": objective(model.coef_[0], float(model.intercept_[0]), folder)}


def case_sgd(folder: str) -> dict:
    from sklearn.linear_model import SGDClassifier

    from oblong.io import open_rows

    model = SGDClassifier(alpha=1.0 / N, random_state=0)
    best = np.inf
    for _ in range(6):
        for block in open_rows(folder, target="y"):
            model.partial_fit(block.X, block.y, classes=[-1, 1])
        best = min(
            best, objective(model.coef_[0].astype(float), float(model.intercept_[0]), folder)
        )
    return {"value": best, "passes": 6}


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
    classes, values, later = np.unique(y), [], []

    def learned(model: Any, k: int, order: np.ndarray, count: int = 8) -> Any:
        mine = order[k::count]
        return model.partial_fit(X[mine], y[mine], classes=classes)

    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        one = learned(AROWClassifier(covariance="diag"), 0, order, 1).score(X_test, y_test)
        shards = [learned(AROWClassifier(covariance="diag"), k, order) for k in range(8)]
        merged = shards[0].merge(*shards[1:])
        values.append(merged.score(X_test, y_test) / one)
        for _ in range(2):
            shards = [learned(copy.deepcopy(merged), k, order) for k in range(8)]
            merged = shards[0].merge(*shards[1:], how="mean")
        later.append(merged.score(X_test, y_test) / one)
    return {"value": float(np.mean(values)), "after three rounds": float(np.mean(later))}


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


TEXTS = ("news20_bydate", "news20_bydate_stripped", "sentiment_multidomain", "reuters_moneyfx")
CASES: dict[str, tuple[str, dict, str]] = {
    "plain read": ("case_read", {}, ""),
    "SVM": ("case_svm", {}, "≤ 6 passes, ≤ 1500 MB, ≤ 2.5 reads per pass"),
    "RMM, B = 2.5": ("case_bounded", {}, "≤ 8 passes"),
    "RMM, spread 0.25": ("case_spread", {}, ""),
    "ellipsoid": ("case_ellipsoid", {}, "≤ 8 passes"),
    "SVM on two Dask workers": ("case_dask", {}, "≤ 1.3 of the local seconds"),
    "SVM, rows from a formula": ("case_formula", {}, "≤ 3000 MB"),
    "LinearSVC on what fits": ("case_linear_svc", {}, ""),
    "SGDClassifier, 6 passes": ("case_sgd", {}, ""),
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
    **{f"merge of 8, {name}": ("case_merge", {"name": name}, "≥ 0.99") for name in TEXTS},
}


def child(case: str, folder: str, data: str) -> None:
    function, arguments, _ = CASES[case]
    arguments = {**arguments, **({"data": data} if function == "case_merge" else {})}
    started, used = time.perf_counter(), time.process_time()
    found = globals()[function](folder, **arguments)
    row = {
        "seconds": time.perf_counter() - started,
        "processor seconds": time.process_time() - used,
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
        rows, read = [], None
        for case in cases:
            if case.startswith("merge") and not arguments.data:
                continue
            command = [sys.executable, __file__, "--child", case, "--folder", str(folder)]
            command += ["--data", arguments.data] if arguments.data else []
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            row = {"case": case, **json.loads(done.stdout), "bar": CASES[case][2] or None}
            read = row["seconds"] if read is None else read
            count = int(1e6 * SCALE) if case.startswith("memory") else N
            count = HUGE if "formula" in case else count
            if not case.startswith("merge"):
                row["rows x columns"] = f"{count:,} x {10 if 'float32' in case else D}"
            if row.get("passes") and not case.startswith(("memory", "SVM, rows", "plain")):
                row["seconds per pass / plain read"] = row["seconds"] / row["passes"] / read
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
        note = " ".join(__doc__.split("\n\n")[1].split())
        write("larger_than_memory", "Rows in passes", note, COLUMNS, rows)


if __name__ == "__main__":
    main()
