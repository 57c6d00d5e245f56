r"""Bounds on the complexity and the risk of margin classifiers, computed from the data.

Shivaswamy and Jebara ("Maximum Relative Margin and Data-Dependent Regularization", Journal of
Machine Learning Research 11, 2010, section 4) compare three classes of linear functions
:math:`x \mapsto w^\top x` without bias, with :math:`\bar D = 1 - D`:

.. math::

    \mathcal F &= \{\tfrac12 w^\top w \le E\}
        && \text{the support vector machine,} \\
    \mathcal G &= \{\tfrac12 \bar D\, w^\top w
        + \tfrac{D}{2m} \sum_j (w^\top v_j)^2 \le E\}
        && \text{the Sigma-SVM,} \\
    \mathcal H &= \{\tfrac12 \bar D\, w^\top w + \tfrac{D}{2} (w^\top v_j)^2 \le E
        \ \text{for all } j\}
        && \text{the relative margin machine.}

The points :math:`v_1, \ldots, v_m` are landmarks. The bounds on the Rademacher complexity of the
three classes hold for any landmarks. What follows for the risk is another matter: that argument
needs landmarks chosen without regard to the sample. With the sample itself as landmarks, which is
the default and what the classifiers do, the numbers are diagnostics: the proofs that close this
gap (theorems 15 to 17 of the paper, and equations 30 and 31 with them) do not hold as printed. Only
:func:`risk_bound` is a certificate, under the conditions it names.

The VC estimates for gap-tolerant classifiers in a ball and in an ellipsoid come from another paper
of the same authors ("Ellipsoidal Kernel Machines", 2007, section 2). They are diagnostics as well.

The mistake bounds of online learners hold on every sequence of examples that meets their
conditions, in any order; the functions name them.

The other functions of data take rows, or with ``kernel="precomputed"`` their kernel matrix.
"""

from oblong.bounds.complexity import (
    RademacherBound,
    rademacher_rmm,
    rademacher_sigma,
    rademacher_svm,
)
from oblong.bounds.margins import ClassMargin, margin_rmm, margin_sigma, margin_svm
from oblong.bounds.mistakes import (
    mistake_bound_cellip,
    mistake_bound_cw,
    mistake_bound_iellip,
)
from oblong.bounds.risk import DataTerms, RiskBound, data_terms, risk_bound
from oblong.bounds.vc import (
    VCEstimate,
    shattering_margin,
    shattering_triangle,
    vc_ellipsoid,
    vc_gap_tolerant,
    vc_sphere,
)

__all__ = [
    "ClassMargin",
    "DataTerms",
    "RademacherBound",
    "RiskBound",
    "VCEstimate",
    "data_terms",
    "margin_rmm",
    "margin_sigma",
    "margin_svm",
    "mistake_bound_cellip",
    "mistake_bound_cw",
    "mistake_bound_iellip",
    "rademacher_rmm",
    "rademacher_sigma",
    "rademacher_svm",
    "risk_bound",
    "shattering_margin",
    "shattering_triangle",
    "vc_ellipsoid",
    "vc_gap_tolerant",
    "vc_sphere",
]
