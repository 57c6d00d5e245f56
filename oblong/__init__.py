"""Classifiers that use the shape of data, exact and certified, for scikit-learn."""

from oblong.batch import RelativeMarginClassifier

__version__ = "0.1.0"

__all__ = ["RelativeMarginClassifier", "__version__"]
