"""The guide to the solvers names what there is."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import oblong.solvers
from oblong.solvers.bayes_point.options import BayesPointOptions
from oblong.solvers.covariance.options import CovarianceOptions
from oblong.solvers.ellipsoid.options import EllipsoidOptions
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.linear.options import LinearOptions
from oblong.solvers.logdet.options import LogDetOptions
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.online.options import OnlineOptions

FOLDER = Path(oblong.solvers.__file__).parent
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
OPTIONS = [
    MarginOptions,
    LinearOptions,
    OnlineOptions,
    LogDetOptions,
    EllipsoidOptions,
    EsvmOptions,
    BayesPointOptions,
    CovarianceOptions,
]
FAMILIES = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))


# Closed formulas and convex problems of one or two numbers: nothing to tune.
WITHOUT_OPTIONS = {"calibration"}


def test_every_family_has_its_options():
    named = sorted(kind.__module__.split(".")[-2] for kind in OPTIONS)
    assert named == sorted(set(FAMILIES) - WITHOUT_OPTIONS)


def listed(family):
    """Names and defaults in the table of a family."""
    part = TEXT.split(f"## `{family.__name__}`")[1].split("\n## ")[0]
    for line in part.splitlines():
        if line.startswith("| `"):
            names, defaults = line.split("|")[1:3]
            values = re.split(r", (?=\S)", defaults.strip())
            found = re.findall(r"`(\w+)`", names)
            yield from zip(found, values if len(found) > 1 else [defaults.strip()])


@pytest.mark.parametrize("family", OPTIONS)
def test_every_setting_is_listed_with_its_default(family):
    table = dict(listed(family))
    assert set(table) == {field.name for field in fields(family)}
    for field in fields(family):
        if field.default is not MISSING and isinstance(field.default, int | float):
            assert float(table[field.name].replace(",", "")) == field.default, field.name


@pytest.mark.parametrize("family", OPTIONS)
def test_every_setting_is_documented_where_it_is_defined(family):
    documented = family.__doc__.split("Attributes\n")[1]
    for field in fields(family):
        assert re.search(rf"(^|\s){field.name}(,| :)", documented), field.name


@pytest.mark.parametrize("folder", FAMILIES)
def test_every_module_is_named(folder):
    for path in (FOLDER / folder).rglob("*.py"):
        if path.name not in ("__init__.py", "options.py"):
            assert f"`{path.relative_to(FOLDER).as_posix()}`" in TEXT, path
