"""The documentation says what is so: its examples run, and what it names is there."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import oblong

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GUIDE = sorted((DOCS / "guide").glob("*.rst"))

pytestmark = pytest.mark.skipif(not GUIDE, reason="the documentation is not part of this copy")


@pytest.mark.parametrize(
    "page", [page for page in GUIDE if ">>>" in page.read_text("utf-8")], ids=lambda page: page.stem
)
def test_examples_of_the_guide(page):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    done = doctest.testfile(
        str(page), module_relative=False, optionflags=flags, encoding="utf-8", verbose=False
    )
    assert done.attempted
    assert not done.failed


@pytest.mark.parametrize(
    "name",
    [
        "oblong",
        "oblong.bounds",
        "oblong.datasets",
        "oblong.display",
        "oblong.streams",
        "oblong.svm",
    ],
)
def test_reference_lists_every_public_name(name):
    reference = (DOCS / "api.rst").read_text("utf-8")
    listed = set(re.findall(r"^ +([\w.]+)$", reference, flags=re.MULTILINE))
    assert set(importlib.import_module(name).__all__) - {"__version__"} <= listed


def test_guide_names_every_estimator():
    text = "".join(page.read_text("utf-8") for page in GUIDE)
    public = {name: getattr(oblong, name) for name in oblong.__all__}
    estimators = [
        name
        for name, value in public.items()
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
    ]
    assert estimators
    assert [name for name in estimators if f"oblong.{name}`" not in text] == []


def test_figures_of_the_guide_come_from_examples():
    pages = [*GUIDE, *DOCS.glob("*.rst")]
    named = {
        match
        for page in pages
        for match in re.findall(
            r"sphx_glr_(?:auto_examples_)?(plot_\w+?)(?:_\d{3})?\.p\w+", page.read_text("utf-8")
        )
    }
    assert named
    assert named <= {path.stem for path in (ROOT / "examples").glob("plot_*.py")}


def test_every_benchmark_has_its_place():
    marks = re.findall(r"<!-- table: (\w+) -->", (DOCS / "performance.md").read_text("utf-8"))
    tables = [path.stem for path in (ROOT / "benchmarks" / "results").glob("*.md")]
    assert sorted(marks) == sorted(tables)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/performance.md"])
def test_links_lead_somewhere(page):
    path = ROOT / page
    text = path.read_text("utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", text) + re.findall(
        r"(?:src|srcset)=\"([^\"]+)\"", text
    )
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_one_version():
    found = {
        name: re.search(pattern, (ROOT / name).read_text("utf-8"), flags=re.MULTILINE)[1]
        for name, pattern in {
            "CITATION.cff": r"^version: (\S+)$",
            "reproduction/pyproject.toml": r'^version = "(\S+)"$',
        }.items()
    }
    # Not part of a source distribution.
    if (recipe := ROOT / "conda" / "meta.yaml").exists():
        found["recipe"] = re.search(r'set version = "(\S+)"', recipe.read_text("utf-8"))[1]
    assert set(found.values()) == {oblong.__version__}


def test_contributing_names_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = re.findall(r"`((?:oblong|tests|docs|benchmarks|reproduction|examples)/[\w/.]*)`", text)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_formulas_are_those_of_tex(monkeypatch):
    """A fraction of two digits, and the space around the name of a function."""
    pytest.importorskip("sphinx")
    from docutils import nodes

    monkeypatch.syspath_prepend(DOCS / "_ext")
    mathml = importlib.import_module("mathml")

    def written(tex):
        return re.sub(r"\s+(?=<)", "", mathml._mathml(nodes.math(tex, tex), block=False))

    assert "<mfrac><mn>1</mn><mn>2</mn></mfrac>" in written(r"\frac12 w")
    assert written(r"r\ln x").count("<mspace") == 2
    assert written(r"\exp(x)").count("<mspace") == 0
    assert written(r"|B|").count('lspace="0"') == 2
