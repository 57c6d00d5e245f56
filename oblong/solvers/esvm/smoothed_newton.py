"""The ellipsoidal support vector machine with many rows: Newton's method on a smoothed problem.

The slack ``max(0, m)`` of a row with excess ``m_i = q_i - y_i (φ_i'w + b)`` gets a rounded
corner, a parabola for ``|m| < width / 2``, and the ball ``|w| <= 1`` a logarithmic barrier. The
slopes of the rounded slack times the caps are dual weights, whose certificate is that of the
problem itself.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from oblong._core.threads import available_threads, run_chunks
from oblong.linalg.log_det import chunk_length
from oblong.solvers.esvm.directions import Direction, Zone, newton_direction
from oblong.solvers.esvm.problem import Certified, EsvmProblem

__all__ = ["SmoothedMachine"]

# Newton's decrement over width times caps, below which the width shrinks.
_DECREMENT = 0.0025
_SHRINK = 0.25
# Weight of the barrier over width times caps: with much less, w gets stuck at the sphere.
_BARRIER = 0.05
# Rows of the sample on which a large problem starts.
_SAMPLE = 40_000


class SmoothedMachine:
    """Minimise ``-r ln|B| + (1 - r) tr B + Σ C_i h(m_i) - κ ln(1 - |w|²)``.

    Over ``B``, ``w`` and ``b``. ``B = R R'``, and steps ``R S R'`` of it are made in terms of
    ``S``, where the Hessian of the log-determinant is the identity times ``r``.
    """

    def __init__(self, problem: EsvmProblem) -> None:
        self.problem = problem
        self.total = float(problem.caps.sum())
        self.rng = np.random.default_rng(0)

    def begin(self, R: np.ndarray, w: np.ndarray, b: float, share: float) -> None:
        """Start at a point, with a width of ``share`` times twice the median excess."""
        problem = self.problem
        self.R, self.w, self.b = R, w, b
        q, g = problem.images(R.T, w, triangular=False)
        self.m = q - problem.y * (g + b)
        self.width = 2.0 * share * float(np.median(np.abs(self.m)))
        self.width = max(self.width, 1e-12 * float(np.mean(q)))
        self.alpha = np.zeros(problem.n)
        self.M, self.v = problem.moments(self.alpha)
        self._weigh()
        length = float(np.linalg.norm(w))
        if length > 0.0:
            # As far from the sphere as the barrier is going to keep it.
            kappa = _BARRIER * self.width * self.total
            room = min(0.2, 2.0 * kappa / max(float(np.linalg.norm(self.v)), 1e-300))
            w = w * min(1.0, np.sqrt(1.0 - room) / length)
            self.m -= problem.y * (problem.F @ (w - self.w))
            self.w = w
            self._weigh()

    def begin_anywhere(self) -> None:
        """Start from a sample of the rows or from weights at half their caps."""
        problem = self.problem
        if problem.n > 3 * _SAMPLE:
            self._begin_with_sample()
            return
        alpha = 0.5 * problem.caps
        found = problem.certify(alpha)
        R = np.sqrt(problem.r) * found.G.T
        self.begin(R, 0.9 * found.w, found.b, 1.0)

    def _begin_with_sample(self) -> None:
        problem = self.problem
        chosen = np.sort(self.rng.choice(problem.n, _SAMPLE, replace=False))
        sample = EsvmProblem(
            problem.F[chosen],
            problem.y[chosen],
            problem.caps[chosen] * (self.total / float(problem.caps[chosen].sum())),
            problem.pi[chosen],
            problem.r,
            problem.fit_intercept,
            problem.tol,
            problem.max_iter,
        )
        smaller = SmoothedMachine(sample)
        smaller.begin_anywhere()
        smaller.minimise(3e-3)
        problem.n_iter += sample.n_iter
        self.begin(smaller.R, smaller.w, smaller.b, 1.0)
        self.width = smaller.width
        self._weigh()

    def _weigh(self) -> None:
        """Weights for the excesses, and the moments, from the rows whose weights have changed."""
        alpha = self.problem.caps * np.clip(self.m / self.width + 0.5, 0.0, 1.0)
        M, v = self.problem.moments(alpha - self.alpha)
        M.flat[:: len(M) + 1] -= 1.0 - self.problem.r
        self.M, self.v, self.alpha = self.M + M, self.v + v, alpha

    def certify(self) -> Certified:
        return self.problem.certify(self.alpha, self.w, self.b)

    def minimise(self, target: float) -> Certified:
        """Take Newton steps, with less and less smoothing, down to a gap of ``target``."""
        problem = self.problem
        best: Certified | None = None
        stuck = 0
        while True:
            decrement, moved = self._step()
            problem.n_iter += 1
            spent = problem.n_iter >= problem.max_iter
            if decrement > _DECREMENT * self.width * self.total and moved and not spent:
                continue
            # At its minimum the smoothed problem cannot be closer than this.
            zone = np.abs(self.m) < 0.5 * self.width
            shift = (self.m[zone] / self.width) ** 2
            least = self.width * float(problem.caps[zone] @ (0.25 - shift)) / 2.0
            if spent or least <= 2.0 * target * problem.unit or not moved:
                found = self.certify()
                problem.report(found.gap / problem.unit)
                stuck = stuck + 1 if best is not None and found.gap > 0.7 * best.gap else 0
                best = found if best is None or found.gap < best.gap else best
                if best.gap <= target * problem.unit or spent or stuck >= 2:
                    return best
            self.width *= _SHRINK
            self._weigh()

    def _step(self) -> tuple[float, bool]:
        """One Newton step; return the decrement and whether the iterate moved."""
        problem, R, w = self.problem, self.R, self.w
        kappa = _BARRIER * self.width * self.total
        excess = R.T @ self.M @ R
        excess.flat[:: problem.p + 1] -= problem.r
        pull = (2.0 * kappa / (1.0 - float(w @ w))) * w - self.v
        gradient = Direction(excess, pull, -float(problem.y @ self.alpha))
        rows = np.flatnonzero(np.abs(self.m) < 0.5 * self.width)
        zone = Zone(rows, self.width, R, w, kappa)
        step = newton_direction(problem, zone, gradient, self.rng)
        if step is None:
            return 0.0, False
        return -0.5 * gradient.dot(step), self._search(step.S, step.w, step.b)

    def _search(self, S: np.ndarray, dw: np.ndarray, db: float) -> bool:
        """Move along a direction until its slope has almost gone; False if there is no way."""
        problem = self.problem
        r, kappa = problem.r, _BARRIER * self.width * self.total
        image = self.R @ S @ self.R.T
        dm = self._change(image, dw, db)
        eigenvalues = np.linalg.eigvalsh(S)
        trace = (1.0 - r) * float(np.trace(image))
        w, caps = self.w, problem.caps
        a, half, c = float(dw @ dw), float(w @ dw), 1.0 - float(w @ w)
        longest = 1.0 / max(-float(eigenvalues[0]), 1e-300)
        if a > 0.0:
            root = np.sqrt(half * half + a * c)
            longest = min(longest, c / (half + root) if half > 0 else (root - half) / a)

        def slope_at(t: float) -> float:
            weights = caps * np.clip((self.m + t * dm) / self.width + 0.5, 0.0, 1.0)
            value = trace - r * float(np.sum(eigenvalues / (1.0 + t * eigenvalues)))
            ball = c - t * (2.0 * half + t * a)
            return value + float(weights @ dm) + 2.0 * kappa * (half + t * a) / ball

        low, at_low = 0.0, slope_at(0.0)
        if at_low >= 0.0:
            return False
        enough = 0.1 * abs(at_low)
        high, at_high = None, 0.0
        t = min(1.0, 0.95 * longest)
        for _ in range(12):
            at = slope_at(t)
            if abs(at) <= enough:
                low, at_low = t, at
                break
            if at < 0.0:
                low, at_low = t, at
                if high is None:
                    # The rest of the way to the boundary, but no more than twice as far.
                    t = min(2.0 * t, 0.5 * (t + 0.95 * longest))
                    if t - low < 0.05 * low:
                        break
                    continue
            else:
                high, at_high = t, at
            t = low + (high - low) * min(max(at_low / (at_low - at_high), 0.1), 0.9)
        if low == 0.0:
            return False
        try:
            grown = S * low
            grown.flat[:: len(S) + 1] += 1.0
            self.R = self.R @ cholesky(grown, lower=True, check_finite=False)
        except LinAlgError:
            return False
        self.w, self.b = w + low * dw, self.b + low * db
        self.m += low * dm
        self._weigh()
        return True

    def _change(self, dB: np.ndarray, dw: np.ndarray, db: float) -> np.ndarray:
        """Change of the excesses for changes of ``B``, ``w`` and ``b``."""
        problem = self.problem
        n, p = problem.F.shape
        T = np.column_stack([dB, dw])
        out = np.empty(n)

        def task(start: int, stop: int) -> None:
            rows = problem.F[start:stop]
            image = rows @ T
            np.einsum("ij,ij->i", image[:, :p], rows, out=out[start:stop])
            out[start:stop] *= problem.pi[start:stop]
            out[start:stop] -= problem.y[start:stop] * (image[:, p] + db)

        run_chunks(task, n, chunk_length(p), available_threads())
        return out
