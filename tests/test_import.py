"""The package as seen from outside."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys

import pytest
from sklearn.base import BaseEstimator

import oblong

HEAVY = ("cvxpy", "dask", "matplotlib", "pandas", "polars", "pyarrow", "rich")


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light():
    """Nothing is loaded beyond what scikit-learn loads itself."""
    program = """
import json, sys
import oblong
assert not {"numpy", "scipy", "sklearn", "numba"} & set(sys.modules)
import sklearn.svm, sklearn.utils.multiclass
before = set(sys.modules)
from oblong import *
print(json.dumps(sorted({name.split(".")[0] for name in set(sys.modules) - before})))
"""
    loaded = set(json.loads(_run(program)))
    assert "oblong" in loaded or "numba" in loaded
    assert not loaded & set(HEAVY)


def test_extras_are_not_needed():
    """The package imports and fits where none of its extras is installed."""
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import oblong
machine = oblong.RelativeMarginClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
print(machine.predict([[0.5], [2.5]]))
"""
    assert _run(program).strip() == "[0 1]"


def test_public_names():
    names = oblong.__all__
    for package in (oblong.batch, oblong.online):
        assert list(package.__all__) == sorted(package.__all__)
    assert len(set(names)) == len(names)
    for name in names:
        assert hasattr(oblong, name), name
    assert "RelativeMarginClassifier" in names


@pytest.mark.parametrize("package", ["oblong.batch", "oblong.geometry", "oblong.online"])
def test_every_estimator_is_public(package):
    found = {
        name
        for name, value in inspect.getmembers(importlib.import_module(package), inspect.isclass)
        if issubclass(value, BaseEstimator) and not name.startswith("_")
    }
    assert found
    assert found <= set(oblong.__all__)


def test_modules_need_no_import_of_their_own():
    program = """
import oblong
print(*(getattr(oblong, name).__name__ for name in ("bounds", "datasets", "display", "streams")))
print({"bounds", "datasets", "display", "streams"} <= set(dir(oblong)))
"""
    names = "oblong.bounds oblong.datasets oblong.display oblong.streams"
    assert _run(program).splitlines() == [names, "True"]


def test_star_import_brings_the_public_names():
    namespace: dict[str, object] = {}
    exec("from oblong import *", namespace)
    assert set(oblong.__all__) <= set(namespace)


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+([.\w+-]*)", oblong.__version__)


@pytest.mark.parametrize("name", oblong.__all__)
def test_public_names_are_documented(name):
    value = getattr(oblong, name)
    if callable(value) or inspect.ismodule(value):
        assert (value.__doc__ or "").strip()
