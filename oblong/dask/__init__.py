"""Estimators on a Dask cluster: Dask arrays and data frames in, lazy results out.

They fit by plain task graphs of pure functions. Nothing is kept on the workers between passes: a
worker that dies costs what it was computing, and the result is the same to the last bit.
"""

from oblong.dask._estimators import (
    DaskEllipsoidalKernelClassifier,
    DaskLinearRelativeMarginClassifier,
    DaskMinimumVolumeEllipsoid,
    DaskSigmaSVC,
)
from oblong.dask._kernel import DaskRelativeMarginClassifier
from oblong.dask._online import (
    DaskAROWClassifier,
    DaskConfidenceWeightedClassifier,
    DaskNormalHerdClassifier,
    DaskPassiveAggressiveClassifier,
    DaskSecondOrderPerceptron,
    DaskSoftConfidenceWeightedClassifier,
)

__all__ = [
    "DaskAROWClassifier",
    "DaskConfidenceWeightedClassifier",
    "DaskEllipsoidalKernelClassifier",
    "DaskLinearRelativeMarginClassifier",
    "DaskMinimumVolumeEllipsoid",
    "DaskNormalHerdClassifier",
    "DaskPassiveAggressiveClassifier",
    "DaskRelativeMarginClassifier",
    "DaskSecondOrderPerceptron",
    "DaskSigmaSVC",
    "DaskSoftConfidenceWeightedClassifier",
]
