"""Whether a matrix is positive semidefinite."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigvalsh

__all__ = ["check_positive_semidefinite"]

# Eigenvalues below minus this share of the largest diagonal entry are not round-off, not even
# that of a kernel matrix computed in single precision.
_TOLERANCE = 1e-5


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
