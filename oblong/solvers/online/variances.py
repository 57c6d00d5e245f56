"""Variances of the outputs of a model, for prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oblong._core.threads import chunks
from oblong.solvers.online.options import DEFAULT, OnlineOptions
from oblong.solvers.online.slots import DIAGONAL, NONE, SKETCH
from oblong.solvers.online.structures.sketch import sketch_variances

if TYPE_CHECKING:
    from oblong.solvers.online.state import OnlineState


# Share of what the terms of a quadratic form add up to, below which its value is round-off.
_ROUND_OFF = 1e-14


def _quadratic(X: Any, S: np.ndarray, bias: float, entries: int) -> np.ndarray:
    """Forms ``x'S x`` of rows with the constant feature in front, for a symmetric matrix.

    They are no smaller than their round-off. A covariance most of which has vanished, as that of a
    hard rule on noisy labels, has terms that cancel; what is left of them says nothing, and outputs
    in units of their standard deviation would be anything up to 1e154.
    """
    found = np.empty(X.shape[0])
    deviations = np.sqrt(np.maximum(S.diagonal(), 0.0))
    for start, stop in chunks(X.shape[0], max(1, entries // len(S))):
        rows = X[start:stop]
        products = np.asarray(rows @ S[1:, 1:]) + 2.0 * bias * S[0, 1:]
        if not isinstance(rows, np.ndarray):
            parts = np.asarray(rows.multiply(products).sum(axis=1)).ravel()
        else:
            parts = np.einsum("ij,ij->i", products, rows)
        most = np.asarray(abs(rows) @ deviations[1:]) + bias * deviations[0]
        found[start:stop] = np.maximum(parts + bias**2 * S[0, 0], _ROUND_OFF * most**2)
    return found


def output_variances(state: OnlineState, X: Any, options: OnlineOptions = DEFAULT) -> np.ndarray:
    """Variances of the outputs, of shape (n_rows, n_outputs), in double precision."""
    entries = options.prediction_entries
    if X.dtype == np.float32 and state.structure in (NONE, DIAGONAL, SKETCH):
        # Squares of numbers in single precision need not be such.
        width = X.shape[1] if isinstance(X, np.ndarray) else X.nnz // max(1, X.shape[0])
        spans = chunks(X.shape[0], max(1, entries // max(1, width)))
        parts = [output_variances(state, X[i:j].astype(np.float64)) for i, j in spans]
        return np.concatenate(parts)
    n, outputs, bias = state.n_features + 1, state.n_outputs, state.bias
    if state.structure == SKETCH:
        parts = [sketch_variances(X, bias, *state.sketch(k)) for k in range(outputs)]
    elif state.structure in (NONE, DIAGONAL):
        squares = X * X if isinstance(X, np.ndarray) else X.multiply(X)
        if state.structure == NONE:
            sums = np.asarray(squares.sum(axis=1)).reshape(-1, 1) + bias**2
            return np.repeat(sums, outputs, axis=1)
        diagonal = state.diagonal()
        return np.asarray(squares @ diagonal[1:]) + bias**2 * diagonal[0]
    else:
        parts = [_quadratic(X, S[:n, :n], bias, entries) for S in state.covariance]
    return np.maximum(np.column_stack(parts) * state.sigma, 0.0)


def difference_variances(variances: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    """Variances of the differences between the outputs of classes and those of their rivals.

    Parameters
    ----------
    variances : ndarray of shape (n_rows, n_outputs)
        Variances of the outputs.
    rivals : ndarray of int, of shape (n_rows, n_outputs)
        The rival of each class.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        The sums of both: weights of different classes are independent.
    """
    return variances + np.take_along_axis(variances, rivals, axis=1)
