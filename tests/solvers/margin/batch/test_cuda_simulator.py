"""The kernels for CUDA devices in Numba's simulator, against the solver on cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.large
def test_small_problems_have_the_solutions_of_the_cores():
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "OBLONG_DISABLE_JIT": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.solvers.margin.batch.simulated"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert max(found.pop("parts").values()) <= 1e-12
    assert found.pop("search") <= 2e-3
    for name in ("cached columns", "two matrices"):
        folds = found.pop(name)
        assert folds["converged"]
        assert max(folds["dual 0"], folds["dual 1"]) <= 1e-5
        assert max(folds["outputs 0"], folds["outputs 1"]) <= 3e-4
    # The interior point method solved both.
    assert folds["steps"] <= 20
    for name, one in found.pop("bounds").items():
        assert one["converged"], name
        assert one["bounds above one"] >= 1
        assert max(one["gap"], one["objective"]) <= 1e-4, name
        assert max(one["theta"], one["outputs"]) <= 2e-3, name
    assert len(found) == 4
    # One round for either penalty, of a handful of steps.
    assert found["interior point"]["steps"] <= 20
    for name, one in found.items():
        assert one["converged"], name
        assert one["interior point"] == (name == "interior point")
        assert one["gap"] <= 1e-3, name
        assert one["violation"] <= 1.001e-4, name
        # Two solutions to 1e-4 in the outputs.
        assert abs(one["dual"]) <= 1e-5, name
        assert abs(one["bias"]) <= 2e-4, name
        assert one["sum"] <= 1e-14, name
