"""Put the thumbnails of the gallery under headings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageOps

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Words in the names of examples, and the headings that they go under; the first that fits.
GROUPS = {
    "Relative margins": "stretch margin spread drop_in bound passes",
    "Ellipsoids": "ellipsoid_outliers ellipsoidal_machine",
    "Version space and metrics": "version_space metric",
    "Online learners": "online weight_distribution active streams drift",
    "Probabilities and regression": "probabilities quantiles regression",
    "More": "",
}
# Wide figures whose thumbnails show one panel: its left, right and lower end, as fractions of the
# figure.
PANELS = {
    "01_stretch_001": (0.682, 1.0, 0.9),
    "07_risk_bounds_001": (0.515, 1.0, 1.0),
    "09_ellipsoidal_machine_001": (0.0, 0.405, 1.0),
    "10_version_space_001": (0.0, 0.455, 1.0),
    "12_online_mistakes_001": (0.0, 0.508, 1.0),
    "13_weight_distribution_001": (0.0, 0.5, 1.0),
    "17_quantiles_001": (0.532, 1.0, 1.0),
    "20_passes_001": (0.0, 0.5, 1.0),
}
THUMBNAIL = (560, 400)
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


def crop(app: Sphinx, *_: object) -> None:
    """Replace the thumbnails of wide figures by one of their panels."""
    images = Path(app.srcdir) / "auto_examples" / "images"
    for name, (left, right, low) in PANELS.items():
        figure = images / f"sphx_glr_plot_{name}.png"
        if figure.is_file():
            image = Image.open(figure).convert("RGBA")
            box = (int(left * image.width), 0, int(right * image.width), int(low * image.height))
            panel = ImageOps.contain(image.crop(box), THUMBNAIL)
            ground = Image.new("RGBA", THUMBNAIL, "white")
            ground.paste(panel, tuple((a - b) // 2 for a, b in zip(THUMBNAIL, panel.size)), panel)
            ground.save(images / "thumb" / f"sphx_glr_plot_{name[:-4]}_thumb.png")


def group(app: Sphinx, docname: str, source: list[str]) -> None:
    """Sort the items of the gallery's page."""
    if docname == "auto_examples/index":
        source[0] = _ALL.sub(lambda whole: grouped(whole[1]), source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen for the page of the gallery."""
    app.connect("source-read", group)
    app.connect("env-before-read-docs", crop)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
