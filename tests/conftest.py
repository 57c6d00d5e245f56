"""Settings shared by all tests."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# Before SciPy is imported: scikit-learn's checks with arrays of other libraries need it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Compilation makes the first example slow, and the drawn examples must not depend on the machine.
settings.register_profile(
    "oblong",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("oblong")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--few",
        type=int,
        metavar="N",
        help="run only the first N cases of every test, as `make test` does with plain Python",
    )


# Files that take longest: last in line, they would keep one worker busy while the others wait.
_LONG = {
    "test_calibration.py",
    "test_compare.py",
    "test_dask.py",
    "test_documentation.py",
    "test_river.py",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _LONG)
    if (few := config.getoption("few")) is None:
        return
    seen: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        name = item.nodeid.partition("[")[0]
        (kept if seen[name] < few else left).append(item)
        seen[name] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left)
