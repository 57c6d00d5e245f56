"""How long the ellipsoid of least volume takes, next to what a user finds today.

The peers are a general convex solver on the dual (cvxpy with Clarabel, whose default accuracy is
that of the gap here), the NumPy loop of Khachiyan's algorithm that many programs copy, stopped at
a gap of 1e-3 because it would not come to an end before, and ``cluster::ellipsoidhull`` of R, to
the same 1e-3. Large problems are measured in passes: the time over that of one ``X @ M``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _harness import interleaved, measured, write

from oblong.solvers.ellipsoid.solve import EllipsoidResult, solve_ellipsoid

GAP = 1e-6
# What slow peers are allowed to stop at.
ROUGH = 1e-3
# Shrinks every problem, to try the script out.
SCALE = float(os.environ.get("OBLONG_BENCHMARK_SCALE", "1"))

COLUMNS = [
    "data",
    "rows x columns",
    "threads",
    "oblong (s)",
    "gap",
    "Newton systems",
    "passes",
    "peer",
    "peer (s)",
    "peer's gap",
    "peer / oblong",
    "X @ M (s)",
    "oblong / X @ M",
]


def gap_of(X: np.ndarray, u: np.ndarray) -> float:
    """Largest leverage over the dimension, minus one."""
    Z = np.column_stack([X, np.ones(len(X))])
    M = (Z.T * u) @ Z
    q = np.einsum("ij,ij->i", Z @ np.linalg.inv(M), Z)
    return float(q.max() / Z.shape[1] - 1)


def by_cvxpy(X: np.ndarray) -> np.ndarray:
    """Weights from the dual problem."""
    import cvxpy as cp

    Z = np.column_stack([X, np.ones(len(X))])
    u = cp.Variable(len(X), nonneg=True)
    problem = cp.Problem(cp.Maximize(cp.log_det(Z.T @ cp.diag(u) @ Z)), [cp.sum(u) == 1])
    problem.solve(solver=cp.CLARABEL)
    u = np.maximum(u.value, 0)
    return u / u.sum()


def by_khachiyan(X: np.ndarray) -> np.ndarray:
    """Weights from the loop that many programs copy, without its matrix of n by n numbers."""
    n, d = X.shape
    Q = np.column_stack([X, np.ones(n)]).T
    u = np.ones(n) / n
    while True:
        V = (Q * u) @ Q.T
        M = np.einsum("ij,ij->j", Q, np.linalg.inv(V) @ Q)
        j = np.argmax(M)
        if M[j] <= (d + 1) * (1 + ROUGH):
            return u
        step = (M[j] - d - 1) / ((d + 1) * (M[j] - 1))
        u = (1 - step) * u
        u[j] += step


_R = """
arguments <- commandArgs(trailingOnly = TRUE)
n <- as.integer(arguments[2]); d <- as.integer(arguments[3])
X <- matrix(readBin(arguments[1], "double", n * d), n, d)
seconds <- system.time(
  e <- cluster::ellipsoidhull(X, tol = as.numeric(arguments[4]), maxit = 1000000L)
)
stopifnot(e$conv)
writeBin(as.double(c(seconds[["elapsed"]], e$loc, e$cov, e$d2)), arguments[5])
"""


def by_r(X: np.ndarray) -> tuple[float, float]:
    """Seconds of ellipsoidhull, and how much larger than needed ``D ln(1 + gap)`` its volume is.

    R does not return the weights; its matrix is scaled to enclose every row and compared.
    """
    n, d = X.shape
    with tempfile.TemporaryDirectory() as folder:
        rows, out = Path(folder) / "rows", Path(folder) / "out"
        rows.write_bytes(np.asfortranarray(X).tobytes(order="F"))
        command = ["Rscript", "-e", _R, str(rows), str(n), str(d), str(ROUGH), str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = np.fromfile(out)
    center, S = found[1 : d + 1], found[d + 1 : d + 1 + d * d].reshape(d, d)
    squares = np.einsum("ij,ji->i", X - center, np.linalg.solve(S, (X - center).T))
    log_det = np.linalg.slogdet(S * squares.max())[1]
    best = solve_ellipsoid(X, tol=1e-9)
    matrix = best.inverse_factor.T @ best.inverse_factor
    return float(found[0]), float(log_det - np.linalg.slogdet(matrix)[1]) / (d + 1)


def against(
    name: str, X: np.ndarray, threads: int, repeats: int, peers: dict[str, Callable]
) -> list[dict]:
    """One row a peer. Peers run once if that takes long."""
    result = solve_ellipsoid(X, tol=GAP)
    seconds = interleaved({"oblong": lambda: solve_ellipsoid(X, tol=GAP)}, max(repeats, 5))[
        "oblong"
    ]
    rows = []
    for peer, run in peers.items():
        start = time.perf_counter()
        found = run(X)
        took = time.perf_counter() - start
        if isinstance(found, tuple):
            took, gap = found
        else:
            gap = gap_of(X, found)
            if took < 1:
                took = interleaved({peer: lambda run=run: run(X)}, repeats)[peer]
        row = describe(name, X, threads, seconds, result)
        rows.append(row | {"peer": peer, "peer (s)": took, "peer's gap": gap})
        rows[-1]["peer / oblong"] = took / seconds
        print(rows[-1], file=sys.stderr)
    return rows


def describe(
    name: str, X: np.ndarray, threads: int, seconds: float, result: EllipsoidResult
) -> dict:
    if result.status != "converged" or result.squared_distances.max() > 1:
        raise RuntimeError(f"{name}: {result.status}")
    return {
        "data": name,
        "rows x columns": f"{X.shape[0]} x {X.shape[1]}",
        "threads": threads,
        "oblong (s)": seconds,
        "gap": result.gap,
        "Newton systems": result.n_iter,
        "passes": result.n_passes,
    }


def large(name: str, X: np.ndarray, threads: int, repeats: int) -> dict:
    """Time in units of one matrix product over the data."""
    M = np.random.default_rng(1).normal(size=(X.shape[1], X.shape[1]))
    out = np.empty_like(X)
    result = solve_ellipsoid(X, tol=GAP)
    tasks = {
        "oblong": lambda: solve_ellipsoid(X, tol=GAP),
        "product": lambda: np.matmul(X, M.astype(X.dtype), out=out),
    }
    seconds = interleaved(tasks, repeats)
    row = describe(name, X, threads, seconds["oblong"], result)
    row |= {"X @ M (s)": seconds["product"]}
    row["oblong / X @ M"] = seconds["oblong"] / seconds["product"]
    print(row, file=sys.stderr)
    return row


def peers_of_middle_size() -> dict[str, Callable]:
    found: dict[str, Callable] = {"Khachiyan in NumPy": by_khachiyan}
    if shutil.which("Rscript"):
        found["R cluster::ellipsoidhull"] = by_r
    else:
        print("Rscript is not installed", file=sys.stderr)
    return found


def measure(threads: int, repeats: int) -> list[dict]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10))
    rows = against("normal", X, threads, repeats, {"cvxpy, Clarabel": by_cvxpy})
    X = rng.normal(size=(int(50_000 * SCALE), 10))
    rows += against("normal", X, threads, repeats, peers_of_middle_size())
    for n in (100_000, 300_000, 1_000_000):
        n = int(n * SCALE)
        rows.append(large("normal", rng.normal(size=(n, 50)), threads, min(repeats, 3)))
    heavy = rng.standard_t(3, size=(int(1_000_000 * SCALE), 50))
    rows.append(large("Student t, 3 degrees of freedom", heavy, threads, min(repeats, 3)))
    return rows


def main() -> None:
    write(
        "ellipsoid_against_peers",
        "The ellipsoid of least volume next to its peers",
        "Median seconds to a gap of 1e-6 (max q / D - 1); the Khachiyan loop and R stop at 1e-3. "
        "A ratio of peer to oblong above one means that oblong is faster. The last two columns "
        "give the time of one matrix product over the data and oblong's time in that unit. "
        "Passes are those over all rows; later ones leave out rows that cannot matter. R's gap is "
        "measured by the volume of its ellipsoid.",
        COLUMNS,
        measured(__file__, __doc__, measure),
    )


if __name__ == "__main__":
    main()
