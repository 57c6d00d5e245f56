"""The problem of the ellipsoidal support vector machine, and what certifies a solution.

::

    min  -r ln|B| + (1 - r) tr B + Σ C_i ξ_i
    s.t. y_i (φ_i'w + b) + ξ_i >= q_i = π_i φ_i'B φ_i,  ξ_i >= 0,  |w| <= 1,  B positive definite

and its dual, with ``M = (1 - r) I + Σ α_i π_i φ_i φ_i'``, ``B = r M^-1``, ``v = Σ α_i y_i φ_i``::

    max  r ln|M| - r p ln r + r p - |v|    s.t. 0 <= α_i <= C_i,  Σ y_i α_i = 0

(Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines, ACML 2010, eq. 6 and 7, the
multiplier of ``|w| <= 1`` eliminated and the constants restored.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dtrmm

from oblong._core.threads import available_threads, chunks, run_chunks
from oblong.linalg.gram import OrderedSum, lower_gram
from oblong.linalg.log_det import chunk_length, inverse_factor
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.margin.scaled import widest_bias

Report = Callable[[float], None]


def _ignore(violation: float) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Certified:
    """Dual weights, the primal point that goes with them, and the distance of the two values.

    Attributes
    ----------
    alpha, q, outputs : ndarray of shape (n,)
        Weights, ``π_i φ_i'B φ_i`` and ``φ_i'w + b``.
    w : ndarray of shape (p,)
        Direction.
    b : float
        Intercept.
    G : ndarray of shape (p, p) or None
        Lower triangular, with ``B = r G'G``; None where the certificate did without it.
    v : ndarray of shape (p,)
        ``Σ α_i y_i φ_i``.
    dual : float
        Value of the dual.
    gap : float
        Value of the primal minus that of the dual; infinite if no feasible point is known.
    """

    alpha: np.ndarray
    q: np.ndarray
    outputs: np.ndarray
    w: np.ndarray
    b: float
    G: np.ndarray | None
    v: np.ndarray
    dual: float
    gap: float


@dataclass
class EsvmProblem:
    """Rows that count (positive caps), and passes over them."""

    F: np.ndarray
    y: np.ndarray
    caps: np.ndarray
    pi: np.ndarray
    r: float
    fit_intercept: bool
    tol: float
    max_iter: int
    report: Report = _ignore
    options: EsvmOptions = field(default_factory=EsvmOptions)
    n_iter: int = 0

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.F.shape[0]

    @property
    def p(self) -> int:
        """Number of columns."""
        return self.F.shape[1]

    @property
    def unit(self) -> float:
        """What gaps are relative to."""
        return self.r * self.p

    @cached_property
    def hard(self) -> np.ndarray | None:
        """Rows without slack; None if every row has some."""
        infinite = ~np.isfinite(self.caps)
        return infinite if infinite.any() else None

    def part(self, rows: np.ndarray, caps: np.ndarray) -> EsvmProblem:
        """The problem of some rows, which reports to nobody."""
        parts = self.F[rows], self.y[rows], caps, self.pi[rows]
        return EsvmProblem(
            *parts, self.r, self.fit_intercept, self.tol, self.max_iter, options=self.options
        )

    def status(self, found: Certified) -> str:
        """Why a solver that has stopped with a solution did so."""
        if found.gap <= self.tol * self.unit:
            return "converged"
        return "max_iter" if self.n_iter >= self.max_iter else "stalled"

    def images(
        self, G: np.ndarray, w: np.ndarray, triangular: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """``|G φ_i|² π_i`` and ``φ_i'w`` of all rows, in one pass."""
        n, p = self.F.shape
        half = triangular and p >= self.options.wide
        q, g = np.empty(n), np.empty(n)

        def task(start: int, stop: int) -> None:
            # Products in single precision would spoil the certificate.
            rows = np.asarray(self.F[start:stop], dtype=np.float64)
            image = dtrmm(1.0, G, rows.T, lower=1).T if half else rows @ G.T
            np.einsum("ij,ij->i", image, image, out=q[start:stop])
            q[start:stop] *= self.pi[start:stop]
            g[start:stop] = rows @ w

        run_chunks(task, n, self._chunk(), available_threads())
        return q, g

    def _chunk(self) -> int:
        """Rows of a chunk: more where a matrix of all columns is itself larger than a cache."""
        p = self.p
        return max(chunk_length(p), 2 * p) if p >= self.options.wide else chunk_length(p)

    def moments(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(1 - r) I + Σ α_i π_i φ_i φ_i'`` and ``Σ α_i y_i φ_i``; zero weights cost nothing."""
        p, chunk = self.p, self._chunk()
        if p >= self.options.wide and alpha.min() >= 0.0:
            # A product with itself costs half, and BLAS adds it where it belongs.
            M, v, used = np.zeros((p, p), order="F"), np.zeros(p), np.flatnonzero(alpha)
            roots, signed = np.sqrt(alpha * self.pi), alpha * self.y
            for start, stop in chunks(len(used), chunk):
                part = used[start:stop]
                rows = self.F[start:stop] if len(used) == self.n else self.F[part]
                v += signed[part] @ rows
                weighted = rows * roots[part, None]
                M = lower_gram(weighted.T, add_to=M)
            M += np.tril(M, -1).T
        else:
            v, M = self._sums(alpha, chunk)
            M = 0.5 * (M + M.T)
        M.flat[:: p + 1] += 1.0 - self.r
        return M, v

    def _sums(self, alpha: np.ndarray, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """``Σ α_i y_i φ_i`` and ``Σ α_i π_i φ_i φ_i'``, by several threads."""
        total = OrderedSum(np.zeros((self.p + 1, self.p)))

        def task(start: int, stop: int) -> None:
            a, rows = alpha[start:stop], self.F[start:stop]
            pi, y = self.pi[start:stop], self.y[start:stop]
            used = np.flatnonzero(a)
            if not len(used):
                total.add(0.0, start // chunk)
                return
            if 2 * len(used) < len(a):
                a, rows, pi, y = a[used], rows[used], pi[used], y[used]
            gram = (rows * (a * pi)[:, None]).T @ rows
            total.add(np.vstack([(a * y) @ rows, gram]), start // chunk)

        run_chunks(task, self.n, chunk, available_threads())
        return total.total[0], total.total[1:]

    def factor(self, alpha: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """``G``, ``ln|M|`` and ``v`` at given weights."""
        M, v = self.moments(alpha)
        return *inverse_factor(M, overwrite=True), v

    def certify(
        self,
        alpha: np.ndarray,
        w: np.ndarray | None = None,
        b: float | None = None,
        enough: float = 0.0,
    ) -> Certified:
        """Certify weights: the better of ``v / |v|`` and the given direction, and its best bias.

        The first of them with a gap of at most ``enough`` will do.
        """
        if self.fit_intercept:
            alpha = balanced(alpha, self.y)
        G, log_det, v = self.factor(alpha)
        length = float(np.linalg.norm(v))
        dual = self.r * log_det + self.unit * (1.0 - np.log(self.r)) - length
        directions = [] if w is None else [w / max(1.0, float(np.linalg.norm(w)))]
        if length > 0.0:
            directions.append(v / length)
        elif w is None:
            directions.append(np.zeros(self.p))
        q, g = self.images(G, directions[0])
        q *= self.r
        best: Certified | None = None
        for k, direction in enumerate(directions):
            g = g if k == 0 else self.F @ direction
            for bias in self.biases(q, g, b if k == 0 else None):
                gap = self.gap(alpha, q, g + bias, length)
                if best is None or gap < best.gap:
                    best = Certified(alpha, q, g + bias, direction, bias, G, v, dual, gap)
                if gap <= enough:
                    return best
        assert best is not None
        return best

    def gap(self, alpha: np.ndarray, q: np.ndarray, outputs: np.ndarray, length: float) -> float:
        """Primal value at ``(κ B, w, b)`` minus dual value; ``κ < 1`` makes hard rows feasible."""
        side = self.y * outputs
        mass, shrink = float(alpha @ q), 1.0
        loss = 0.0
        if self.hard is not None:
            shrink = min(1.0, smallest_ratio(side[self.hard], q[self.hard]))
            if shrink <= 0.0:
                return np.inf
            soft = ~self.hard
            loss = float(self.caps[soft] @ np.maximum(shrink * q[soft] - side[soft], 0.0))
        else:
            loss = float(self.caps @ np.maximum(q - side, 0.0))
        wasted = self.unit * (shrink - 1.0 - np.log(shrink))
        return wasted + loss - shrink * mass + length

    def biases(self, q: np.ndarray, g: np.ndarray, given: float | None = None) -> list[float]:
        """Intercepts worth trying: the given one, and the best for slack or for hard margins."""
        if not self.fit_intercept:
            return [0.0]
        found = [] if given is None else [given]
        h = self.y * q - g
        if self.hard is None:
            return [*found, best_bias(h, self.y, self.caps)]
        hard = self.hard
        low = float(np.max(h[hard & (self.y > 0)], initial=-np.inf))
        high = float(np.min(h[hard & (self.y < 0)], initial=np.inf))
        if low > high:
            return [*found, widest_bias(q[hard], g[hard], self.y[hard])]
        if hard.all():
            return [*found, 0.5 * (low + high)]
        soft = ~hard
        best = best_bias(h[soft], self.y[soft], self.caps[soft])
        return [*found, min(max(best, low), high)]


def moment_factor(F: np.ndarray, alpha: np.ndarray, pi: np.ndarray, r: float) -> np.ndarray:
    """Lower triangular ``G`` with ``G'G = ((1 - r) I + Σ α_i π_i φ_i φ_i')^-1``."""
    signs = np.ones(len(alpha))
    return EsvmProblem(F, signs, alpha, pi, r, False, 0.0, 0).factor(alpha)[0]


def balanced(alpha: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Scale the heavier class down until ``Σ y_i α_i = 0``."""
    positive = y > 0
    above, below = float(alpha[positive].sum()), float(alpha[~positive].sum())
    if above == below:
        return alpha
    if min(above, below) <= 0.0:
        return np.zeros_like(alpha)
    if above > below:
        return np.where(positive, alpha * (below / above), alpha)
    return np.where(positive, alpha, alpha * (above / below))


def smallest_ratio(side: np.ndarray, q: np.ndarray) -> float:
    """Largest ``κ`` with ``side >= κ q``; a row at the origin only needs the right side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = side / q
    ratio = np.where(q > 0.0, ratio, np.where(side >= 0.0, np.inf, -np.inf))
    return float(np.min(ratio))


def best_bias(h: np.ndarray, y: np.ndarray, caps: np.ndarray) -> float:
    """Minimise ``Σ C_i max(0, y_i (h_i - b))``: the middle of the flat piece, if there is one."""
    order = np.argsort(h)
    slope = np.cumsum(caps[order]) - float(caps[y > 0].sum())
    nothing = 1e-13 * float(caps.sum())
    first = int(np.searchsorted(slope, -nothing))
    last = int(np.searchsorted(slope, nothing, side="right"))
    n = len(h)
    left, right = float(h[order[min(first, n - 1)]]), float(h[order[min(last, n - 1)]])
    return 0.5 * (left + right)
