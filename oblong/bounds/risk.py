"""The bounds on the risk, as far as they can be computed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array, column_or_1d

from oblong.bounds._input import check_number, check_rows, check_signs
from oblong.bounds.complexity import rademacher_rmm, rademacher_sigma, rademacher_svm
from oblong.bounds.margins import margin_rmm, margin_sigma, margin_svm


@dataclass(frozen=True)
class DataTerms:
    """What the data contributes to the risk bounds of the three classifiers, see `data_terms`.

    Attributes
    ----------
    svm, sigma, rmm : float
        The terms of the support vector machine, the Sigma-SVM and the relative margin machine;
        infinite where the data cannot be separated.
    """

    svm: float
    sigma: float
    rmm: float


@dataclass(frozen=True)
class RiskBound:
    """A bound on the risk and its parts, see `risk_bound`; ``float`` turns it into a number.

    Attributes
    ----------
    value : float
        The sum of the parts. A value of one or more carries no information.
    slack : float
        Mean shortfall from the margin, in units of it.
    confidence : float
        The cost of holding with probability ``1 - delta``.
    complexity : float
        The cost of choosing the function on the same data.
    """

    value: float
    slack: float
    confidence: float
    complexity: float

    def __float__(self) -> float:
        return self.value


def data_terms(
    X: Any, y: Any, *, D: float, landmarks: Any = None, kernel: str = "linear"
) -> DataTerms:
    r"""Compare what the data contributes to the risk bounds of the three classifiers.

    For data that can be separated the bounds of theorem 18 differ in the terms

    .. math:: \frac{2 T_0}{\gamma_{\mathcal F}}, \qquad \frac{2 T_1}{\gamma_{\mathcal G}},
              \qquad \frac{2 T_2}{\gamma_{\mathcal H}},

    complexity over margin, from which :math:`E` cancels. A smaller term favours the classifier.
    These are diagnostics, not certificates: the margins are those of the sample, and for the last
    two the paper's proof does not reach landmarks from the sample.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    y : array-like of shape (n_samples,)
        Labels, of two classes.
    D : float
        How much the spread counts against the norm, in [0, 1). With zero the three terms agree.
    landmarks : array-like of shape (n_landmarks, n_features), default=None
        As in `rademacher_rmm`.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix.

    Returns
    -------
    DataTerms
        The three terms.

    Examples
    --------
    Labels along and across the long direction of the same points (the paper's table 1):

    >>> from oblong.bounds import data_terms
    >>> from oblong.datasets import make_bound_toys
    >>> for toy in (1, 2):
    ...     terms = data_terms(*make_bound_toys(toy), D=0.999)
    ...     print(f"{terms.svm:.3f} {terms.sigma:.3f} {terms.rmm:.3f}")
    0.643 0.859 1.355
    0.643 0.281 0.315
    """
    options = {"D": D, "landmarks": landmarks, "kernel": kernel}
    # The margins first: they check the labels.
    margins = (
        margin_svm(X, y, kernel=kernel),
        margin_sigma(X, y, **options),
        margin_rmm(X, y, **options),
    )
    bounds = (
        rademacher_svm(X, kernel=kernel),
        rademacher_sigma(X, **options),
        rademacher_rmm(X, **options).value,
    )
    return DataTerms(
        *(
            2.0 * bound / margin.value if margin.value > 0.0 else np.inf
            for bound, margin in zip(bounds, margins)
        )
    )


def risk_bound(
    X: Any,
    y: Any,
    outputs: Any,
    *,
    E: float,
    gamma: float = 1.0,
    delta: float = 0.05,
    kernel: str = "linear",
) -> RiskBound:
    r"""Bound the risk of a function of the support vector machine's class.

    For rows drawn independently from one distribution, with probability at least
    :math:`1 - \delta` every :math:`g(x) = w^\top x` with :math:`\tfrac12 w^\top w \le E` errs on
    a new row with a probability of at most (theorem 18, equation 29)

    .. math::

        \frac{1}{n\gamma} \sum_i [\gamma - y_i g(x_i)]_+
        + 3 \sqrt{\frac{\ln(2/\delta)}{2n}} + \frac{2 T_0}{\gamma} .

    It is a certificate if :math:`E` and :math:`\gamma` were fixed before the data was seen and
    :math:`g` has no bias; with values chosen on the data it is a diagnostic. The bounds of the
    paper for the other two classifiers (30, 31) have terms without constants, so there is nothing
    to compute beyond their `data_terms`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    y : array-like of shape (n_samples,)
        Labels, of two classes; the larger one is positive.
    outputs : array-like of shape (n_samples,)
        Outputs ``g(x_i)``.
    E : float
        Size of the class, at least half the squared norm of ``w``.
    gamma : float, default=1.0
        The margin.
    delta : float, default=0.05
        Probability that the bound fails, between 0 and 1.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix.

    Returns
    -------
    RiskBound
        The bound and its parts.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.bounds import risk_bound
    >>> from oblong.datasets import make_parallel_lines
    >>> X, y = make_parallel_lines(10_000, random_state=0)
    >>> w = np.array([1.0, 1.0])
    >>> bound = risk_bound(X, y, X @ w, E=1.0)
    >>> round(bound.value, 2)
    0.11
    """
    check_number(E, "E", low=0.0)
    check_number(gamma, "gamma", above=0.0)
    check_number(delta, "delta", above=0.0, below=1.0)
    X, sign = check_rows(X, kernel), check_signs(y)
    outputs = column_or_1d(check_array(outputs, ensure_2d=False, dtype=np.float64))
    if not len(X) == len(sign) == len(outputs):
        raise ValueError(
            f"X has {len(X)} rows, but there are {len(sign)} labels and {len(outputs)} outputs"
        )
    slack = float(np.mean(np.maximum(gamma - sign * outputs, 0.0))) / gamma
    confidence = 3.0 * float(np.sqrt(np.log(2.0 / delta) / (2.0 * len(X))))
    complexity = 2.0 * rademacher_svm(X, E=E, kernel=kernel) / gamma
    return RiskBound(slack + confidence + complexity, slack, confidence, complexity)
