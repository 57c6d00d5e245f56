"""Scripts of :mod:`online_against_peers` that need a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys

INSTRUCTIONS = """
import sys, time, types
import numba, numpy as np, scipy.sparse as sp
from oblong import AROWClassifier
loop = numba.njit(nogil=True, fastmath={{"nnan", "nsz", "contract"}}, error_model="numpy")
@loop
def fold(S, q, x, product):
    product[:] = 0.0
    for r in range(len(S)):
        for c in range(len(S)):
            S[r, c] -= q[r] * q[c]
            product[c] += x[r] * S[r, c]
@loop
def multiply(S, x, product):
    product[:] = 0.0
    for r in range(len(S)):
        for c in range(len(S)):
            product[c] += x[r] * S[r, c]
@loop
def subtract(S, q):
    for r in range(len(S)):
        for c in range(len(S)):
            S[r, c] -= q[r] * q[c]
@loop
def prefetch(table, j):
    return
if {plain}:
    own = dict(fold=fold, multiply=multiply, subtract=subtract, prefetch=prefetch)
    sys.modules["oblong.solvers.online.instructions"] = types.SimpleNamespace(**own)
rng, n, d, entries = np.random.default_rng(0), {n}, {d}, 100
if {sparse}:
    columns = np.sort(rng.integers(0, d, (n, entries), dtype=np.int32), axis=1).ravel()
    values, spans = np.abs(rng.standard_normal(n * entries)), np.arange(n + 1) * entries
    X = sp.csr_matrix((values, columns, spans), shape=(n, d))
    X.sum_duplicates()
else:
    X = rng.standard_normal((n, d))
y = X @ rng.standard_normal(d) + 3 * rng.standard_normal(n) > 0
times = []
for _ in range({repeats} + 1):
    start = time.process_time()
    AROWClassifier(covariance="diag" if {sparse} else "full").partial_fit(X, y, classes=[0, 1])
    times.append(time.process_time() - start)
print(min(times[1:]) / n)
"""

FIRST = """
import time
import numpy as np
from oblong import AROWClassifier
X = np.random.default_rng(0).standard_normal((200, {d}))
start = time.perf_counter()
AROWClassifier(covariance="{shape}").partial_fit(X, X[:, 0] > 0, classes=[False, True])
print(time.perf_counter() - start)
"""


def printed(script: str, **environment: str) -> float:
    """The number that a script prints in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)
