"""Links to the pages of scikit-learn, from an inventory that is made of the installed package.

Intersphinx would fetch the list of those pages from the network. Their addresses follow from the
names.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import sklearn.exceptions
from sklearn.utils.discovery import all_displays, all_estimators, all_functions

# Names of modules under which scikit-learn's pages list what is inside.
_MODULES = (
    "svm",
    "preprocessing",
    "model_selection",
    "pipeline",
    "datasets",
    "calibration",
    "utils",
)


def write(path: Path) -> None:
    """Write the inventory, in the format of Sphinx."""
    found = {f"sklearn.{name}": ("module", f"api/sklearn.{name}.html") for name in _MODULES}
    kinds = {"class": [*all_estimators(), *all_displays()], "function": all_functions()}
    for kind, members in kinds.items():
        for name, member in members:
            # Public is the module before the first part with an underscore.
            module = member.__module__.split("._")[0]
            full = f"{module}.{name}"
            found[full] = (kind, f"modules/generated/{full}.html#{full}")
    for name in filter(str.isalpha, vars(sklearn.exceptions)):
        full = f"sklearn.exceptions.{name}"
        found[full] = ("exception", f"modules/generated/{full}.html#{full}")
    lines = "".join(f"{n} py:{kind} 1 {uri} -\n" for n, (kind, uri) in sorted(found.items()))
    head = (
        f"# Sphinx inventory version 2\n# Project: scikit-learn\n# Version: {sklearn.__version__}\n"
    )
    head += "# The remainder of this file is compressed using zlib.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head.encode() + zlib.compress(lines.encode()))
