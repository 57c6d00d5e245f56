"""Variances of the outputs of a model, for prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from oblong._core.threads import chunks
from oblong.solvers.online._sketch import sketch_variances
from oblong.solvers.online._tasks import DIAGONAL, JOINT, NONE, SHARED, SKETCH
from oblong.solvers.online.pooled import joint_shape

if TYPE_CHECKING:
    from oblong.solvers.online.state import OnlineState

__all__ = ["difference_variances", "output_variances"]

# Entries of a block of rows times a shape matrix.
_BLOCK = 1 << 22


def _quadratic(X: Any, S: np.ndarray, bias: float) -> np.ndarray:
    """Forms ``x'S x`` of rows with the constant feature in front, for a symmetric matrix."""
    found = np.empty(X.shape[0])
    for start, stop in chunks(X.shape[0], max(1, _BLOCK // len(S))):
        rows = X[start:stop]
        products = np.asarray(rows @ S[1:, 1:]) + 2.0 * bias * S[0, 1:]
        if sp.issparse(rows):
            parts = np.asarray(rows.multiply(products).sum(axis=1)).ravel()
        else:
            parts = np.einsum("ij,ij->i", products, rows)
        found[start:stop] = parts + bias**2 * S[0, 0]
    return found


def _matrix(S: np.ndarray, k: int, other: int) -> np.ndarray:
    """Symmetric part of the joint shape of the weights of one class and another."""
    return 0.5 * (S[:, k, :, other] + S[:, k, :, other].T)


def output_variances(state: OnlineState, X: Any) -> np.ndarray:
    """Variances of the outputs, of shape (n_rows, n_outputs), in double precision."""
    if X.dtype == np.float32 and state.structure in (NONE, DIAGONAL, SKETCH):
        # Squares of numbers in single precision need not be such.
        width = X.nnz // max(1, X.shape[0]) if sp.issparse(X) else X.shape[1]
        spans = chunks(X.shape[0], max(1, _BLOCK // max(1, width)))
        parts = [output_variances(state, X[i:j].astype(np.float64)) for i, j in spans]
        return np.concatenate(parts)
    n, outputs, bias = state.n_features + 1, state.n_outputs, state.bias
    scale = state.scale[:, 0]
    if state.structure == SKETCH:
        parts = [
            sketch_variances(X, bias, state._block(k), state.table[:n, outputs + k], state.ranks[k])
            for k in range(outputs)
        ]
    elif state.structure in (NONE, DIAGONAL):
        squares = X.multiply(X) if sp.issparse(X) else X * X
        if state.structure == NONE:
            sums = np.asarray(squares.sum(axis=1)).reshape(-1, 1) + bias**2
            return np.repeat(sums, outputs, axis=1)
        diagonal = state.diagonal()
        return np.asarray(squares @ diagonal[1:]) + bias**2 * diagonal[0]
    elif state.structure == SHARED:
        parts, scale = [_quadratic(X, state.shape[0, :n, :n], bias)] * outputs, scale[0]
    elif state.structure == JOINT:
        S = joint_shape(state)
        parts = [_quadratic(X, _matrix(S, k, k), bias) for k in range(outputs)]
        return np.maximum(np.column_stack(parts), 0.0)
    else:
        parts = [_quadratic(X, S[:n, :n], bias) for S in state.shape]
    return np.maximum(np.column_stack(parts) * scale, 0.0)


def difference_variances(
    state: OnlineState, X: Any, variances: np.ndarray, rivals: np.ndarray
) -> np.ndarray:
    """Variances of the differences between the outputs of classes and those of their rivals.

    Parameters
    ----------
    state : OnlineState
        The model.
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        The rows.
    variances : ndarray of shape (n_rows, n_outputs)
        Variances of the outputs.
    rivals : ndarray of int, of shape (n_rows, n_outputs)
        The rival of each class.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        The variances. Weights of different classes are independent unless the shape is joint.
    """
    found = variances + np.take_along_axis(variances, rivals, axis=1)
    if state.codes[0] != JOINT:
        return found
    S = joint_shape(state)
    for k in range(state.n_outputs):
        for other in np.unique(rivals[:, k]):
            rows = np.flatnonzero(rivals[:, k] == other)
            found[rows, k] -= 2.0 * _quadratic(X[rows], _matrix(S, k, int(other)), state.bias)
    return np.maximum(found, 0.0)
