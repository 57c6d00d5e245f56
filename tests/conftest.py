"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Compilation makes the first example slow, and the drawn examples must not depend on the machine.
settings.register_profile(
    "oblong",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("oblong")
