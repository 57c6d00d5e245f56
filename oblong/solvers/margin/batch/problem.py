"""Many margin problems over one kernel matrix: what goes in, what comes out.

:func:`oblong.solvers.margin.batch.solve.solve_batch` solves a :class:`MarginBatch` on the cores; a
back end on a device takes the same batch and returns the same :class:`BatchResult`.

Rows are sorted once, by class or by fold, so that the rows of a *group* (a pair of classes, a class
against the rest, all rows but a fold) are a few contiguous segments with one label each. All
problems of a group have the same rows and differ in the penalty and the bound::

    min_{w,b}  ½|w|² + C Σ v_i [1 - y_i f_i]_+    subject to  |f_i| <= B,   f_i = w·φ_i + b

In signed coefficients ``c`` the dual term of a row has the kinks ``b1 <= b2``, which are 0 and
``y_i C v_i`` in ascending order, and the slopes ``s0 >= s1 >= s2`` before, between and after them:
``(B, y_i, -B)``. Without a bound ``b1 <= c <= b2``, which is ``s0 = inf``, ``s2 = -inf``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oblong.kernels import Kernel

__all__ = ["STATUS", "BatchResult", "GramTiles", "MarginBatch", "RowTiles", "rows_of_segments"]

# Names of the numbers in BatchResult.status.
STATUS = ("converged", "max_iter", "stalled", "unsolved")


def rows_of_segments(segments: np.ndarray) -> np.ndarray:
    """Rows of segments of shape (n_segments, 2), one segment after the other."""
    lengths = segments[:, 1] - segments[:, 0]
    ends = np.cumsum(lengths)
    # Each segment counts up from where it begins.
    return np.arange(lengths.sum()) + np.repeat(segments[:, 0] - (ends - lengths), lengths)


@dataclass(frozen=True)
class GramTiles:
    """A kernel matrix in memory.

    Attributes
    ----------
    K : ndarray of shape (n, n)
        The matrix, in the order of the batch; the certificate is in its precision or better.
    definite : bool
        Whether the kernel's formula makes it positive semidefinite.
    """

    K: np.ndarray
    definite: bool = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.K)


@dataclass(frozen=True)
class RowTiles:
    """A kernel matrix by the rows it comes from; tiles of it are computed as they are needed.

    Attributes
    ----------
    kernel : Kernel
        "linear", "poly" or "rbf", with its parameters settled.
    X : ndarray of shape (n, d)
        Dense rows in the order of the batch, as the user gave them.
    """

    kernel: Kernel
    X: Any

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[0]


@dataclass(frozen=True)
class MarginBatch:
    """Problems over one kernel matrix.

    Group ``g`` has ``m`` problems. With ``spreads``, ``m = n_Cs (n_spreads + 1)``: for each ``C``
    the support vector machine first, then the spreads in their order, with the bounds
    ``B = max(1, 1 + spread (theta - 1))`` where ``theta`` is the largest ``|f_i|`` of that support
    vector machine. With ``bounds``, ``m = n_Cs``.

    Attributes
    ----------
    matrix : RowTiles or GramTiles
        The kernel matrix of all rows.
    segments : int ndarray of shape (n_groups, n_segments, 2)
        Where the segments of each group begin and end; some may be empty.
    signs : ndarray of shape (n_groups, n_segments)
        The label ``y`` of all rows of a segment, -1.0 or +1.0.
    penalties : ndarray of shape (n,), or (n_groups, n) on a device
        Factors ``v`` of ``C``: sample weights times class weights.
    Cs : ndarray of shape (n_Cs,)
        Penalties, ascending.
    spreads : ndarray of shape (n_spreads,)
        Spreads between 0 and 1, descending. Empty with ``bounds``.
    bounds : ndarray of shape (n_groups,) or None
        Given bounds ``B``, infinite for a support vector machine; or None to use ``spreads``.
    starts : list of ndarray or None
        For each group coefficients in the domains, of sum zero, for its first problem.
    tol : float
        Largest violation ``max(R - u) - min(L - u)`` of the optimality conditions.
    max_iter : int
        Limit on the pair steps of each problem; -1 for none.
    polish : bool
        Whether a solution that meets ``tol`` but proves too large a gap is made more exact.
    kernels : list of Kernel or None
        On a device: the rbf kernel of each group, where they differ in gamma.
    others : list of ndarray or None
        On a device: for each group rows on which the outputs of its models are wanted.
    """

    matrix: RowTiles | GramTiles
    segments: np.ndarray
    signs: np.ndarray
    penalties: np.ndarray
    Cs: np.ndarray
    spreads: np.ndarray
    bounds: np.ndarray | None = None
    starts: list[np.ndarray] | None = None
    tol: float = 1e-3
    max_iter: int = -1
    polish: bool = True
    kernels: list[Kernel] | None = None
    others: list[np.ndarray] | None = None

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.segments)

    @property
    def n_problems(self) -> int:
        """Number ``m`` of problems of each group."""
        own = len(self.spreads) + 1 if self.bounds is None else 1
        return len(self.Cs) * own

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each group."""
        return (self.segments[:, :, 1] - self.segments[:, :, 0]).sum(axis=1)

    def rows(self, g: int) -> np.ndarray:
        """Rows of a group, segment by segment: the order of its coefficients."""
        return rows_of_segments(self.segments[g])

    def factors(self, g: int) -> np.ndarray:
        """Penalties of the rows of a group."""
        own = self.penalties if self.penalties.ndim == 1 else self.penalties[g]
        return own[self.rows(g)]

    def image(self, g: int, coef: np.ndarray) -> np.ndarray:
        """Product of the matrix of a group with coefficients."""
        rows = self.rows(g)
        support = np.flatnonzero(coef)
        if isinstance(self.matrix, GramTiles):
            return self.matrix.K[np.ix_(rows, rows[support])] @ coef[support]
        X = self.matrix.X[rows]
        return self.matrix.kernel(X, X[support]) @ coef[support]

    def y(self, g: int) -> np.ndarray:
        """Labels of the rows of a group."""
        return np.repeat(self.signs[g], np.diff(self.segments[g], axis=1)[:, 0])


@dataclass(frozen=True)
class BatchResult:
    """Models and certificates of all problems of a batch.

    ``m - M`` is the violation at the dual point, measured with outputs in double precision from
    the coefficients returned; ``κ`` the factor between the dual point and the model, see
    :func:`oblong.solvers.margin.result.certify`. Arrays have the shape (n_groups, m). A support
    vector machine of which only ``theta`` was wanted may have no certificate: NaN.

    Attributes
    ----------
    coefs : list of ndarray of shape (m, n_rows of the group)
        Coefficients of the models, ``κ`` included, in the order of :meth:`MarginBatch.rows`.
    bias, scale, objective, dual_objective, rounding, violation : ndarray
        Bias of the model, ``κ``, the primal and dual objective, what rounding may hide in both,
        and the violation.
    bound, theta, largest : ndarray
        ``B``, infinite for a support vector machine; ``theta``, NaN with given bounds; the largest
        ``|f_i|`` of the model.
    n_iter, status : int ndarray
        Pair steps, and a number that :data:`STATUS` names.
    source : int ndarray
        Which problem of the group the solution is that of: itself, or one whose solution is
        optimal for this problem, too.
    directions : ndarray of shape (n_groups, m, d) or None
        Weight vectors of the linear kernel.
    outputs : list of ndarray of shape (m, n_others of the group) or None
        Outputs of the models on :attr:`MarginBatch.others`.
    """

    coefs: list[np.ndarray]
    bias: np.ndarray
    scale: np.ndarray
    objective: np.ndarray
    dual_objective: np.ndarray
    rounding: np.ndarray
    violation: np.ndarray
    bound: np.ndarray
    theta: np.ndarray
    largest: np.ndarray
    n_iter: np.ndarray
    status: np.ndarray
    source: np.ndarray
    directions: np.ndarray | None = None
    outputs: list[np.ndarray] | None = None

    @property
    def relative_gap(self) -> np.ndarray:
        """Primal minus dual objective, rounding included, over the primal."""
        gap = np.maximum(self.objective - self.dual_objective, 0.0) + self.rounding
        return gap / np.maximum(np.abs(self.objective), np.finfo(float).tiny)

    @property
    def rounded(self) -> np.ndarray:
        """Where most of the gap is rounding."""
        gap = np.maximum(self.objective - self.dual_objective, 0.0) + self.rounding
        return self.rounding > 0.5 * gap
