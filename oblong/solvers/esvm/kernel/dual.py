"""The soft margin with a kernel: models of the dual, maximised by pairs of weights.

With almost as many columns as rows, one evaluation of the dual and of ``Q`` is a factorisation and
an inversion of ``ρ I + A^½ K A^½``. What the interior point method spends on following its central
path, with a Newton system in every step, a model of the dual does with moves of pairs, so that a
handful of evaluations is enough. Far from the solution they are made in single precision. The
certificate is computed in double precision, from the rows themselves where the kernel matrix has
not digits enough, and where the models lead nowhere the interior point method starts afresh.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dlauum, dpotrf, slauum, spotrf

from oblong._core.compile import compiled
from oblong.linalg.gram import lower_gram
from oblong.linalg.log_det import invert_triangle
from oblong.solvers.esvm.kernel.certificate import certify_by_kernel
from oblong.solvers.esvm.kernel.pairs import move_pairs
from oblong.solvers.esvm.kernel.state import products, scaled_kernel
from oblong.solvers.esvm.problem import Certified, EsvmProblem
from oblong.solvers.esvm.scaled_part import Part

# Rows of a block of matrices that fits into a cache, and of one that is turned.
_BLOCK, _TILE = 256, 32


@dataclass(frozen=True)
class Evaluation:
    """The dual at given weights: ``g = K (y∘α)``, ``q``, the value and the gap over ``r p``."""

    alpha: np.ndarray
    g: np.ndarray
    q: np.ndarray
    value: float
    gap: float
    double: bool


class KernelDual:
    """The dual in terms of the kernel matrix, for rows scaled as a part of the problem says."""

    def __init__(self, problem: EsvmProblem, part: Part, least: np.ndarray) -> None:
        self.problem, self.part, self.least = problem, part, least
        F = np.asarray(problem.F, dtype=np.float64)
        n = problem.n
        # The lower triangle, in columns.
        self.K = lower_gram(F, part.length**-2)
        self.diagonal = self.K.diagonal().copy()
        self._space = np.empty(n * n)

    @cached_property
    def single(self) -> np.ndarray:
        """All of the kernel matrix, in single precision."""
        full = np.empty(self.K.shape, dtype=np.float32)
        _mirrored(self.K.T, np.ones(len(full)), 1.0, full)
        return full

    @cached_property
    def _Q(self) -> np.ndarray:
        return np.empty(self.K.shape, dtype=np.float32)

    def evaluate(
        self, alpha: np.ndarray, double: bool, last: Evaluation | None = None
    ) -> Evaluation | None:
        """Evaluate the dual, half way back to the last weights until it is no worse than there.

        None if rounding leaves no factor, or ``v`` is too short to be followed.
        """
        n, part, r = self.problem.n, self.part, self.problem.r
        vanishes = self.problem.options.vanishing_direction
        kind, potrf, lauum = (
            (np.float64, dpotrf, dlauum) if double else (np.float32, spotrf, slauum)
        )
        K = self.K.T if double else self.single
        H = self._space.view(kind)[: n * n].reshape(n, n).T
        noise = self.problem.unit * (1e-9 if double and (last is None or last.double) else 1e-5)
        for _ in range(8):
            root = np.sqrt(alpha * part.pi)
            scaled_kernel(K, root.astype(kind), kind(part.ridge), H.T)
            H, info = potrf(H, lower=1, clean=0, overwrite_a=1)
            if info != 0:
                return None
            log_det = 2.0 * float(np.log(H.diagonal().astype(np.float64)).sum())
            signed = self.problem.y * alpha
            g = dsymv(1.0, self.K, signed, lower=1)
            length = np.sqrt(max(float(signed @ g), 0.0))
            value = r * log_det - length
            if last is None or value >= last.value - noise:
                break
            alpha = 0.5 * (alpha + last.alpha)
        else:
            return None
        if not np.isfinite(value) or length <= vanishes * float(alpha @ np.sqrt(self.diagonal)):
            return None
        invert_triangle(H)
        H, _ = lauum(H, lower=1, overwrite_c=1)
        self.inverse = H
        q = products(self.K, H, alpha, part.pi, part.ridge, r)
        # The problem as it was given has weights α / k, and q and outputs larger by k.
        problem, k = self.problem, part.length
        outputs = g * (k / length)
        outputs += problem.biases(k * q, outputs)[-1]
        gap = problem.gap(alpha / k, k * q, outputs, length) / problem.unit
        return Evaluation(alpha, g, q, value, gap, double)

    def improve(self, at: Evaluation, trust: float = 1.0) -> tuple[np.ndarray, bool]:
        """Weights that maximise the model around the latest evaluation, where it can be trusted.

        Also says whether they are free: no weight is at the limit of where the model is trusted.

        Rows that nearly repeat each other can exchange their weights at no cost, and the model is
        not concave far along such a move.
        """
        problem, part, y, r = self.problem, self.part, self.problem.y, self.problem.r
        options = problem.options
        rules = options.pair_steps, options.pair_precision, options.linear_below
        Q, q = self._Q, at.q
        _mirrored(self.inverse.T, np.sqrt(r * part.ridge / at.alpha), -1.0, Q)
        Q.flat[:: len(q) + 1] = q
        wanted = options.forcing * at.gap * min(1.0, max(10.0 * at.gap, 0.01))
        wanted = max(wanted, 0.1 * problem.tol) * problem.unit / float(at.alpha.sum())
        alpha, center, g, limit = at.alpha, at.alpha, at.g, options.moves_per_row * len(q)
        for left in range(options.recentre_rounds, -1, -1):
            reach = trust * max(options.reach, options.reach_roots * np.sqrt(at.gap)) * r / q
            low = np.maximum(self.least, np.minimum(center - reach, alpha))
            high = np.minimum(part.caps, np.maximum(center + reach, alpha))
            alpha = alpha.copy()
            model = self.single, Q, y, low, high, center
            steps = move_pairs(*model, alpha, q, g.copy(), r, wanted, limit, rules)
            moves = np.abs(q * (alpha - center)) / r
            far = np.flatnonzero(moves > options.recentre_move)
            if not left or not len(far) or at.gap > options.recentre_gap or steps == limit:
                break
            most = len(q) // options.recentre_share
            if len(far) > most:
                far = np.argpartition(-moves, most)[:most]
            center, q = _recentred(Q, q, center, alpha, far, r)
            g = dsymv(1.0, self.K, y * alpha, lower=1)
        held = ((alpha == low) & (low > self.least)) | ((alpha == high) & (high < part.caps))
        return alpha, not held.any()

    def certify(self, alpha: np.ndarray, tidy: bool = True) -> Certified:
        """Certify weights, the least ones set to zero where the result should be tidy."""
        if tidy:
            alpha = np.where(alpha <= self.least, 0.0, alpha)
        alpha = self.part.alpha(alpha)
        found = certify_by_kernel(self.problem, self.part, self.K, alpha, self._space)
        return self.problem.certify(alpha) if found is None else found


def solve_by_models(problem: EsvmProblem) -> Certified | None:
    """Solve by models of the dual; None where they lead nowhere.

    Every row needs a finite cap, and the problem an intercept.
    """
    options, part = problem.options, Part(problem, None, None)
    start = part.ray()
    dual = KernelDual(problem, part, _zero_weights(problem, part, start))
    largest = float(np.max(start * part.pi * dual.diagonal))
    double, alpha, idle, trust = largest > options.single_condition * part.ridge, start, 0, 1.0
    last: Evaluation | None = None
    for _ in range(options.evaluations):
        problem.n_iter += 1
        found = dual.evaluate(alpha, double, last)
        if found is None:
            if double:
                return None
            double = True
            continue
        problem.report(found.gap)
        slow = last is not None and found.gap > 0.5 * last.gap
        idle = idle + 1 if slow else 0
        if idle > 1 and double:
            return None
        if last is not None and slow:
            hopeless = max(options.hopeless_gap, options.hopeless_growth * last.gap)
            if found.gap > hopeless:
                # No model of such a problem can be trusted.
                return None
        exact = found.double or problem.tol >= options.single_gap
        if exact and found.gap <= problem.tol:
            for tidy in (True, False):
                certified = dual.certify(found.alpha, tidy)
                if certified.gap <= problem.tol * problem.unit:
                    return certified
            return None
        trust *= 1.0 if found.alpha is alpha else 0.25
        alpha, free = dual.improve(found, trust)
        # The error of a model is about the square of what it removes.
        near = found.gap**2 <= options.certify_squared_gap * problem.tol
        if exact and free and not slow and near:
            certified = dual.certify(alpha)
            if certified.gap <= problem.tol * problem.unit:
                return certified
        double = double or slow or found.gap <= options.double_gap
        last = found
    return None


def _zero_weights(problem: EsvmProblem, part: Part, start: np.ndarray) -> np.ndarray:
    """Weights too small to matter for the gap."""
    share = min(max(problem.options.zero_weight * problem.tol, 1e-14), 1e-7)
    return share * np.minimum(part.caps, float(np.median(start)))


def _recentred(
    Q: np.ndarray, q: np.ndarray, center: np.ndarray, alpha: np.ndarray, far: np.ndarray, r: float
) -> tuple[np.ndarray, np.ndarray]:
    """Move a few weights of the centre; ``Q`` changes in place by a matrix of their rank."""
    center, columns = center.copy(), Q[far].astype(np.float64)
    inner = columns[:, far].copy()
    inner.flat[:: len(far) + 1] = q[far] + r / (alpha[far] - center[far])
    right = np.linalg.solve(inner, columns)
    center[far] = alpha[far]
    q = np.maximum(q - np.einsum("ij,ij->j", columns, right), np.finfo(np.float32).tiny)
    left, right = columns.T.astype(np.float32), right.astype(np.float32)
    for first in range(0, len(q), _BLOCK):
        rows = slice(first, first + _BLOCK)
        Q[rows] -= left[rows] @ right
    Q.flat[:: len(q) + 1] = q
    return center, q


@compiled
def _mirrored(upper, scale, sign, out):  # pragma: no cover - compiled
    """``sign scale_i scale_j upper_ij`` above the diagonal, and its mirror image."""
    n = len(scale)
    blocks = -(-n // _TILE)
    for b in range(blocks):
        first = b * _TILE
        rows, targets, left = upper[first:, first:], out[first:, first:], scale[first:]
        size, width = min(_TILE, n - first), n - first
        for i in range(size):
            row, target, factor = rows[i, i:], targets[i, i:], sign * left[i]
            right = left[i:]
            for j in range(width - i):
                target[j] = row[j] * (factor * right[j])
        # A strip of columns, whose rows lie in the cache.
        for j in range(width):
            target, column = targets[j], targets[:, j]
            for i in range(min(size, j)):
                target[i] = column[i]
