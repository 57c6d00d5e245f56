"""The regularised kernel Fisher discriminant, as kernel ridge regression.

With class means ``m±`` and the scatter ``S`` of the rows about the means of their classes, the
discriminant is ``w ∝ (S + αI)^-1 (m₊ - m₋)`` in the feature space. The same direction minimises ::

    ½α|w|² + ½ Σ v_i (t_i - w·φ_i - b)²,     t_i = N/N₊ or -N/N₋,

with the row weights ``v``, their sum ``N`` and their sums ``N±`` by class: one Cholesky
factorisation of ``K + α diag(1/v)``, which gives all leave-one-out outputs as well.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.linalg.lapack import dtrtri

from oblong._core.threads import own_threads_only, released_blas
from oblong.solvers.covariance.certificate import UNIT, Certificate, StoredOutputs

# Negative eigenvalues up to this fraction of the largest are round-off.
_ROUND_OFF = 1e-10
# Squared norm of a weight vector, over the objective without one, that costs nothing.
_NO_NORM = 1e-6


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
        Weighted fraction of rows whose leave-one-out output has the wrong sign or is NaN.
    objective : float
        The regression's primal objective, over ``α``.
    gap : float
        Primal minus dual objective of the regression, rounding included.
    direction : ndarray of shape (d,), default=None
        The weight vector of a linear kernel, for the rows as given.
    n_iter : int
        Factorisations: one.
    """

    coef: np.ndarray
    bias: float
    outputs: np.ndarray
    loo_outputs: np.ndarray
    loo_error: float
    objective: float
    gap: float
    direction: np.ndarray | None = None
    n_iter: int = 1

    @property
    def relative_gap(self) -> float:
        """The gap over the objective."""
        return Certificate(self.objective, self.gap).relative_gap

    @property
    def status(self) -> str:
        """``"converged"``, or ``"stalled"`` where rounding is all that the certificate shows."""
        return Certificate(self.objective, self.gap).status("converged")


@own_threads_only()
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def solve_kernel_fisher(
    K: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    alpha: float,
    *,
    rows: tuple[Any, np.ndarray, np.ndarray] | None = None,
    unit: float = 0.0,
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
    rows : tuple of (X, shift, moved), default=None
        For the linear kernel: the rows, what was subtracted from them before ``K`` was made, and
        the difference. The model is then a weight vector for ``X``.
    unit : float, default=0.0
        Rounding of the kernel's values.

    Returns
    -------
    KernelFisherResult
        The solution.

    Raises
    ------
    ValueError
        If ``K`` is not positive semidefinite.
    """
    positive = y > 0
    # A class may weigh next to nothing, which a difference of sums would lose.
    n_positive, n_negative = weights[positive].sum(), weights[~positive].sum()
    total = n_positive + n_negative
    targets = np.where(positive, total / n_positive, -total / n_negative)
    ridge = alpha / weights
    root = _inverse_root(K, ridge)
    right = np.column_stack([targets, np.ones(len(y)), positive.astype(np.float64)])
    of_targets, of_ones, of_positive = (root.T @ (root @ right)).T
    mass = of_ones.sum()
    coef = of_targets - of_targets.sum() / mass * of_ones
    coef -= coef.sum() / mass * of_ones
    direction, rounded = None, 0.0
    if rows is None:
        stored = StoredOutputs.of_kernel(K, coef, 0.0, unit)
    else:
        X, shift, moved = rows
        direction = np.asarray(coef @ moved)
        # The bias is that of rows as given, so the digits of its products are lost in it.
        stored = StoredOutputs.of_rows(X, direction, -float(direction @ shift))
        rounded = UNIT * float(np.linalg.norm(np.abs(coef) @ abs(moved)))
    image, error, kept = stored.f, stored.error, coef
    norm = float(np.abs(coef) @ (np.abs(image) + error))
    same = np.ptp(image) <= error.max() * UNIT / (UNIT + unit)
    if same and norm <= _NO_NORM * float(targets @ (targets / ridge)):
        # Rows that the kernel does not tell apart: the signs of such outputs are those of rounding.
        rounded = math.sqrt(norm)
        image, error, kept = np.zeros((3, len(y)))
        direction = None if direction is None else np.zeros_like(direction)
    norm = coef @ image if direction is None else direction @ direction
    residual = targets - image
    bias = float(weights @ residual) / total
    residual -= bias
    # Primal minus dual is a sum of squares: of what the residuals miss of α c / v, their value at
    # the optimum, and of what the weight vector misses of the sum that it stands for.
    miss = np.abs(residual - ridge * coef) + error
    objective = 0.5 * float(norm) + 0.5 * float((residual**2 / ridge).sum())
    gap = 0.5 * float((miss**2 / ridge).sum()) + 0.5 * rounded**2 + abs(bias * math.fsum(coef))
    # What rounding of the outputs hides in the objective.
    gap += float((np.abs(residual) / ridge) @ error)
    if not math.isfinite(objective + gap):
        raise ValueError("the objective is not finite: scale the data, or choose another alpha")
    # From the image alone, next to which the regression's bias may be large.
    means = [np.average(image[own], weights=weights[own]) for own in (positive, ~positive)]
    middle = 0.5 * float(means[0] + means[1])
    outputs = image - middle
    threshold = -middle if rows is None else -middle - float(direction @ rows[1])
    known = {"objective": objective, "gap": gap, "direction": direction}
    # Inverse of the matrix bordered by the constraint Σc = 0: its diagonal, and its row sums
    # over the positive rows.
    bordered = np.einsum("ij,ij->j", root, root) - of_ones**2 / mass
    of_positive = of_positive - of_positive.sum() / mass * of_ones
    loo = _leave_one_out(
        targets, coef, bordered, of_positive, positive, weights, alpha, n_positive, n_negative
    )
    wrong = ~(np.where(positive, loo, -loo) > 0)
    error_rate = float(weights[wrong].sum() / total)
    return KernelFisherResult(kept, threshold, outputs, loo, error_rate, **known)


def _inverse_root(K: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """A matrix ``R`` with ``R'R = (K + diag(ridge))^-1``."""
    shifted = np.array(K, dtype=np.float64)
    if not np.isfinite(shifted).all():
        raise ValueError("the kernel matrix has values that are not finite: scale the data")
    shifted.flat[:: len(K) + 1] += ridge
    try:
        with released_blas(len(K)):
            factor = cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
            return dtrtri(factor, lower=1, overwrite_c=1)[0]
    except LinAlgError:
        pass
    # The ridge is below the rounding of the matrix. Its negative eigenvalues are rounding too, or
    # the kernel is not one.
    scale = 1.0 / np.sqrt(ridge)
    scaled = K.astype(np.float64) * scale * scale[:, None]
    with released_blas(len(K)):
        values, vectors = eigh(scaled, overwrite_a=True, check_finite=False)
    if values[0] < -_ROUND_OFF * values[-1]:
        raise ValueError("the kernel matrix is not positive semidefinite: use another kernel")
    return (vectors * scale[:, None] / np.sqrt(1.0 + np.maximum(values, 0.0))).T


def _leave_one_out(
    targets: np.ndarray,
    coef: np.ndarray,
    bordered: np.ndarray,
    of_positive: np.ndarray,
    positive: np.ndarray,
    weights: np.ndarray,
    alpha: float,
    n_positive: float,
    n_negative: float,
) -> np.ndarray:
    """Output of each row from the classifier of the others, threshold and scale included.

    Without row ``i`` the coefficients are ``c - (c_i / Q_ii) Q_i`` with the bordered inverse
    ``Q``, and the row's regression output is ``t_i - c_i / Q_ii``. The residuals ``α c / v`` of
    the others give the means of the classes, hence the threshold. The targets of the problem
    without the row differ in scale and offset only, which scales the classifier.
    """
    step = coef / bordered
    left_positive = n_positive - np.where(positive, weights, 0.0)
    left_negative = n_negative - np.where(positive, 0.0, weights)
    sum_positive = coef[positive].sum() - step * of_positive
    total = n_positive + n_negative
    high, low = total / n_positive, -total / n_negative
    mean_positive = high - alpha * sum_positive / left_positive
    mean_negative = low + alpha * sum_positive / left_negative
    outputs = targets - step - 0.5 * (mean_positive + mean_negative)
    scale = (left_positive + left_negative) ** 2 / (left_positive * left_negative * (high - low))
    alone = np.where(positive, positive.sum() == 1, (~positive).sum() == 1)
    return np.where(alone, np.nan, scale * outputs)
