"""The papers whose tables and figures are set next to ours."""

from __future__ import annotations

from oblong_reproduction._experiment import Paper

CW = Paper(
    "cw",
    "K. Crammer, M. Dredze and F. Pereira, Exact Convex Confidence-Weighted Learning, NIPS 2008",
)
EKM = Paper(
    "ekm",
    "P. K. Shivaswamy and T. Jebara, Ellipsoidal Kernel Machines, AISTATS 2007",
)
ESVM = Paper(
    "esvm",
    "M. Momma, K. Hatano and H. Nakayama, Ellipsoidal Support Vector Machines, ACML 2010",
)
IELLIP = Paper(
    "iellip", "L. Yang, R. Jin and J. Ye, Online Learning by Ellipsoid Method, ICML 2009"
)
RMM = Paper(
    "rmm",
    "P. K. Shivaswamy and T. Jebara, Maximum Relative Margin and Data-Dependent Regularization, "
    "Journal of Machine Learning Research 11, 2010",
)
OURS = Paper("ours", "no paper: a question of ours")
