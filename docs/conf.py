"""Configuration of the documentation; build it with ``make docs``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

logger = logging.getLogger(__name__)
DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))
sys.path.insert(0, str(DOCS.parent))

import gallery_groups  # noqa: E402
import sklearn_inventory  # noqa: E402

from oblong import __version__  # noqa: E402

project = "oblong"
author = "The oblong developers"
copyright = "2026, The oblong developers"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "choice_matrix",
    "command_output",
    "gallery_groups",
    "mathml",
    "reproduction_page",
]
INVENTORY = DOCS / "_build" / "sklearn.inv"
sklearn_inventory.write(INVENTORY)
intersphinx_mapping = {"sklearn": ("https://scikit-learn.org/stable", str(INVENTORY))}
exclude_patterns = ["_build", "_data", "auto_examples/**/*.py.md5", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
nitpicky = False
default_role = "py:obj"

html_theme = "pydata_sphinx_theme"
html_title = "oblong"
html_static_path = ["_static"]
html_css_files = ["oblong.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "oblong"},
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
}
# Only the gallery and the reference have enough pages for a list of them at the side.
html_sidebars = {
    "auto_examples/**": ["sidebar-nav-bs"],
    "api/**": ["sidebar-nav-bs"],
    "api": ["sidebar-nav-bs"],
    "[!a]**": [],
}

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_use_plots = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "download_all_examples": False,
    "doc_module": ("oblong",),
    "backreferences_dir": "api/generated",
    "inspect_global_variables": True,
    # The page of times loads scripts from elsewhere.
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    # Twice as many pixels as the thumbnails are wide.
    "thumbnail_size": gallery_groups.THUMBNAIL,
    "reset_modules": ("matplotlib",),
}
suppress_warnings = ["config.cache"]


def insert_benchmarks(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the tables written by the benchmark scripts into the page on performance."""
    if docname != "performance":
        return
    tables = {}
    for path in sorted((DOCS.parent / "benchmarks" / "results").glob("*.md")):
        app.env.note_dependency(str(path))
        # A heading in place of the bold title gives each table a line in the list of contents.
        tables[path.stem] = re.sub(r"\A\*\*(.+)\*\*", r"### \1", path.read_text(encoding="utf-8"))

    def table(mark: re.Match[str]) -> str:
        return tables.pop(mark[1], "*Not measured yet.*")

    source[0] = re.sub(r"<!-- table: (\w+) -->", table, source[0])
    if tables:
        logger.warning(
            "tables without a place on the page: %s", ", ".join(tables), location=docname
        )


def cut_foreign_references(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Unlink references in docstrings inherited from scikit-learn, whose sections are not here."""
    if getattr(obj, "__module__", "").startswith("sklearn."):
        lines[:] = [re.sub(r":\w+:`([^`<]+?)\s*(<[^`]*>)?`", r"\1", line) for line in lines]


def setup(app: Sphinx) -> None:
    app.connect("source-read", insert_benchmarks)
    app.connect("autodoc-process-docstring", cut_foreign_references)
