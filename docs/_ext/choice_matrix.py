"""A directive that writes the table of what each estimator can do, from the estimators themselves.

What a class says of itself (tags, methods, attributes) cannot be out of date; only the two columns
on size and speed are written here, by hand.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from sklearn.utils import get_tags
from sphinx.util.docutils import SphinxDirective

import oblong

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Rows that take seconds to minutes on two cores, and what the time of a fit grows with; the page on
# performance has the numbers.
SIZES = {
    "RelativeMarginClassifier": ("tens of thousands", "rows × support vectors"),
    "LinearRelativeMarginClassifier": ("millions", "rows × columns² if dense, entries if sparse"),
    "RelativeMarginClassifierCV": ("tens of thousands", "the same, all folds and spreads at once"),
    "CalibratedMarginClassifier": ("as its classifier", "that of the classifier, times 1.4 to 6"),
    "SigmaSVC": ("thousands; linear: millions", "rows²"),
    "EllipsoidalKernelClassifier": ("thousands; linear: millions", "rows², rank³"),
    "EllipsoidalSVC": ("thousands; linear: millions", "rows³ with a kernel"),
    "BayesPointClassifier": ("thousands", "rows³ with a kernel"),
    "UniversumSVC": ("tens of thousands", "rows × support vectors"),
    "KernelFisherClassifier": ("thousands", "rows³"),
    "MarginRegressor": ("tens of thousands; linear: millions", "rows × support vectors"),
    "MarginRegressorCV": ("tens of thousands", "the same, all folds and penalties at once"),
    "MinimumVolumeEllipsoid": ("millions", "rows × columns²"),
    "AROWClassifier": ("any", "rows × columns², × columns if diagonal"),
    "ConfidenceWeightedClassifier": ("any", "the same"),
    "SoftConfidenceWeightedClassifier": ("any", "the same"),
    "NormalHerdClassifier": ("any", "the same"),
    "SecondOrderPerceptron": ("any", "the same"),
    "ClassicalEllipsoidClassifier": ("any", "the same"),
    "ImprovedEllipsoidClassifier": ("any", "the same"),
    "PassiveAggressiveClassifier": ("any", "entries"),
    "OnlineEllipsoidalSVC": ("any", "rows × columns²"),
    "KernelConfidenceWeightedClassifier": ("thousands, more with a budget", "rows²"),
}
HEAD = [
    "estimator",
    "rows",
    "time grows with",
    "kernels",
    "sparse",
    "probabilities",
    "streams",
    "Dask",
    "certificate",
]


def row(name: str) -> list[str]:
    """The cells of one estimator."""
    kind = getattr(oblong, name)
    model = kind()
    tags = get_tags(model)
    dask = import_module("oblong.dask") if find_spec("oblong.dask") else None
    documented = inspect.getdoc(kind) or ""
    facts = [
        "kernel" in model.get_params(deep=False),
        tags.input_tags.sparse,
        hasattr(kind, "predict_proba"),
        hasattr(kind, "partial_fit"),
        hasattr(dask, f"Dask{name}"),
        "dual_gap_ :" in documented or "\ngap_ :" in documented,
    ]
    return [f"`~oblong.{name}`", *SIZES[name], *("yes" if fact else "–" for fact in facts)]


class ChoiceMatrix(SphinxDirective):
    """The table of all estimators."""

    def run(self) -> list[nodes.Node]:
        """Write it as a list table and let Sphinx read it."""
        lines = [".. list-table::", "   :header-rows: 1", "   :class: matrix", ""]
        for cells in [HEAD, *map(row, SIZES)]:
            lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(cells)]
        parent = nodes.container()
        self.state.nested_parse(StringList(lines, "choice_matrix"), 0, parent)
        return parent.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("choice-matrix", ChoiceMatrix)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
