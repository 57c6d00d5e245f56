"""The regularised kernel Fisher discriminant, as kernel ridge regression.

With class means ``m±`` and the scatter ``S`` of the rows about the means of their classes, the
discriminant is ``w ∝ (S + αI)^-1 (m₊ - m₋)`` in the feature space. The same direction minimises ::

    ½α|w|² + ½ Σ v_i (t_i - w·φ_i - b)²,     t_i = N/N₊ or -N/N₋,

with the row weights ``v``, their sum ``N`` and their sums ``N±`` by class: one Cholesky
factorisation of ``K + α diag(1/v)``, which gives all leave-one-out outputs as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.lapack import dtrtri

__all__ = ["KernelFisherResult", "solve_kernel_fisher"]


@dataclass(frozen=True)
class KernelFisherResult:
    """Solution of the kernel Fisher problem.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        Coefficients ``c`` of ``w = Σ c_i φ_i``; their sum is zero.
    bias : float
        Puts the threshold midway between the projected class means.
    outputs : ndarray of shape (n,)
        Outputs ``w·φ_i + bias``.
    loo_outputs : ndarray of shape (n,)
        The output of each row from the classifier of all others; NaN for the only row of a class.
    loo_error : float
        Weighted share of rows whose leave-one-out output has the wrong sign or is NaN.
    objective : float
        The regression's primal objective, over ``α``.
    gap : float
        Primal minus dual objective of the regression.
    n_iter : int
        Factorisations: one.
    status : str
        Always ``"converged"``.
    """

    coef: np.ndarray
    bias: float
    outputs: np.ndarray
    loo_outputs: np.ndarray
    loo_error: float
    objective: float
    gap: float
    n_iter: int = 1
    status: str = "converged"

    @property
    def relative_gap(self) -> float:
        """The gap over the objective."""
        return self.gap / max(abs(self.objective), np.finfo(float).tiny)


def solve_kernel_fisher(
    K: np.ndarray, y: np.ndarray, weights: np.ndarray, alpha: float, *, leave_one_out: bool = True
) -> KernelFisherResult:
    """Solve the regularised kernel Fisher problem.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix.
    y : ndarray of shape (n,)
        Labels, -1 or +1, of both kinds.
    weights : ndarray of shape (n,)
        Weights above zero; a row of weight two is two rows.
    alpha : float
        The ridge, above zero.
    leave_one_out : bool, default=True
        Whether to find the leave-one-out outputs, which take as long as the rest; without,
        they and their error are NaN.

    Returns
    -------
    KernelFisherResult
        The solution.

    Raises
    ------
    ValueError
        If ``K + α diag(1/v)`` is not positive definite.
    """
    positive = y > 0
    total, n_positive = weights.sum(), weights[positive].sum()
    n_negative = total - n_positive
    targets = np.where(positive, total / n_positive, -total / n_negative)
    ridge = alpha / weights
    factor = _factor(K, ridge)
    right = np.column_stack([targets, np.ones(len(y)), positive.astype(np.float64)])
    if leave_one_out:
        # The three solves and the diagonal of the inverse all come from the inverse factor.
        inverse, _ = dtrtri(factor, lower=1, overwrite_c=1)
        solved = inverse.T @ (inverse @ right)
    else:
        solved = cho_solve((factor, True), right, overwrite_b=True, check_finite=False)
    of_targets, of_ones, of_positive = solved.T
    mass = of_ones.sum()
    bias = of_targets.sum() / mass
    coef = of_targets - bias * of_ones
    coef -= coef.sum() / mass * of_ones
    # The regression outputs are known without another product: r = α c / v at the optimum.
    image = K @ coef
    residual = targets - bias - image
    objective = 0.5 * (coef @ image) + 0.5 * float((residual**2 / ridge).sum())
    gap = 0.5 * float(((residual - ridge * coef) ** 2 / ridge).sum())
    # From the image alone, next to which the regression's bias may be large.
    middle = _midpoint(image, positive, weights)
    outputs = image - middle
    if not leave_one_out:
        nothing = np.full(len(y), np.nan)
        return KernelFisherResult(coef, -middle, outputs, nothing, np.nan, float(objective), gap)

    # Inverse of the matrix bordered by the constraint Σc = 0: its diagonal, and its row sums
    # over the positive rows.
    bordered = np.einsum("ij,ij->j", inverse, inverse) - of_ones**2 / mass
    of_positive = of_positive - of_positive.sum() / mass * of_ones
    with np.errstate(divide="ignore", invalid="ignore"):
        loo = _leave_one_out(
            targets, coef, bordered, of_positive, positive, weights, alpha, total, n_positive
        )
    wrong = ~(np.where(positive, loo, -loo) > 0)
    return KernelFisherResult(
        coef,
        -middle,
        outputs,
        loo,
        float(weights[wrong].sum() / total),
        float(objective),
        gap,
    )


def _factor(K: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Cholesky factor of ``K + diag(ridge)``."""
    shifted = np.array(K, dtype=np.float64)
    if not np.isfinite(shifted).all():
        raise ValueError("the kernel matrix has values that are not finite: scale the data")
    shifted.flat[:: len(K) + 1] += ridge
    try:
        return cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise ValueError(
            "the kernel matrix is not positive semidefinite, or so large that alpha is below its "
            "rounding: use another kernel, scale the data, or take a larger alpha"
        ) from None


def _midpoint(outputs: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> float:
    means = [np.average(outputs[own], weights=weights[own]) for own in (positive, ~positive)]
    return 0.5 * float(means[0] + means[1])


def _leave_one_out(
    targets: np.ndarray,
    coef: np.ndarray,
    bordered: np.ndarray,
    of_positive: np.ndarray,
    positive: np.ndarray,
    weights: np.ndarray,
    alpha: float,
    total: float,
    n_positive: float,
) -> np.ndarray:
    """Output of each row from the classifier of the others, threshold and scale included.

    Without row ``i`` the coefficients are ``c - (c_i / Q_ii) Q_i`` with the bordered inverse
    ``Q``, and the row's regression output is ``t_i - c_i / Q_ii``. The residuals ``α c / v`` of
    the others give the means of the classes, hence the threshold. The targets of the problem
    without the row differ in scale and offset only, which scales the classifier.
    """
    step = coef / bordered
    left_positive = n_positive - np.where(positive, weights, 0.0)
    left_negative = total - n_positive - np.where(positive, 0.0, weights)
    sum_positive = coef[positive].sum() - step * of_positive
    high, low = total / n_positive, -total / (total - n_positive)
    mean_positive = high - alpha * sum_positive / left_positive
    mean_negative = low + alpha * sum_positive / left_negative
    outputs = targets - step - 0.5 * (mean_positive + mean_negative)
    scale = (left_positive + left_negative) ** 2 / (left_positive * left_negative * (high - low))
    alone = np.where(positive, positive.sum() == 1, (~positive).sum() == 1)
    return np.where(alone, np.nan, scale * outputs)
