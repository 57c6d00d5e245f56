"""The support vector machine with Universum points.

Weston, Collobert, Sinz, Bottou and Vapnik, "Inference with the Universum", Proceedings of the
23rd International Conference on Machine Learning (2006), add points ``u`` of no class, whose
outputs are to be near zero::

    min_{w,b}  ½|w|² + Σ C_i [1 - y_i f(x_i)]_+ + C_U Σ [|f(u)| - ε]_+ .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from oblong._core.progress import Run
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.problem import Pieces, svm_pieces
from oblong.solvers.margin.solver import MarginResult, solve_margin


@dataclass(frozen=True)
class UniversumResult:
    """Solution of the Universum problem.

    Attributes
    ----------
    margin : MarginResult
        The solution and its certificate; the Universum points come after the labelled rows.
    n_labelled : int
        Number of labelled rows.
    n_iter : int
        Pair steps.
    """

    margin: MarginResult
    n_labelled: int
    n_iter: int

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the labelled rows."""
        return self.margin.coef[: self.n_labelled]

    @property
    def universum_coef(self) -> np.ndarray:
        """Coefficients of the Universum points."""
        return self.margin.coef[self.n_labelled :]


def universum_pieces(n: int, C_universum: float | np.ndarray, epsilon: float) -> Pieces:
    """Terms of Universum points: ``g(c) = -ε|c|`` for ``|c| <= C_U``.

    The loss is ``C_U [|f| - ε]_+``. A point with ``C_U = 0`` takes no part.
    """
    return Pieces(
        np.multiply.outer(np.broadcast_to(C_universum, n), [-1.0, 0.0, 0.0, 1.0]),
        np.tile([float(epsilon), 0.0, -float(epsilon)], (n, 1)),
    )


def solve_universum(
    columns: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    *,
    C_universum: float | np.ndarray,
    epsilon: float,
    **run: Unpack[Run],
) -> UniversumResult:
    """Solve the support vector machine with Universum points.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix of the labelled rows followed by the Universum points.
    y : ndarray of shape (n,)
        Labels of the labelled rows, -1 or +1.
    C : ndarray of shape (n,)
        Their penalties.
    C_universum : float or ndarray of shape (n_universum,)
        Penalty of a Universum point, or of each of them; zero leaves a point out.
    epsilon : float
        Half the width of the tube in which an output of a Universum point costs nothing.
    **run : object
        ``tol``, ``max_iter`` and ``progress`` of
        :func:`~oblong.solvers.margin.solver.solve_margin`.

    Returns
    -------
    UniversumResult
        The solution.
    """
    labelled = svm_pieces(y, C)
    others = universum_pieces(columns.n - len(y), C_universum, epsilon)
    pieces = Pieces(*(np.concatenate(parts) for parts in zip(labelled, others)))
    margin = solve_margin(columns, pieces, stage="universum", **run)
    return UniversumResult(margin, len(y), margin.n_iter)
