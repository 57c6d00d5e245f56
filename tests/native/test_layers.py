"""Headers keep to the layers of Python, by what they include."""

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADERS = sorted((ROOT / "oblong").rglob("*.[hc]pp"))


def _layers(contract):
    """Rank of every name in a contract of .importlinter; the lowest layer has the least."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    lines = parser[f"importlinter:contract:{contract}"]["layers"].split("\n")
    layers = [line.replace("|", " ").split() for line in lines if line]
    return {name: -rank for rank, layer in enumerate(layers) for name in layer}


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.name)
def test_includes__point_down(path):
    packages, families = _layers("layers"), _layers("solvers")
    own = path.relative_to(ROOT).parts
    for include in re.findall(r'^#include "(.*)"', path.read_text("utf-8"), re.MULTILINE):
        other = Path(include).parts
        assert (ROOT / include).exists(), "headers are included by their full path"
        # Bindings know what they bind.
        if own[1] == "_native" and path.suffix == ".cpp":
            continue
        assert other[1] == own[1] or packages[other[1]] < packages[own[1]], include
        if other[1] == own[1] == "solvers" and other[2] != own[2]:
            assert families[other[2]] < families[own[2]], include


def test_names_of_libraries_are_in_angles():
    own = {path.name for path in HEADERS}
    for path in HEADERS:
        found = re.findall(r"^#include <(.*)>", path.read_text("utf-8"), re.MULTILINE)
        assert not own & {Path(name).name for name in found}
