"""Put the thumbnails of the gallery under headings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Words in the names of examples, and the headings that they go under; the first that fits.
GROUPS = {
    "Relative margins": "stretch margin spread drop_in bound",
    "Ellipsoids": "ellipsoid_outliers ellipsoidal_machine",
    "Version space and metrics": "version_space metric",
    "Online learners": "online weight_distribution active streams drift",
    "Probabilities and regression": "probabilities quantiles regression",
    "More": "",
}
_OPEN = '.. raw:: html\n\n    <div class="sphx-glr-thumbnails">\n\n'
_CLOSE = ".. raw:: html\n\n    </div>\n\n"
_ITEM = re.compile(
    r'\.\. raw:: html\n\n    <div class="sphx-glr-thumbcontainer".*?\n    </div>\n', flags=re.DOTALL
)
# The whole, between the marks that sphinx-gallery sets.
_ALL = re.compile(
    re.escape(_OPEN) + r"\.\. thumbnail-parent-div-open\n(.*?)"
    r"\.\. thumbnail-parent-div-close\n\n\.\. raw:: html\n\n    </div>\n",
    flags=re.DOTALL,
)


def grouped(items: str) -> str:
    """The same items, under headings."""
    parts: dict[str, list[str]] = {heading: [] for heading in GROUPS}
    for item in _ITEM.findall(items):
        name = re.search(r"plot_\d*_?(\w+)", item)
        words = name[1] if name else ""
        heading = next(h for h, keys in GROUPS.items() if any(k in words for k in keys.split(" ")))
        parts[heading].append(item)
    text = "".join(
        "\n".join([heading, "-" * len(heading), "", _OPEN, *some, _CLOSE])
        for heading, some in parts.items()
        if some
    )
    return text + _ITEM.sub("", items)


def group(app: Sphinx, docname: str, source: list[str]) -> None:
    """Sort the items of the gallery's page."""
    if docname == "auto_examples/index":
        source[0] = _ALL.sub(lambda whole: grouped(whole[1]), source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen for the page of the gallery."""
    app.connect("source-read", group)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
