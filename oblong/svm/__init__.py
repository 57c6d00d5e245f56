"""Drop-in replacements for the estimators of :mod:`sklearn.svm`: change one import.

Code that was written for :class:`sklearn.svm.SVC`, :class:`sklearn.svm.LinearSVC` or
:class:`sklearn.svm.SVR` runs with the classes of the same names from here, with the same
parameters and results, and with a certificate: ``dual_gap_``, ``objective_`` and ``converged_``.
"""

from oblong.svm._kernel import SVC, SVR
from oblong.svm._linear import LinearSVC

__all__ = ["SVC", "SVR", "LinearSVC"]
