"""The margin-infused relaxed algorithm, to compare with."""

from __future__ import annotations

import numpy as np


class Mira:
    r"""Multi-class learner of Crammer and Singer, with a linear kernel.

    An example :math:`x` of class :math:`y` whose output does not exceed all others by the margin
    changes the weights of the classes by :math:`\tau_k x` so that

    .. math::

        \min_\tau \tfrac12 \sum_k \|w_k + \tau_k x\|^2 + \beta \sum_{k \ne y} \tau_k
        \quad \text{s.t.} \quad \tau_k \le [k = y] , \quad \sum_k \tau_k = 0 ,

    whose solution is :math:`\tau_k = \min(\theta - B_k, [k = y])` with
    :math:`B_k = (w_k \cdot x + \beta [k \ne y]) / \|x\|^2`.

    Parameters
    ----------
    n_classes, n_features : int
        Size of the weights, which start at zero.
    margin : float
        The margin :math:`\beta`, above zero: without one, zero weights would never change.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        The weights.
    n_updates_ : int
        Number of changes.

    References
    ----------
    K. Crammer and Y. Singer, Ultraconservative Online Algorithms for Multiclass Problems, Journal
    of Machine Learning Research 3, 951-991, 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong_reproduction.iellip._mira import Mira
    >>> model = Mira(3, 2, margin=0.1)
    >>> model.partial_fit(np.array([[1.0, 0.0]]), np.array([2])).coef_.round(3).tolist()
    [[-0.033, 0.0], [-0.033, 0.0], [0.067, 0.0]]
    """

    def __init__(self, n_classes: int, n_features: int, margin: float) -> None:
        self.margin = margin
        self.coef_ = np.zeros((n_classes, n_features))
        self.n_updates_ = 0

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Mira:
        """Learn from rows with the classes 0, 1, ..., one after the other."""
        squares = np.einsum("ij,ij->i", X, X)
        for x, label, square in zip(X, y, squares):
            outputs = self.coef_ @ x
            outputs += self.margin
            outputs[label] -= self.margin
            if square > 0.0 and outputs.argmax() != label:
                step = _steps(outputs / square, label)
                self.coef_ += step[:, None] * x
                self.n_updates_ += 1
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the class with the largest output."""
        return (X @ self.coef_.T).argmax(axis=1)


def _steps(B: np.ndarray, label: int) -> np.ndarray:
    """Changes of the classes; that of the label is at most 1, the others at most 0."""
    others = np.sort(np.delete(B, label))[::-1]
    sums, counts = np.cumsum(others), np.arange(1.0, len(others) + 1.0)
    theta = _level(others, (sums + B[label]) / (counts + 1.0))
    if theta - B[label] > 1.0:
        theta = _level(others, (sums - 1.0) / counts)
    steps = np.minimum(theta - B, 0.0)
    steps[label] = -steps.sum() + steps[label]
    return steps


def _level(values: np.ndarray, levels: np.ndarray) -> float:
    """Level below which the largest values are cut, with as many as lie above it."""
    above = np.flatnonzero(values > levels)
    return float(levels[above[-1]]) if above.size else float(levels[0])
