"""Every solver module has a test that imports it, and families keep to themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import oblong.solvers

FOLDER = Path(oblong.solvers.__file__).parent


def imported(path):
    """Modules that a file imports, with the names that may be modules."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules():
    """Modules of all families, by name."""
    for path in FOLDER.rglob("*.py"):
        if path.name != "__init__.py":
            parts = path.relative_to(FOLDER).with_suffix("").parts
            yield ".".join(("oblong.solvers", *parts)), path


def test_every_module_is_imported_by_a_test():
    known = {name for path in Path(__file__).parent.parent.rglob("*.py") for name in imported(path)}
    assert [name for name, _ in modules() if name not in known] == []


def test_few_imports_cross_families():
    names = dict(modules())
    crossing = [
        (name, other)
        for name, path in names.items()
        for other in set(imported(path)) & set(names)
        if name.split(".")[2] != other.split(".")[2]
    ]
    assert len(crossing) <= 14
