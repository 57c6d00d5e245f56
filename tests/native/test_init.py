"""Which set of instructions is loaded."""

import importlib
import os
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

import oblong._native as native

LEVELS = ("v4", "v3", "v2", "baseline")
USABLE = [level for level in native._levels() if find_spec(f"oblong._native._{level}")]
CPU = importlib.import_module("oblong._native._cpu")


def _run(code, **environment):
    command = [sys.executable, "-c", code]
    given = {k: v for k, v in os.environ.items() if k != "OBLONG_VARIANT"} | environment
    return subprocess.run(command, env=given, capture_output=True, text=True)


def test_level__is_one_that_exists():
    assert CPU.level() in LEVELS


@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="needs /proc/cpuinfo")
def test_level__agrees_with_the_system():
    with open("/proc/cpuinfo") as file:
        flags = set(next((line for line in file if line.startswith("flags")), "").split())
    if not flags:
        pytest.skip("another kind of processor")
    level = "baseline"
    if {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"} <= flags:
        level = "v2"
        if {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"} <= flags:
            level = "v3"
            if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
                level = "v4"
    assert CPU.level() == level


def test_variant__is_the_best_that_is_built():
    found = _run("import oblong._native; print(oblong._native.variant)")
    assert found.stdout.strip() == USABLE[0]


@pytest.mark.parametrize("level", USABLE)
def test_variant__is_the_one_in_the_environment(level):
    code = "from oblong._native import base, variant; print(variant, base.__name__)"
    found = _run(code, OBLONG_VARIANT=level)
    assert found.stdout.split() == [level, f"oblong._native._{level}.base"], found.stderr


def test_variant__that_does_not_exist_is_an_error():
    found = _run("import oblong._native", OBLONG_VARIANT="v9")
    assert found.returncode
    assert "oblong was built without OBLONG_VARIANT=v9" in found.stderr


@pytest.mark.parametrize(
    ("level", "built", "expected"),
    [
        ("v4", {"v2", "v3", "v4"}, "v4"),
        ("v3", {"v2", "v3", "v4"}, "v3"),
        ("v2", {"v2", "v3", "v4"}, "v2"),
        ("v4", {"v2"}, "v2"),
        ("v3", {"baseline"}, "baseline"),
        ("baseline", {"baseline"}, "baseline"),
    ],
)
def test_choose__takes_no_more_than_the_processor_has(monkeypatch, level, built, expected):
    monkeypatch.delenv("OBLONG_VARIANT", raising=False)
    _simulate(monkeypatch, level, built)
    assert native._choose() == expected


@pytest.mark.parametrize(
    ("level", "built", "message"),
    [
        ("baseline", {"v2", "v3"}, "none of baseline, which this processor has"),
        ("v2", {"v3"}, "none of v2, baseline"),
        (None, set(), "was not built"),
    ],
)
def test_choose__says_what_is_missing(monkeypatch, level, built, message):
    monkeypatch.delenv("OBLONG_VARIANT", raising=False)
    _simulate(monkeypatch, level, built)
    with pytest.raises(ImportError, match=message):
        native._choose()


def _simulate(monkeypatch, level, built):
    there = built | ({"cpu"} if level else set())
    monkeypatch.setattr(native, "_is_built", lambda name: name in there)
    monkeypatch.setattr(native, "import_module", lambda name: SimpleNamespace(level=lambda: level))


def test_families__are_modules_of_the_package():
    from oblong._native import base
    from oblong._native.base import extrema

    assert sys.modules["oblong._native.base"] is base
    assert base.extrema is extrema
