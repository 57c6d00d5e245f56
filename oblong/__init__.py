"""Classifiers that use the shape of data, exact and certified, for scikit-learn."""

from oblong.batch import (
    BayesPointClassifier,
    EllipsoidalKernelClassifier,
    EllipsoidalSVC,
    KernelFisherClassifier,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
    RelativeMarginClassifierCV,
    RelativeMarginPath,
    SigmaSVC,
    UniversumSVC,
    relative_margin_path,
)
from oblong.geometry import MinimumVolumeEllipsoid
from oblong.online import (
    AROWClassifier,
    ClassicalEllipsoidClassifier,
    ConfidenceWeightedClassifier,
    ImprovedEllipsoidClassifier,
    KernelConfidenceWeightedClassifier,
    NormalHerdClassifier,
    PassiveAggressiveClassifier,
    SecondOrderPerceptron,
    SoftConfidenceWeightedClassifier,
)

__version__ = "0.1.0"

__all__ = [
    "AROWClassifier",
    "BayesPointClassifier",
    "ClassicalEllipsoidClassifier",
    "ConfidenceWeightedClassifier",
    "EllipsoidalKernelClassifier",
    "EllipsoidalSVC",
    "ImprovedEllipsoidClassifier",
    "KernelConfidenceWeightedClassifier",
    "KernelFisherClassifier",
    "LinearRelativeMarginClassifier",
    "MinimumVolumeEllipsoid",
    "NormalHerdClassifier",
    "PassiveAggressiveClassifier",
    "RelativeMarginClassifier",
    "RelativeMarginClassifierCV",
    "RelativeMarginPath",
    "SecondOrderPerceptron",
    "SigmaSVC",
    "SoftConfidenceWeightedClassifier",
    "UniversumSVC",
    "__version__",
    "relative_margin_path",
]
