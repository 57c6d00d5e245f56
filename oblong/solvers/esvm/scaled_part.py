"""Some rows of the problem of the ellipsoidal support vector machine, scaled for its solvers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from oblong.solvers.esvm.problem import Certified, EsvmProblem, balanced


class Part:
    """The problem of some rows, scaled to lengths near one, with the held rows in its constants.

    With ``φ = k φ'``, ``B = B' / c`` and ``π = c π' / k``, the caps become ``k C``, the constant
    part of the moments ``M0 / c``, and the optimal values differ by a constant.
    """

    def __init__(
        self, problem: EsvmProblem, rows: np.ndarray | None, held: np.ndarray | None
    ) -> None:
        self.problem, self.held = problem, held
        self.rows = slice(None) if rows is None else rows
        self._F = np.asarray(problem.F[self.rows], dtype=np.float64)
        self.y, caps = problem.y[self.rows], problem.caps[self.rows]
        self.shape = self._F.shape
        self._squares = np.einsum("ij,ij->i", self._F, self._F)
        length = float(np.sqrt(self._squares.mean()))
        self.length = length if length > 0.0 else 1.0
        pi = problem.pi[self.rows] * self.length
        factor = float(np.partition(pi, len(pi) // 2)[len(pi) // 2])
        self.pi, self.caps, self.factor = pi / factor, caps * self.length, factor
        self.ridge = (1.0 - problem.r) / factor
        self.total, self.v0 = 0.0, None
        if held is not None:
            M, self.v0 = problem.moments(held)
            self.M0 = M / factor
            self.total = -float(problem.y @ held) * self.length

    @cached_property
    def F(self) -> np.ndarray:
        """The rows, scaled."""
        return self._F / self.length

    @cached_property
    def M0(self) -> np.ndarray:
        """The constant part of the moments."""
        return np.eye(self.problem.p) * self.ridge

    def terms(self) -> dict[str, Any]:
        """The problem as the interior point method takes it, whatever the form of the iterate."""
        total = self.total if self.problem.fit_intercept else None
        form = {"r": self.problem.r, "caps": self.caps, "signs": self.y}
        return {**form, "total": total, "direction": True}

    def alpha(self, alpha: np.ndarray) -> np.ndarray:
        """Weights of all rows in the problem as it was given, within their bounds."""
        whole = np.zeros(self.problem.n) if self.held is None else self.held.copy()
        whole[self.rows] = alpha / self.length
        return np.clip(whole, 0.0, self.problem.caps)

    def start(self, near: Certified | None) -> np.ndarray | None:
        """Weights strictly inside their bounds with the right balance; None if there are none."""
        if near is None:
            return self.ray(1.0 if self.problem.hard is None else self._hard_factor())
        alpha = np.clip(self.length * near.alpha[self.rows], 0.1 * self.caps, 0.9 * self.caps)
        if not self.problem.fit_intercept:
            return alpha
        missing = self.total - float(self.y @ alpha)
        toward = np.where(self.y * np.sign(missing) > 0, self.caps - alpha, alpha)
        share = abs(missing) / float(toward.sum())
        return alpha + np.sign(missing) * share * self.y * toward if share < 0.999 else None

    def _hard_factor(self) -> float:
        """How much larger than soft ones the first weights of a hard margin are.

        Weights that are too small make the interior point method crawl. At the solution
        ``|v| = r p`` for ``r`` near one, so that ``Σ α`` is ``r p`` over a margin of which the
        distance of the class means, on the ray, is a poor bound where kernels fit noise.
        """
        options, (n, p) = self.problem.options, self.shape
        kernel = n <= options.kernel_rows_per_column * p
        return options.hard_kernel_start if kernel else options.hard_start

    def ray(self, factor: float = 1.0) -> np.ndarray:
        """Equal weights in each class: a factor times the best ones along their ray."""
        y = self.y
        positive = y > 0
        count = np.count_nonzero(positive)
        share = np.where(positive, 1.0 / count, 1.0 / (len(y) - count))
        trace = float((share * self.pi) @ self._squares) / self.length**2
        slope = float(np.linalg.norm((share * y) @ self._F)) / self.length
        tau = 1.0
        if trace > 0.0:
            # As if the moments were a multiple of the identity; not far beyond one row's worth of
            # weight for each direction, should nothing pull back.
            p, spread = self.problem.p, self.problem.p / trace
            tau = min(self.problem.r * p / max(slope, 1e-300), 10.0 * p * spread)
            tau = max(tau - self.ridge * spread, self.ridge * spread)
        alpha = np.minimum(factor * tau * share, 0.5 * self.caps)
        return balanced(alpha, y) if self.problem.fit_intercept else alpha
