"""Whether a matrix is positive semidefinite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigvalsh

from oblong.kernels import Kernel

# Eigenvalues below minus this fraction of the largest diagonal entry are not round-off, not even
# that of a kernel matrix computed in single precision.
_TOLERANCE = 1e-5
# Rows whose kernel matrix is factored: a matter of a second, and enough to see a wrong kernel.
_ROWS = 2000


def check_kernel_definite(
    kernel: Kernel,
    matrix: Callable[[np.ndarray], np.ndarray],
    n_rows: int,
    consequence: str,
    tolerance: float = _TOLERANCE,
) -> None:
    """Raise ``ValueError`` unless a kernel is positive semidefinite on rows at even distances.

    Parameters
    ----------
    kernel : Kernel
        The kernel; one that is positive semidefinite by its formula is not evaluated.
    matrix : callable
        Returns the kernel matrix of the rows whose positions it gets.
    n_rows : int
        Number of rows.
    consequence : str
        End of the message: what an indefinite kernel means to the caller.
    tolerance : float, default=1e-5
        Negative eigenvalues up to this fraction of the largest diagonal entry count as round-off;
        in single precision, at least up to the default; of a sigmoid in double precision, only
        those that are.
    """
    if kernel.always_positive_semidefinite:
        return
    K = matrix(np.arange(0, n_rows, max(1, -(-n_rows // _ROWS))))
    if K.dtype != np.float64:
        tolerance = max(tolerance, _TOLERANCE)
    elif kernel.name == "sigmoid":
        # Nobody else has computed these values, perhaps with fewer digits.
        tolerance = 4.0 * len(K) * float(np.finfo(np.float64).eps)
    check_positive_semidefinite(K, consequence, tolerance)


def check_positive_semidefinite(
    K: np.ndarray, consequence: str, tolerance: float = _TOLERANCE
) -> None:
    """Raise ``ValueError`` unless ``K`` is symmetric and positive semidefinite.

    ``consequence`` ends the message: what an indefinite matrix means to the caller.
    """
    largest = float(np.abs(K).max(initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("the kernel matrix has values that are not finite: scale the data")
    if not np.allclose(K, K.T, rtol=0.0, atol=tolerance * largest):
        raise ValueError("the kernel matrix is not symmetric")
    size = float(np.abs(K.diagonal()).max(initial=0.0))
    shifted = K.astype(np.float64)
    shifted.flat[:: len(K) + 1] += max(tolerance * size, np.finfo(float).tiny)
    try:
        cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        smallest = float(eigvalsh(K.astype(np.float64), check_finite=False)[0])
        raise ValueError(
            f"the kernel matrix is not positive semidefinite (its smallest eigenvalue is "
            f"{smallest:.3g}): {consequence}"
        ) from None
