"""Classifiers that use the shape of data, exact and certified, for scikit-learn."""

from oblong.batch import (
    KernelFisherClassifier,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
    RelativeMarginClassifierCV,
    RelativeMarginPath,
    SigmaSVC,
    UniversumSVC,
    relative_margin_path,
)

__version__ = "0.1.0"

__all__ = [
    "KernelFisherClassifier",
    "LinearRelativeMarginClassifier",
    "RelativeMarginClassifier",
    "RelativeMarginClassifierCV",
    "RelativeMarginPath",
    "SigmaSVC",
    "UniversumSVC",
    "__version__",
    "relative_margin_path",
]
