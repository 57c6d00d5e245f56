"""Drop-in replacements for the estimators of :mod:`sklearn.svm`: change one import.

Code that was written for :class:`sklearn.svm.SVC`, :class:`sklearn.svm.LinearSVC` or
:class:`sklearn.svm.SVR` runs with the classes of the same names from here, with the same
parameters and results, and with a certificate: ``dual_gap_``, ``objective_`` and ``converged_``.
"""

from typing import Any

from oblong.svm._kernel import SVC, SVR
from oblong.svm._linear import LinearSVC

__all__ = ["SVC", "SVR", "LinearSVC"]

# Names of sklearn.svm that are not here, and what to use.
_ELSEWHERE = {
    "LinearSVR": 'oblong.MarginRegressor(kernel="linear"), or sklearn.svm.LinearSVR',
    "NuSVC": "oblong.svm.SVC, whose C takes the place of nu, or sklearn.svm.NuSVC",
    "NuSVR": "oblong.svm.SVR, whose epsilon takes the place of nu, or sklearn.svm.NuSVR",
    "OneClassSVM": "oblong.MinimumVolumeEllipsoid, which finds outliers too, or "
    "sklearn.svm.OneClassSVM",
    "l1_min_c": "sklearn.svm.l1_min_c",
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        # An AttributeError would lose its message on the way through `from oblong.svm import`.
        raise ImportError(f"oblong.svm has no {name}: use {_ELSEWHERE[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
