"""The switch that turns compilation off."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

CODE = """
import json
import numpy as np
from oblong import RelativeMarginClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = X[:, 0] + 0.5 * rng.normal(size=60) > 0
results = []
for kernel in ("rbf", "poly"):
    machine = RelativeMarginClassifier(C=10, spread=0.2, kernel=kernel, tol=1e-6).fit(X, y)
    results.append(machine.decision_function(X).tolist())
print(json.dumps(results))
"""


def _outputs(**environment: str) -> np.ndarray:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return np.array(json.loads(done.stdout))


def test_plain_python_gives_the_same_outputs():
    compiled = _outputs(OBLONG_DISABLE_JIT="0")
    plain = _outputs(OBLONG_DISABLE_JIT="1")
    np.testing.assert_allclose(plain, compiled, atol=1e-6)
