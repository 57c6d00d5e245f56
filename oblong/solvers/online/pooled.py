"""Shapes that several classes have together: a shared matrix, or the joint matrix of all weights.

A joint shape is the matrix ``U`` of the differences ``w_k - w_0`` of classes to the first: nothing
else ever matters to it. Weights add up to zero over the classes, so that their own matrix is
``(I ⊗ M) U (I ⊗ M')`` with ``M = [-1'/K; I - 11'/K]``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from oblong.solvers.online._tasks import FULL, JOINT, SINGLE

if TYPE_CHECKING:
    from oblong.solvers.online.state import OnlineState

__all__ = [
    "as_one_output",
    "fill_new",
    "from_one_output",
    "joint_shape",
    "mixing",
    "with_class",
]


def mixing(n_classes: int) -> np.ndarray:
    """Weights of classes from differences to the first, of shape (n_classes, n_classes - 1)."""
    return np.eye(n_classes)[:, 1:] - 1.0 / n_classes


def _view(shape: np.ndarray, n_classes: int) -> np.ndarray:
    """A joint shape with an axis for features and one for differences, twice."""
    features = shape.shape[1] // (n_classes - 1)
    return shape[0].reshape(features, n_classes - 1, features, n_classes - 1)


def _mixed(U: np.ndarray, M: np.ndarray) -> np.ndarray:
    return np.einsum("iajb,ka,lb->ikjl", U, M, M, optimize=True)


def joint_shape(state: OnlineState) -> np.ndarray:
    """Shape of all weights, of shape (n_features + 1, n_classes, n_features + 1, n_classes)."""
    n = state.n_features + 1
    U = _view(state.shape, state.n_outputs)[:n, :, :n] * state.scale[0, 0]
    return _mixed(U, mixing(state.n_outputs))


def fill_new(
    structure: int, shape: np.ndarray, n_classes: int, start: int, stop: int, variance: float
) -> None:
    """Give rows of the table from ``start`` to before ``stop`` their initial shape, in place."""
    new = np.arange(start, stop)
    if structure == JOINT:
        _view(shape, n_classes)[new, :, new, :] = variance * (np.eye(n_classes - 1) + 1.0)
    else:
        shape[:, new, new] = variance


def with_class(shape: np.ndarray, n_classes: int, place: int, variance: float) -> np.ndarray:
    """Joint shape with one more class, whose weights have the given variance.

    The shape of the differences of the others stays what it is.
    """
    U, more = _view(shape, n_classes), n_classes + 1
    features = len(U)
    # Differences to the first class of what they are then: the old weights, and the new ones.
    D = np.eye(more)[1:] - np.eye(more)[:1]
    old = np.delete(D, place, axis=1)
    joint = _mixed(U, old @ mixing(n_classes))
    # What the other classes have in common has not been learned, and begins to matter now.
    # Features that there is only room for have no variance at all.
    used = np.where(np.einsum("jkjk->j", U) > 0.0, variance, 0.0)
    common = old.sum(axis=1)
    added = np.outer(common, common) / n_classes + np.outer(D[:, place], D[:, place])
    known = np.arange(features)
    joint[known, :, known, :] += used[:, None, None] * added
    size = features * n_classes
    joint = joint.reshape(size, size)
    return (0.5 * (joint + joint.T))[None]


def as_one_output(state: OnlineState) -> OnlineState:
    """A joint model of the differences of classes, as the model of one output with a full shape."""
    n, differences = state.n_features + 1, state.n_outputs - 1
    size = n * differences
    weights = np.asarray(state.weights(), dtype=np.float64)
    codes = state.codes.copy()
    codes[[0, 2]] = FULL, SINGLE
    return replace(
        state,
        n_features=size - 1,
        table=(weights[:, 1:] - weights[:, :1]).reshape(size, 1),
        shape=state.shape[:, :size, :size].copy(),
        scale=state.scale[:1].copy(),
        total=np.zeros((0, 1)),
        codes=codes,
    )


def from_one_output(state: OnlineState, one: OnlineState) -> None:
    """Take weights and shape of the model of the differences."""
    K, n = state.n_outputs, state.n_features + 1
    state.table[:n] = one.table.reshape(n, K - 1) @ mixing(K).T
    size = len(one.table)
    state.shape[0, :size, :size] = one.shape[0]
    state.scale[:, 0] = 1.0
