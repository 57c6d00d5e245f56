"""One of the many factors of a positive semidefinite matrix, always the same one."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr

# A column is passed over if less than this fraction of it is new.
_NEW = 1e-6
# Columns below this fraction of the longest one are taken for round-off.
_ROUND_OFF = 1e-12


def upright_rotation(F: np.ndarray) -> np.ndarray:
    """Rotation ``Q`` that makes ``Q'F`` the Cholesky factor, or the echelon form of a flat one.

    A matrix ``Σ = F'F`` determines its factor up to a rotation from the left. ``Q'F`` is the
    upper triangular factor with a positive diagonal. If the first columns of ``F`` are not
    independent, the diagonal goes down those columns that are independent of the ones before.

    Parameters
    ----------
    F : ndarray of shape (k, d)
        Factor of full row rank.

    Returns
    -------
    ndarray of shape (k, k)
        ``Q``.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.linalg.orientation import upright_rotation
    >>> F = np.array([[0.0, 3.0, 0.0], [0.0, 4.0, 1.0]])
    >>> (upright_rotation(F).T @ F).round(6) + 0.0
    array([[0. , 5. , 0.8],
           [0. , 0. , 0.6]])
    """
    k = F.shape[0]
    norms = np.linalg.norm(F, axis=0)
    noise = _ROUND_OFF * norms.max()
    Q, R = qr(F[:, :k], check_finite=False)
    diagonal = R.diagonal()
    if (np.abs(diagonal) > np.maximum(_NEW * norms[:k], noise)).all():
        return Q * np.where(diagonal < 0.0, -1.0, 1.0)

    Q = np.zeros((k, k))
    done = 0
    for least in (_NEW, 0.0):
        # The first sweep takes columns that are clearly new, the second what is left.
        for j in np.flatnonzero(norms > noise):
            rest = F[:, j]
            # Once is not enough for orthogonality to rounding.
            for _ in range(2):
                rest = rest - Q[:, :done] @ (Q[:, :done].T @ rest)
            size = np.linalg.norm(rest)
            if done < k and size > max(least * norms[j], noise):
                Q[:, done] = rest / size
                done += 1
        if done == k:
            return Q
    # Columns of very different lengths: whatever completes the rotation.
    Q[:, done:] = qr(Q[:, :done], check_finite=False)[0][:, done:] if done else np.eye(k)
    return Q
