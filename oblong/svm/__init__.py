"""The estimators of :mod:`sklearn.svm` over the solvers of this library: one changed import.

Code that was written for :class:`sklearn.svm.SVC`, :class:`sklearn.svm.LinearSVC` or
:class:`sklearn.svm.SVR` runs with the classes of the same names from here, with the same
parameters and results, and gets a certificate: ``dual_gap_``, ``objective_`` and ``converged_``.
"""

from oblong.svm._kernel import SVC, SVR
from oblong.svm._linear import LinearSVC

__all__ = ["SVC", "SVR", "LinearSVC"]
