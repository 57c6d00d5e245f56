"""The linear margin problem: its data, its rows, and the certificate of a solution.

One problem covers every form of the relative margin machine (Shivaswamy & Jebara, "Maximum
Relative Margin and Data-Dependent Regularization", JMLR 11, 2010) with ``f_i = w·x_i + b``::

    min_{w,b,t}  ½|w|² + Σ C_i [1 - y_i f_i]_+ + D t + Σ U_i [|f_i| - t]_+

where ``t`` is held at ``B`` (their equation 11, ``U`` infinite), or a variable that is at least
one (14 and, with finite ``U``, 15). The support vector machine is ``B`` infinite. Its dual has
one signed coefficient per row, split into ``α = clip(y c, 0, C)`` and the excess
``e = |y c - α|`` of at most ``U``::

    max_c  Σ α_i - t Σ e_i - ½|Σ c_i x_i|²                          t held
    max_c  Σ α_i - Σ e_i + D - ½|Σ c_i x_i|²,   Σ e_i <= D          t variable

both subject to ``Σ c_i = 0`` if there is an intercept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from threading import local
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.gap import PrimalDual
from oblong._core.threads import chunks, run_chunks
from oblong.solvers.linear.row_loops import add_rows, row_products

# Numbers of a chunk of rows, small enough for the cache.
_CHUNK = 1 << 18
# A slope of the loss in the bias this small, relative to the penalties, is rounding.
_FLAT = 1e-10
# Relative error of a sum of products, whose errors have random signs.
UNIT = 4.0 * float(np.finfo(float).eps)


class LinearRows:
    """Rows of a dense or CSR matrix, used a chunk at a time in double precision.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows, in single or double precision; never copied as a whole.
    threads : int, default=1
        Threads to use.
    centred : bool, default=False
        Whether to subtract the mean of the rows. With an intercept that is another name for
        the same problem, with better digits where the mean is large. For dense rows only.
    """

    def __init__(self, X: Any, threads: int = 1, centred: bool = False) -> None:
        self.X = X
        self.n, self.d = X.shape
        self.sparse = sp.issparse(X)
        self.threads = threads
        self._local = local()
        self.chunk = max(256, _CHUNK // max(1, self.d))
        self.shift: np.ndarray | None = None
        if centred and not self.sparse:
            total = np.zeros(self.d)
            for start in range(0, self.n, self.chunk):
                total += X[start : start + self.chunk].sum(axis=0, dtype=np.float64)
            shift = total / self.n
            self.shift = shift if np.isfinite(shift).all() else None

    def dense(self, start: int, stop: int) -> np.ndarray:
        """Return some rows, dense and in double precision.

        The array belongs to the thread, whose next call writes over it.
        """
        size = stop - start
        buffer = getattr(self._local, "buffer", None)
        if buffer is None or len(buffer) < size:
            # New memory for every chunk would cost as much as the copy.
            buffer = self._local.buffer = np.empty((max(size, min(self.chunk, self.n)), self.d))
        rows = buffer[:size]
        if self.sparse:
            self.X[start:stop].astype(np.float64, copy=False).toarray(out=rows)
            return rows
        rows[...] = self.X[start:stop]
        if self.shift is not None:
            rows -= self.shift
        return rows

    def compressed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, columns and ends of the rows; dense rows have no columns."""
        if self.sparse:
            return self.X.data, self.X.indices, self.X.indptr
        ends = np.arange(self.n + 1, dtype=np.int64) * self.d
        return np.ascontiguousarray(self.X).reshape(-1), np.empty(0, dtype=np.int32), ends

    def products(self, w: np.ndarray, absolute: bool = False) -> np.ndarray:
        """Products of the rows, or of their absolute values, with ``w``."""
        out = np.empty(self.n)
        if self.sparse and not absolute:
            row_products(*self.compressed(), np.arange(self.n), w, out)
        else:
            self._for_parts(lambda part, X: out.__setitem__(part, X @ w), absolute)
        return out

    def combination(self, c: np.ndarray, absolute: bool = False) -> np.ndarray:
        """Sum of the rows, or of their absolute values, times ``c``."""
        out = np.zeros(self.d)
        if self.sparse and not absolute:
            add_rows(*self.compressed(), np.arange(self.n), c, out)
            return out
        parts: dict[int, np.ndarray] = {}
        self._for_parts(lambda part, X: parts.__setitem__(part.start, c[part] @ X), absolute)
        return sum((parts[start] for start in sorted(parts)), out)

    def _for_parts(self, task: Callable[[slice, Any], object], absolute: bool) -> None:
        """Call ``task(slice, rows)`` for chunks of rows, perhaps of their absolute values."""
        if not self.sparse:
            self.for_chunks(lambda part, X: task(part, np.abs(X, out=X) if absolute else X))
            return
        # With about as many entries as dense chunks have.
        for start, stop in chunks(self.n, int(_CHUNK * self.n / max(1, self.X.nnz))):
            task(slice(start, stop), abs(self.X[start:stop]))

    @cached_property
    def squared_norms(self) -> np.ndarray:
        """Squared norms of the rows."""
        out, ones = np.empty(self.n), np.ones(self.d)

        def task(part: slice, X: Any) -> None:
            if self.sparse:
                X.data = np.square(X.data, dtype=np.float64)
                out[part] = X @ ones
            else:
                np.einsum("ij,ij->i", X, X, out=out[part])

        with np.errstate(over="ignore"):
            self._for_parts(task, absolute=False)
        return out

    def check_finite(self) -> None:
        """Raise if squares, which enter the Gram matrix times penalties, overflow."""
        if not float(self.squared_norms.max(initial=0.0)) < 1e150:
            raise ValueError("the squared norms of the rows are not finite: scale the data")

    def for_chunks(
        self, task: Callable[[slice, np.ndarray], object], threads: int | None = None
    ) -> None:
        """Call ``task(slice, rows)`` for all chunks."""

        def run(start: int, stop: int) -> None:
            task(slice(start, stop), self.dense(start, stop))

        run_chunks(run, self.n, self.chunk, self.threads if threads is None else threads)


@dataclass(frozen=True)
class LinearProblem:
    """The linear margin problem.

    Attributes
    ----------
    rows : LinearRows
        The rows ``x_i``.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalties of margin violations.
    B : float
        The bound; infinite for none. Not used with ``D``.
    D : float or None
        Penalty of the bound, which makes it a variable of at least one.
    U : ndarray of shape (n,) or None
        With ``D``: the penalty of outputs beyond the bound; ``None`` makes it hard.
    intercept : bool
        Whether there is a bias.
    """

    rows: LinearRows
    y: np.ndarray
    C: np.ndarray
    B: float = np.inf
    D: float | None = None
    U: np.ndarray | None = None
    intercept: bool = True

    @property
    def bounded(self) -> bool:
        """Whether there is a bound at all."""
        return self.D is not None or np.isfinite(self.B)

    @property
    def offset(self) -> np.ndarray | None:
        """Part of the coefficients that is no multiplier of a row, if there is one."""
        return None

    @property
    def unit(self) -> float:
        """Size of outputs that matters."""
        return 1.0

    def excess(self, c: np.ndarray) -> np.ndarray:
        """What the coefficients have beyond the box of the support vector machine."""
        a = self.y * c
        return np.abs(a - np.clip(a, 0.0, self.C))

    def room(self, c: np.ndarray) -> np.ndarray:
        """How far each coefficient is from the next kink of its term."""
        a = self.y * c
        room = np.minimum(np.abs(a), np.abs(self.C - a))
        if self.bounded and self.U is not None:
            return np.minimum(room, np.minimum(self.C + self.U - a, self.U + a))
        return room if self.bounded else np.where((a > 0.0) & (a < self.C), room, 0.0)

    def feasible(self, c: np.ndarray) -> np.ndarray:
        """Bring coefficients that keep within their boxes to a point of the dual domain.

        Free coefficients take up a small sum: at the solution the dual is level along them but
        for the bias. Scaling does the rest: every box holds zero and the excess is convex and
        zero there, so that shrinking the positive or the negative coefficients, and then all of
        them, leaves no constraint.
        """
        if self.intercept:
            room = self.room(c)
            total, surplus = room.sum(), c.sum()
            if total > abs(surplus):
                c = c - (surplus / total) * np.maximum(room, 0.0)
            positive = np.maximum(c, 0.0)
            up, down = positive.sum(), (positive - c).sum()
            if min(up, down) <= 0.0:
                return np.zeros_like(c)
            c = np.where(c > 0.0, c * min(1.0, down / up), c * min(1.0, up / down))
        if self.D is not None:
            total = self.excess(c).sum()
            if total > self.D:
                c = c * (self.D / total)
        return c

    def dual(self, c: np.ndarray, norm: float) -> float:
        """Dual objective at a feasible point; ``norm`` is ``|Σ c_i x_i|²``."""
        a = self.y * c
        alpha = np.clip(a, 0.0, self.C)
        value = alpha.sum() - 0.5 * norm
        if self.D is not None:
            return float(value - np.abs(a - alpha).sum() + self.D)
        if np.isfinite(self.B):
            value -= self.B * np.abs(a - alpha).sum()
        return float(value)

    def primal(self, f: np.ndarray, norm: float, t: float) -> float:
        """Primal objective at outputs inside the bound; ``norm`` is ``|w|²``."""
        value = 0.5 * norm + self.C @ np.maximum(1.0 - self.y * f, 0.0)
        if self.D is not None:
            value += self.D * t
            if self.U is not None:
                value += self.U @ np.maximum(np.abs(f) - t, 0.0)
        return float(value)

    def rounding(self, f: np.ndarray, error: np.ndarray, t: float) -> float:
        """What the losses may grow by if outputs are off by ``error``."""
        hidden = self.primal(f - self.y * error, 0.0, t) - self.primal(f, 0.0, t)
        if self.D is not None:
            hidden += float(error.max()) * (self.D if self.U is None else 0.0)
            hidden += 0.0 if self.U is None else float(self.U @ error)
        return hidden

    def kinks(self, u: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Biases at which the loss of outputs ``u + b`` changes its slope, and by how much.

        The last number is the slope before the first of them.
        """
        kinks, jumps = self.y - u, self.C
        start = -self.C[self.y > 0].sum()
        if self.U is not None:
            kinks = np.concatenate([kinks, t - u, -t - u])
            jumps = np.concatenate([jumps, self.U, self.U])
            start -= self.U.sum()
        return kinks, jumps, float(start)


@dataclass(frozen=True)
class LinearResult(PrimalDual):
    """Solution of a linear margin problem with its certificate.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        The weight vector ``w``.
    bias : float
        The intercept ``b``, for the rows as they were given.
    t : float
        The bound: ``B``, or the variable one.
    outputs : ndarray of shape (n,)
        Outputs ``f_i``.
    dual_coef : ndarray of shape (n,)
        Signed coefficients of the dual.
    objective, dual_objective : float
        Values of the primal problem at ``(coef, bias, t)`` and of the dual at ``dual_coef``.
    n_iter : int
        Newton steps, or passes over the rows.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped.
    rounding : float, default=0.0
        What rounding may hide in the two objectives.
    """

    coef: np.ndarray
    bias: float
    t: float
    outputs: np.ndarray
    dual_coef: np.ndarray
    objective: float
    dual_objective: float
    n_iter: int
    status: str
    rounding: float = 0.0


def certified(
    problem: LinearProblem,
    w: np.ndarray | None,
    c: np.ndarray,
    t: float,
    n_iter: int,
) -> LinearResult:
    """Make a feasible primal and a feasible dual point from approximate ones.

    Without ``w``, the weights are those of the dual point. The best bias for them is found
    exactly, then the best bound; where the outputs still exceed a hard bound, the primal point
    is scaled into it. The gap of the two points is therefore a certificate, whatever the
    accuracy of what came in.
    """
    rows = problem.rows
    c = problem.feasible(c)
    combined = rows.combination(c)
    w = combined if w is None else w
    u = rows.products(w)
    b = best_bias(problem, u, t) if problem.intercept else 0.0
    f = u + b
    largest = float(np.abs(f).max())
    if problem.D is not None:
        t = best_bound(f, problem.D, problem.U)
    elif largest > problem.B:
        scale = problem.B / largest
        w, b, f = scale * w, scale * b, scale * f
    return LinearResult(
        coef=w,
        bias=float(b if rows.shift is None else b - rows.shift @ w),
        t=float(t),
        outputs=f,
        dual_coef=c,
        objective=problem.primal(f, float(w @ w), t),
        dual_objective=problem.dual(c, float(combined @ combined)),
        n_iter=n_iter,
        status="converged",
    )


def as_stored(X: Any, problem: LinearProblem, found: LinearResult) -> LinearResult:
    """Certify the model that is stored, for the rows as given and as a prediction evaluates it.

    A solver works on centred or rotated rows. Far from the origin the outputs ``w·x + b`` of the
    rows as given are small differences of large numbers: what rounding makes of the two
    objectives is part of the gap.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows as given.
    problem : LinearProblem
        The problem, on whatever rows it was solved.
    found : LinearResult
        Its solution, ``coef`` and ``bias`` being those of the rows as given.
    """
    rows = LinearRows(X, problem.rows.threads)
    w, b = found.coef, found.bias
    f = rows.products(w) + b
    error = UNIT * (rows.products(np.abs(w), absolute=True) + abs(b))
    worst = float((np.abs(f) + error).max())
    t = found.t
    if problem.D is not None:
        t = best_bound(f, problem.D, problem.U)
    elif worst > problem.B:
        scale = problem.B / worst
        w, b, f, error = scale * w, scale * b, scale * f, scale * error
    objective = problem.primal(f, float(w @ w), t)
    hidden = problem.rounding(f, error, t)
    dual, doubt = _dual_of_rows(X, problem, found)
    return replace(
        found,
        coef=w,
        bias=float(b),
        t=float(t),
        outputs=f,
        objective=objective,
        dual_objective=dual,
        rounding=hidden + doubt,
    )


def _dual_of_rows(X: Any, problem: LinearProblem, found: LinearResult) -> tuple[float, float]:
    """Dual objective at the coefficients, for the rows as given, and its rounding."""
    c = found.dual_coef
    rows = LinearRows(X, problem.rows.threads, centred=problem.intercept)
    combined, sizes = rows.combination(c), rows.combination(np.abs(c), absolute=True)
    length, error = float(np.linalg.norm(combined)), UNIT * float(np.linalg.norm(sizes))
    doubt = error * (length + 0.5 * error)
    if problem.intercept:
        # A sum of coefficients other than zero meets every bias, the best one too.
        centre = found.bias if rows.shift is None else found.bias + float(rows.shift @ found.coef)
        doubt += abs(math.fsum(c)) * 2.0 * max(problem.unit, abs(centre))
    dual = problem.dual(c, float(combined @ combined))
    # No coefficients are a dual point too.
    nothing = 0.0 if problem.D is None else problem.D
    return (dual, doubt) if dual - doubt > nothing else (nothing, 0.0)


def best_bias(problem: LinearProblem, u: np.ndarray, t: float) -> float:
    """Minimise the loss over the bias, for outputs ``u + b`` and the bound ``t``.

    The loss is convex and piecewise linear in ``b``: sort its kinks and sum its slopes. Where
    the best biases make an interval, its middle is returned, as by the kernel solver.
    """
    kinks, jumps, start = problem.kinks(u, t)
    order = np.argsort(kinks)
    slopes = start + np.cumsum(jumps[order])
    flat = _FLAT * jumps.sum()
    last = len(kinks) - 1
    low = kinks[order[min(last, np.searchsorted(slopes, -flat))]]
    high = kinks[order[min(last, np.searchsorted(slopes, flat, side="right"))]]
    if problem.bounded and problem.U is None:
        # Past a hard bound no loss is small enough; if no bias is inside, the middle is nearest.
        bottom, top = -t - u.min(), t - u.max()
        if bottom >= top:
            return float(0.5 * (bottom + top))
        low, high = np.clip(low, bottom, top), np.clip(high, bottom, top)
    return float(0.5 * (low + high))


def best_bound(f: np.ndarray, D: float, U: np.ndarray | None) -> float:
    """Minimise ``D t + Σ U_i [|f_i| - t]_+`` over ``t >= 1``."""
    sizes = np.abs(f)
    if U is None:
        return max(1.0, float(sizes.max()))
    order = np.argsort(-sizes)
    # At t, the slope is D less the sum of U over the rows beyond t: the first to reach D is best.
    place = int(np.searchsorted(np.cumsum(U[order]), D))
    return max(1.0, float(sizes[order[place]])) if place < len(f) else 1.0
