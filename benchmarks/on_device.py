"""How fast a CUDA device is, from arrays on the host to a certified model.

Needs ``oblong[gpu]`` and PyTorch, a CUDA device, and ``mnist.npz``, ``fashion_mnist.npz`` and
``covtype_93k.npz`` in the folder of ``--data``. Every number is the median of ``--repeats`` fits
after a small one that compiles; a fit includes the transfer of the rows. Results of parts that are
not run stay. The table next to the results is written as well::

    python benchmarks/on_device.py --data DATA [--only mnist,search] [--revision REVISION]

``python docs/make_gpu_table.py`` then writes the numbers of the guide.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import set_config
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import KFold

from oblong import RelativeMarginClassifier, RelativeMarginClassifierCV
from oblong.kernels import Kernel
from oblong.solvers.margin.batch.problem import MarginBatch, RowTiles
from oblong.solvers.margin.batch.solve import solve_batch

RESULTS = Path(__file__).parent / "results" / "on_device.json"
Row = dict[str, Any]


def timed(task: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        answer = task()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), answer


def fitted(X: np.ndarray, y: np.ndarray, repeats: int, **settings: Any) -> tuple[Row, Any]:
    """Time a fit with everything that it needs, from arrays on the host."""

    def fit() -> RelativeMarginClassifier:
        model = RelativeMarginClassifier(**settings)
        return model.fit(torch.from_numpy(X).cuda(), torch.from_numpy(y).cuda())

    seconds, model = timed(fit, repeats)
    return {
        "seconds": seconds,
        "largest gap": float(model.dual_gap_.max()),
        "converged": model.converged_,
        "support vectors": model.support_.shape[0],
        "steps": int(model.n_iter_.sum()),
    }, model


def images(data: Path, name: str) -> tuple[np.ndarray, ...]:
    file = np.load(data / f"{name}.npz")
    parts = []
    for part in ("", "_test"):
        X = file[f"X{part}"]
        parts += [X.reshape(len(X), -1).astype(np.float32) / 255, file[f"y{part}"].astype(np.int64)]
    return tuple(parts)


def errors(model: RelativeMarginClassifier, X: np.ndarray, y: np.ndarray) -> tuple[float, int, Any]:
    rows = torch.from_numpy(X).cuda()
    seconds, labels = timed(lambda: model.predict(rows), 3)
    labels = labels.cpu().numpy()
    return seconds, int((labels != y).sum()), labels


def ten_classes(data: Path, repeats: int, name: str) -> Iterator[Row]:
    X, y, X_test, y_test = images(data, name)
    for C in (1.0, 100.0) if name == "mnist" else (1.0,):
        for spread in (1.0, 0.5, 0.25, 0.1):
            row, model = fitted(X, y, repeats, C=C, spread=spread)
            seconds, wrong, _ = errors(model, X_test, y_test)
            settings = f"rbf, C={C:g}, spread={spread:g}"
            yield {
                "data": f"{name}, ten classes", "settings": settings, **row,
                "test errors": wrong, "prediction of 10,000 rows (s)": seconds,
            }  # fmt: skip


def mnist(data: Path, repeats: int) -> Iterator[Row]:
    yield from ten_classes(data, repeats, "mnist")


def fashion(data: Path, repeats: int) -> Iterator[Row]:
    yield from ten_classes(data, repeats, "fashion_mnist")


def cores(data: Path, repeats: int) -> Iterator[Row]:
    """Compare fits on the device with those on cores, and dual objectives at the same bounds."""
    threads = os.cpu_count()
    X, y, X_test, y_test = images(data, "mnist")
    order = np.argsort(y, kind="stable")
    ends = np.searchsorted(y[order], np.arange(11))
    pairs = np.array(list(combinations(range(10), 2)))
    segments = np.column_stack([ends[:-1], ends[1:]])[pairs]
    for spread in (1.0, 0.5):
        _, there = fitted(X, y, 1, spread=spread)
        fit = partial(RelativeMarginClassifier(spread=spread, n_jobs=threads).fit, X, y)
        # The first one compiles what problems of this size need.
        fit()
        seconds, here = timed(fit, repeats)
        bounds = there.B_.cpu().numpy() if spread < 1.0 else None
        batch = MarginBatch(
            RowTiles(here._kernel(), X[order]), segments, np.tile([1.0, -1.0], (45, 1)),
            np.ones(len(y)), np.array([1.0]), np.empty(0), bounds,
        )  # fmt: skip
        dual = solve_batch(batch, threads=threads).dual_objective[:, 0]
        other = (there.objective_ * (1.0 - there.dual_gap_)).cpu().numpy()
        labels = here.predict(X_test)
        yield {
            "data": "mnist, ten classes",
            "settings": f"rbf, C=1, spread={spread:g}, on {threads} cores",
            "seconds": seconds, "largest gap": float(here.dual_gap_.max()),
            "test errors": int((labels != y_test).sum()),
            "labels that differ": int((labels != errors(there, X_test, y_test)[2]).sum()),
            "largest difference of dual objectives": float(np.abs(other / dual - 1.0).max()),
            "largest difference of bounds": float(np.abs(bounds / here.B_ - 1.0).max())
            if bounds is not None else 0.0,
        }  # fmt: skip
    yield from penalised_on_cores(data)


PRICES = ({"D": 5.0}, {"D": 5.0, "nu": 100.0})


def named(bound: dict[str, float]) -> str:
    return "rbf, " + ", ".join(f"{name}={value:g}" for name, value in bound.items())


def penalised(data: Path, repeats: int) -> Iterator[Row]:
    """Bounds with a penalty next to a given spread."""
    X, y, X_test, y_test = images(data, "mnist")
    for n, name in ((10_000, "10,000 rows of mnist"), (len(y), "mnist")):
        for bound in ({"spread": 0.5}, *PRICES):
            fitted(X[:n], y[:n], 1, **bound)
            row, model = fitted(X[:n], y[:n], repeats, **bound)
            yield {
                "data": f"{name}, ten classes", "settings": named(bound), **row,
                "test errors": errors(model, X_test, y_test)[1],
            }  # fmt: skip


def penalised_on_cores(data: Path) -> Iterator[Row]:
    X, y, X_test, y_test = images(data, "mnist")
    X, y = X[:10_000], y[:10_000]
    for bound in PRICES:
        _, there = fitted(X, y, 1, **bound)
        fit = partial(RelativeMarginClassifier(**bound, n_jobs=os.cpu_count()).fit, X, y)
        fit()
        seconds, here = timed(fit, 1)
        labels, objectives = here.predict(X_test), there.objective_.cpu().numpy()
        yield {
            "data": "10,000 rows of mnist, ten classes",
            "settings": f"{named(bound)}, on {os.cpu_count()} cores",
            "seconds": seconds, "largest gap": float(here.dual_gap_.max()),
            "test errors": int((labels != y_test).sum()),
            "labels that differ": int((labels != errors(there, X_test, y_test)[2]).sum()),
            "largest difference of objectives":
                float(np.abs(objectives / here.objective_ - 1.0).max()),
        }  # fmt: skip


def binary(data: Path, repeats: int) -> Iterator[Row]:
    X, y, _, _ = images(data, "mnist")
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    settings = {"kernel": "poly", "degree": 5, "gamma": 1.0, "coef0": 1.0, "spread": 1.0}
    row, _ = fitted(X, (y > 4).astype(np.int64), repeats, **settings, tol=2e-3)
    yield {"data": "mnist, 0-4 against 5-9", "settings": "poly 5, C=1, svm, tol 2e-3", **row}


def clusters(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Twenty normal clusters, ten per class."""
    rng = np.random.default_rng(0)
    means, which = rng.normal(size=(20, d)) * (2 / np.sqrt(d)), rng.integers(0, 20, n)
    return (means[which] + rng.normal(size=(n, d))).astype(np.float32), (which < 10).astype(int)


def search(data: Path, repeats: int) -> Iterator[Row]:
    """Fifty penalties and ten folds: as one batch, and by the estimator."""
    n, Cs = 10_000, np.logspace(-3, 3, 50)
    for d in (1000, 100, 10):
        X, y = clusters(n, d)
        fold = np.arange(n) * 10 // n
        order = np.lexsort((y, fold))
        blocks = np.searchsorted((2 * fold + y)[order], np.arange(21))
        spans = np.column_stack([blocks[:-1], blocks[1:]])
        keep = np.array([np.flatnonzero(np.arange(20) // 2 != f) for f in range(10)])
        kernel = Kernel("rbf", float(1 / (d * X.astype(float).var())))

        def solve(X: Any = X[order], spans: Any = spans, keep: Any = keep, kernel: Any = kernel):
            return solve_batch(
                MarginBatch(
                    RowTiles(kernel, torch.from_numpy(X).cuda()), spans[keep],
                    np.where(keep % 2, 1.0, -1.0), np.ones(n), Cs, np.empty(0), polish=False,
                )
            )  # fmt: skip

        seconds, found = timed(solve, repeats)
        yield {
            "data": f"clusters, {n} x {d}", "settings": "rbf, 50 C x 10 folds, one batch",
            "seconds": seconds, "largest gap": float(found.relative_gap.max()),
            "converged": bool((found.status == 0).all()), "steps": int(found.n_iter.sum()),
        }  # fmt: skip
    for d in (1000, 100, 10):
        X, y = clusters(n, d)
        cv = RelativeMarginClassifierCV(Cs=Cs, spreads=(1.0,), cv=KFold(10), refit=False)
        seconds, model = timed(lambda cv=cv, X=X, y=y: cv.fit(torch.from_numpy(X).cuda(), y), 1)
        yield {
            "data": f"clusters, {n} x {d}", "settings": "rbf, 50 C x 10 folds, the CV estimator",
            "seconds": seconds, "best score": model.best_score_,
        }  # fmt: skip


def unscaled(data: Path, repeats: int) -> Iterator[Row]:
    X, y = load_breast_cancer(return_X_y=True)
    row, _ = fitted(X, y, repeats, kernel="linear")
    seconds, _ = timed(lambda: RelativeMarginClassifier(kernel="linear").fit(X, y), repeats)
    yield {
        "data": "breast cancer, not scaled", "settings": "linear, spread=0.5", **row,
        "on cores (s)": seconds,
    }  # fmt: skip


def covtype(data: Path, repeats: int, n: int = 500_000) -> Iterator[Row]:
    """Resample the rows, the ten numeric columns with noise of a twentieth of their deviation."""
    file, rng = np.load(data / "covtype_93k.npz"), np.random.default_rng(0)
    rows = rng.integers(0, len(file["y"]), n)
    X = file["X"][rows].astype(np.float64)
    X[:, :10] += 0.05 * X[:, :10].std(axis=0) * rng.normal(size=(n, 10))
    X = ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)).astype(np.float32)
    row, _ = fitted(X, file["y"][rows].astype(np.int64), 1, spread=1.0, tol=1e-2)
    yield {"data": f"covtype, {n} rows, seven classes", "settings": "rbf, C=1, tol 1e-2", **row}


PARTS = {
    part.__name__: part
    for part in (mnist, fashion, binary, search, unscaled, covtype, cores, penalised)
}  # fmt: skip


def table(found: dict[str, Any]) -> str:
    """Results as a table in Markdown."""
    every = [row for part in found["parts"].values() for row in part]
    revisions = ", ".join(sorted({row["revision"] for row in every}))
    shown = [
        f"**On one {found['device']}, from arrays on the host to a certified model**", "",
        f"Revision {revisions}. Median seconds of three fits after a small one that compiles; one "
        "fit each of covtype, with a penalty on cores and by the CV estimator. "
        "Transfers of the rows are included; tol 1e-3 unless named. Dual objectives are compared "
        "at the device's bounds. Made by "
        "`python benchmarks/on_device.py --data DATA`.", "",
        "| data | settings | seconds | largest gap | test errors |", "|---|---|---|---|---|",
    ]  # fmt: skip
    notes = []
    for row in every:
        gap = f"{row['largest gap']:.2g}" if "largest gap" in row else "–"
        cells = (row["data"], row["settings"], f"{row['seconds']:.3g}", gap)
        shown.append(f"| {' | '.join(cells)} | {row.get('test errors', '–')} |")
        if "labels that differ" in row:
            differences = ", ".join(
                f"{name.removeprefix('largest difference of ')} by {value:.1e}"
                for name, value in row.items() if name.startswith("largest difference")
            )  # fmt: skip
            notes += [
                "", f"{row['data']}, {row['settings']}: {row['labels that differ']} of 10,000 test "
                f"labels differ from those on the device; {differences} at most.",
            ]  # fmt: skip
    versions = ", ".join(f"{name} {value}" for name, value in found["versions"].items())
    remark = f" {found['remark']}" if "remark" in found else ""
    return "\n".join([*shown, *notes, "", f"{versions}.{remark}"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--revision", default="not named")
    arguments = parser.parse_args()
    set_config(array_api_dispatch=True)
    warnings.simplefilter("ignore")
    X, y = clusters(3000, 5)
    for kernel in ("rbf", "linear", "poly"):
        fitted(X, y, 1, spread=0.1, kernel=kernel)
    for nu in (None, 10.0):
        fitted(X, y, 1, D=1.0, nu=nu)
    before = json.loads(arguments.output.read_text())["parts"] if arguments.output.exists() else {}
    device = torch.cuda.get_device_name()
    names = ("numpy", "scikit-learn", "numba", "numba-cuda", "torch")
    versions = {"Python": platform.python_version(), **{name: version(name) for name in names}}
    for name in arguments.only.split(","):
        before[name] = []
        for row in PARTS[name](arguments.data, arguments.repeats):
            print(json.dumps(row), flush=True)
            before[name].append({**row, "revision": arguments.revision})
            found = {"device": device, "versions": versions, "parts": before}
            arguments.output.write_text(json.dumps(found, indent=1))
            arguments.output.with_suffix(".md").write_text(table(found))


if __name__ == "__main__":
    main()
