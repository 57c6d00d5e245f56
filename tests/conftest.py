"""Settings shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

# Numba's cache on disk is not made for several writers: give each worker its own, before
# anything compiles.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    cache = Path(__file__).parents[1] / ".pytest_cache" / "numba" / worker
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache))

# Compilation makes the first example slow, and the drawn examples must not depend on the machine.
settings.register_profile(
    "oblong",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("oblong")
