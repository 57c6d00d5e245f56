"""Classifiers that use the shape of data, exact and certified, for scikit-learn.

All estimators can be imported from here; :func:`save` and :func:`load` keep them on disk. Beside
them there are :mod:`oblong.svm` with the classes of :mod:`sklearn.svm`, :mod:`oblong.display` with
pictures, :mod:`oblong.datasets` with data and the reading of files, :mod:`oblong.streams` with
files of any size, :mod:`oblong.bounds` with the theory, and the command ``oblong``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oblong.batch import (
        BayesPointClassifier,
        CalibratedMarginClassifier,
        EllipsoidalKernelClassifier,
        EllipsoidalSVC,
        KernelFisherClassifier,
        LinearRelativeMarginClassifier,
        MarginRegressor,
        RelativeMarginClassifier,
        RelativeMarginClassifierCV,
        RelativeMarginPath,
        SigmaSVC,
        UniversumSVC,
        relative_margin_path,
    )
    from oblong.geometry import MinimumVolumeEllipsoid
    from oblong.io import read_table
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

__version__ = "0.2.0"

# Names are imported when they are first used. The package itself then costs nothing, and a command
# is in charge, of Ctrl-C above all, before the second that scikit-learn may take to load.
_HOMES = {
    "oblong.batch": (
        "BayesPointClassifier",
        "CalibratedMarginClassifier",
        "EllipsoidalKernelClassifier",
        "EllipsoidalSVC",
        "KernelFisherClassifier",
        "LinearRelativeMarginClassifier",
        "MarginRegressor",
        "RelativeMarginClassifier",
        "RelativeMarginClassifierCV",
        "RelativeMarginPath",
        "SigmaSVC",
        "UniversumSVC",
        "relative_margin_path",
    ),
    "oblong.export": ("to_onnx",),
    "oblong.geometry": ("MinimumVolumeEllipsoid",),
    "oblong.io": ("read_table",),
    "oblong.online": (
        "AROWClassifier",
        "ClassicalEllipsoidClassifier",
        "ConfidenceWeightedClassifier",
        "ImprovedEllipsoidClassifier",
        "KernelConfidenceWeightedClassifier",
        "NormalHerdClassifier",
        "OnlineEllipsoidalSVC",
        "PassiveAggressiveClassifier",
        "SecondOrderPerceptron",
        "SoftConfidenceWeightedClassifier",
    ),
    "oblong.persistence": ("ModelFileError", "load", "save"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {"bounds", "datasets", "display", "streams", "svm"} | {
    home.partition(".")[2] for home in _HOMES
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"oblong.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_MODULES})


__all__ = [
    "AROWClassifier",
    "BayesPointClassifier",
    "CalibratedMarginClassifier",
    "ClassicalEllipsoidClassifier",
    "ConfidenceWeightedClassifier",
    "EllipsoidalKernelClassifier",
    "EllipsoidalSVC",
    "ImprovedEllipsoidClassifier",
    "KernelConfidenceWeightedClassifier",
    "KernelFisherClassifier",
    "LinearRelativeMarginClassifier",
    "MarginRegressor",
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
    "read_table",
    "relative_margin_path",
    "to_onnx",
]
