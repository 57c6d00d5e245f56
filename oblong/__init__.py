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
    OnlineEllipsoidalSVC,
    PassiveAggressiveClassifier,
    SecondOrderPerceptron,
    SoftConfidenceWeightedClassifier,
)

__version__ = "0.1.0"

# What reads and writes files is imported when it is first used: most programs never do.
_LATER = {
    "ModelFileError": "oblong.persistence",
    "load": "oblong.persistence",
    "save": "oblong.persistence",
    "to_onnx": "oblong.export",
}


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


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
    "ModelFileError",
    "NormalHerdClassifier",
    "OnlineEllipsoidalSVC",
    "PassiveAggressiveClassifier",
    "RelativeMarginClassifier",
    "RelativeMarginClassifierCV",
    "RelativeMarginPath",
    "SecondOrderPerceptron",
    "SigmaSVC",
    "SoftConfidenceWeightedClassifier",
    "UniversumSVC",
    "__version__",
    "load",
    "relative_margin_path",
    "save",
    "to_onnx",
]
