"""Checks of the arguments, and coordinates for rows and kernel matrices alike."""

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, qr, svd
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from oblong._core.missing import check_present
from oblong.linalg.definite import check_positive_semidefinite


class Coordinates(NamedTuple):
    """Rows and landmarks along the principal axes of the landmarks.

    There ``Σ v v'`` of the landmarks ``v`` is diagonal, with the squared ``lengths``. That keeps
    short directions apart from long ones, however different they are.
    """

    rows: np.ndarray
    points: np.ndarray
    lengths: np.ndarray


def check_number(
    value: Any,
    name: str,
    *,
    low: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> None:
    """Raise ``ValueError`` unless a parameter is a finite number in its range."""
    parts = [f"at least {low:g}"] if low is not None else [f"above {above:g}"]
    parts += [f"below {below:g}"] if below is not None else []
    fine = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value))
    fine = fine and (value >= low if low is not None else value > above)
    if not fine or (below is not None and not value < below):
        raise ValueError(f"{name} must be a number {' and '.join(parts)}, got {value!r}")


def check_rows(X: Any, kernel: str, name: str = "X") -> np.ndarray:
    """Return rows or a kernel matrix as an array of floats."""
    if kernel not in ("linear", "precomputed"):
        raise ValueError(f'kernel must be "linear" or "precomputed", got {kernel!r}')
    X = check_array(X, dtype=(np.float64, np.float32), input_name=name)
    if kernel == "precomputed" and X.shape[0] != X.shape[1]:
        raise ValueError(f"a kernel matrix is square, but {name} has shape {X.shape}")
    return X


def check_signs(y: Any) -> np.ndarray:
    """Return the labels of two classes as -1 and +1."""
    check_present(y)
    y = column_or_1d(y)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) != 2:
        raise ValueError(f"y must have two classes, got {len(classes)}")
    return 2.0 * codes - 1.0


def coordinates(X: Any, landmarks: Any, kernel: str) -> Coordinates:
    """Bring rows and landmarks, or their kernel matrices, to coordinates."""
    X = check_rows(X, kernel)
    if kernel == "precomputed":
        return _from_matrix(X, landmarks)
    n = len(X)
    X = X.astype(np.float64, copy=False)
    if landmarks is not None:
        landmarks = check_array(landmarks, dtype=np.float64, input_name="landmarks")
        if landmarks.shape[1] != X.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features, but the landmarks have {landmarks.shape[1]}"
            )
    joint = X if landmarks is None else np.vstack([X, landmarks])
    if not np.isfinite(np.vdot(joint, joint)):
        raise ValueError("the squares of X are too large to be represented: scale X")
    if joint.shape[1] > joint.shape[0]:
        # Wide rows span less than their space; a rotation keeps all that counts.
        joint = qr(joint.T, mode="r", check_finite=False)[0][: len(joint)].T
    return _principal(joint[:n], joint if landmarks is None else joint[n:])


def _from_matrix(K: np.ndarray, landmarks: Any) -> Coordinates:
    n = len(K)
    K = K.astype(np.float64, copy=False)
    if landmarks is not None:
        try:
            cross, own = landmarks
        except (TypeError, ValueError):
            raise ValueError(
                'with kernel="precomputed" the landmarks are two matrices: the kernel between X '
                "and them, and their own"
            ) from None
        cross = check_array(cross, dtype=np.float64, input_name="landmarks[0]")
        own = check_rows(own, "precomputed", "landmarks[1]")
        if cross.shape != (n, len(own)):
            raise ValueError(
                f"the kernel between {n} rows and {len(own)} landmarks cannot have shape "
                f"{cross.shape}"
            )
        K = np.block([[K, cross], [cross.T, own]])
    check_positive_semidefinite(K, "the bounds need another kernel")
    values, vectors = eigh(K, check_finite=False)
    keep = values > len(K) * np.finfo(float).eps * values[-1]
    keep[-1] = True  # a matrix of zeros still has one coordinate
    joint = vectors[:, keep] * np.sqrt(np.maximum(values[keep], 0.0))
    return _principal(joint[:n], joint if landmarks is None else joint[n:])


def _principal(rows: np.ndarray, points: np.ndarray) -> Coordinates:
    # The triangle first: the singular vectors of the landmarks' own side are not needed.
    triangle = qr(points, mode="r", check_finite=False)[0][: points.shape[1]]
    _, lengths, axes = svd(triangle, full_matrices=True, check_finite=False)
    lengths = np.pad(lengths, (0, len(axes) - len(lengths)))
    return Coordinates(rows @ axes.T, points @ axes.T, lengths)


def whitened(space: Coordinates, D: float) -> np.ndarray:
    """Rows times ``M^(-1/2)``, where ``M = (1 - D) I + D/m Σ v v'`` of the landmarks ``v``."""
    return space.rows / np.sqrt(1.0 - D + D / len(space.points) * space.lengths**2)
