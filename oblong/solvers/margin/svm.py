"""The support vector machine, as a margin problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.problem import svm_pieces
from oblong.solvers.margin.solver import MarginResult, solve_margin


def solve_svm(columns: KernelMatrix, y: np.ndarray, C: np.ndarray, **options: Any) -> MarginResult:
    """Solve ``min ½|w|² + Σ C_i [1 - y_i f_i]_+``.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalty of each row.
    **options : object
        Those of :func:`~oblong.solvers.margin.solver.solve_margin`.

    Returns
    -------
    MarginResult
        The solution and its certificate.
    """
    return solve_margin(columns, svm_pieces(y, C), **options)
