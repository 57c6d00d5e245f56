"""The experiments use what a user of oblong can use, and nothing below it."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import oblong_reproduction

FOLDER = Path(oblong_reproduction.__file__).parent
MODULES = sorted(FOLDER.rglob("*.py"))
# What the documentation of oblong names; below are solvers, kernels and linear algebra.
PUBLIC = {
    "oblong",
    "oblong.bounds",
    "oblong.datasets",
    "oblong.display",
    "oblong.persistence.journal",
    "oblong.streams",
}


def imported(tree):
    """Modules and names that a file imports from oblong."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_only_public_names_of_oblong_are_imported(path):
    for module, name in imported(ast.parse(path.read_text("utf-8"))):
        if module == "oblong" or module.startswith("oblong."):
            assert module in PUBLIC
            assert not name or name in import_module(module).__all__


def test_the_check_sees_imports():
    found = set(imported(ast.parse("import oblong.solvers\nfrom oblong.kernels import Kernel")))
    assert found == {("oblong.solvers", ""), ("oblong.kernels", "Kernel")}
