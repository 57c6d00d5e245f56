"""An interior point method for many support vector machines over the same rows on a device.

Pair steps crawl where most coefficients end inside their boxes: few columns and large penalties.
There all problems take Mehrotra's primal-dual steps side by side. Their linear systems are
solved by conjugate gradients, so that the products of all problems of a kernel matrix with it are
one product of matrices. Arrays have a line per row and a column per problem; the columns of one
matrix are next to each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oblong._core.threads import chunks
from oblong.solvers.margin.batch.cuda_newton import solve_definite

if TYPE_CHECKING:
    from oblong.solvers.margin.batch.cuda_matrix import DeviceMatrix

__all__ = ["BoxSolver"]

# Steps of the method, and of conjugate gradients in each of them, at most.
_STEPS, _GRADIENTS = 50, 200
# Steps of conjugate gradients between two looks at the residuals.
_CHECK = 3
# Share of the way to the boundary that a step goes.
_WAY = 0.99
# Shares of the tolerance to which residuals are brought, and the multipliers of coefficients that
# are neither inside nor at an end: complementarity over the cap is the square of the latter.
_SHARE, _ENDS = 0.1, 0.03
# Residuals that steps and their predictors may leave, over such multipliers at the time.
_ROUGH, _ROUGHER = 1.0, 3.0
# Least factor of complementarity that a step aims at.
_BOLD = 1e-3
# Ridge of the landmarks over the mean diagonal, and least diagonal that they miss over its mean.
_RIDGE, _FLOOR = 1e-8, 0.1
# Bytes of the products that make the small matrices.
_BLOCK_BYTES = 1 << 31


class BoxSolver:
    """Support vector machines ``min ½c'Kc - y'c, Σc = 0, c_i between 0 and cap_i``.

    Of several matrices that are alike, such as those of folds, the first makes the preconditioner,
    and steps are solved with it before they are solved with the matrix of each problem:
    one product serves all problems then. ``missed_share`` is the share of its diagonal that the
    landmarks miss, infinite if it is not definite.

    Parameters
    ----------
    matrix : DeviceMatrix
        One whole matrix in double precision, or several.
    landmarks : int
        Rows by which the preconditioner approximates them, a multiple of ``panel``.
    panel : int
        See :func:`~oblong.solvers.margin.batch.cuda_newton.solve_definite`.
    first : int, default=0
        Which of several matrices is the first.
    """

    def __init__(self, matrix: DeviceMatrix, landmarks: int, panel: int, first: int = 0) -> None:
        self.matrix, self.arrays, self.K = matrix, matrix.arrays, matrix.matrix(first)
        self.xp, self.panel, self.r = self.arrays.module, panel, landmarks
        # The matrices, and the columns of each.
        self.parts: list[tuple[int, slice]] = []
        n, linalg, K, arrays = len(self.K), self.xp.linalg, self.K, self.arrays
        chosen = arrays.put(np.arange(landmarks) * n // landmarks)
        columns, diagonal = K[:, chosen], K.diagonal()
        self.unit = arrays.put(np.eye(landmarks))
        ridge = _RIDGE * float(diagonal.mean())
        self.missed_share = np.inf
        try:
            factor = linalg.cholesky(columns[chosen] + ridge * self.unit)
        except (np.linalg.LinAlgError, RuntimeError):
            # The matrix that was given is indefinite; PyTorch has a RuntimeError of its own.
            return
        # K ~ ZZ' + diag(missed), exact on the landmarks and on the diagonal.
        self.Z = columns @ linalg.inv(factor).T
        missed = self.xp.clip(diagonal - (self.Z * self.Z).sum(axis=1), 0.0, None)
        self.missed_share = float(missed.mean() / diagonal.mean())
        self.missed = self.xp.clip(missed, max(ridge, _FLOOR * float(missed.mean())), None)

    def _split(self, which: np.ndarray) -> None:
        kinds, starts = np.unique(which, return_index=True)
        ends = [*starts[1:].tolist(), which.size]
        places = map(slice, starts.tolist(), ends)
        self.parts = list(zip(kinds.tolist(), places))

    def _product(self, x: Any) -> Any:
        """Products of all columns with their matrices."""
        parts = [self.matrix.matrix(k) @ x[:, part] for k, part in self.parts]
        return parts[0] if len(parts) == 1 else self.xp.concatenate(parts, axis=1)

    def _rough_product(self, x: Any) -> Any:
        """Products of all columns with the first matrix."""
        return self.K @ x

    def solve(self, cap: Any, which: np.ndarray, tol: float) -> tuple[Any, Any, np.ndarray]:
        """Return coefficients, their images, and the violations of the optimality conditions.

        Parameters
        ----------
        cap : array of shape (n, m)
            Signed caps; zero for rows that a problem does not have.
        which : int ndarray of shape (m,)
            The matrix of each problem, ascending.
        tol : float
            Largest violation that is asked for. It is not promised.
        """
        xp = self.xp
        low, high, y = xp.clip(cap, None, 0.0), xp.clip(cap, 0.0, None), xp.sign(cap)
        on, scale = xp.abs(y), xp.abs(cap).sum(axis=0) / xp.abs(y).sum(axis=0)
        self._split(which)
        c, b, at_low, at_high = self._central(low, high, y, on, scale, which, tol)
        self._split(which)
        c = xp.where(at_low, low, xp.where(at_high, high, xp.clip(c, low, high)))
        return self._finish(c, b, low, high, y, tol)

    def _central(
        self, low: Any, high: Any, y: Any, on: Any, scale: Any, which: np.ndarray, tol: float
    ) -> tuple[Any, ...]:
        """Follow the central path; return coefficients, biases, and which end at either end.

        Complementarity tells: there multipliers are larger than distances over caps.
        """
        xp = self.xp
        positive, negative = high.sum(axis=0), -low.sum(axis=0)
        least = xp.minimum(positive, negative)
        c = high * (least / positive) + low * (least / negative)
        u = self._product(c)
        far = xp.clip(xp.abs(c).sum(axis=0) / (c * u).sum(axis=0), 1e-3, 0.5)
        c, u = far * c, far * u
        lower, upper = (
            (xp.clip(u - y, 0.0, None) + 1.0) * on,
            (xp.clip(y - u, 0.0, None) + 1.0) * on,
        )
        # Distances to the ends; rows that are not there are at a distance of one.
        s, w = (c - low) + (1.0 - on), (high - c) + (1.0 - on)
        b = 0.0 * scale
        count, least_mu = 2.0 * on.sum(axis=0), (_ENDS * tol) ** 2 * scale
        left, columns, ends = np.arange(len(scale)), [], []

        def longest(way: float, step: Any, d_lower: Any, d_upper: Any) -> Any:
            """Return a share of the largest step that stays inside, or a whole one."""
            pace = xp.maximum(-step / s, step / w)
            for value, change in ((lower, d_lower), (upper, d_upper)):
                pace = xp.maximum(pace, -change / (value + (1.0 - on)))
            return 1.0 / xp.clip(xp.amax(pace, axis=0) / way, 1.0, None)

        for _ in range(_STEPS):
            mu = (s * lower + w * upper).sum(axis=0) / count
            residual = (u - y + b - lower + upper) * on
            done = (mu <= least_mu) & (xp.amax(xp.abs(residual), axis=0) <= 2.0 * _SHARE * tol)
            finished = self.arrays.get(done)
            if finished.all():
                break
            if 4 * finished.sum() >= finished.size:
                ended = self.arrays.put(np.flatnonzero(finished))
                columns.append(left[finished])
                ends.append([a[..., ended] for a in (c, b, lower * scale > s, upper * scale > w)])
                self._split(which[left[~finished]])
                left, going = left[~finished], self.arrays.put(np.flatnonzero(~finished))
                low, high, y, on, scale, count, least_mu, b, c, u, s, w, lower, upper = (
                    a[..., going]
                    for a in (
                        low, high, y, on, scale, count, least_mu, b, c, u, s, w, lower, upper
                    )
                )  # fmt: skip
                continue
            theta = lower / s + upper / w
            goal, total = -residual - lower + upper, -c.sum(axis=0)
            wanted = xp.clip(_ROUGH * xp.sqrt(mu / scale), _SHARE * tol, None)
            solve = self._newton(theta, on, total)
            # The predictor: how far complementarity falls, and which products a step leaves.
            step, _ = solve(goal, _ROUGHER * wanted, ~done, None, self._rough_product)
            d_lower, d_upper = -lower * (step / s + on), upper * (step / w - on)
            length = longest(1.0, step, d_lower, d_upper)
            left_over = (s + length * step) * (lower + length * d_lower)
            left_over = left_over + (w - length * step) * (upper + length * d_upper)
            aim = xp.clip((left_over.sum(axis=0) / count / mu) ** 3, _BOLD, 1.0) * mu
            aim = xp.maximum(aim, 0.01 * least_mu)
            at_lower, at_upper = aim - step * d_lower, aim + step * d_upper
            goal = goal + (at_lower / s - at_upper / w) * on
            if len(self.parts) > 1:
                step, _ = solve(goal, wanted, ~done, step, self._rough_product)
            step, db = solve(goal, wanted, ~done, step)
            d_lower = ((at_lower - lower * step) / s - lower) * on
            d_upper = ((at_upper + upper * step) / w - upper) * on
            length = xp.where(done, 0.0, longest(_WAY, step, d_lower, d_upper))
            c, s, w = c + length * step, s + length * step, w - length * step
            b = b + length * db
            lower, upper = lower + length * d_lower, upper + length * d_upper
            u = self._product(c)
        columns.append(left)
        ends.append([c, b, lower * scale > s, upper * scale > w])
        order = self.arrays.put(np.argsort(np.concatenate(columns)))
        return tuple(xp.concatenate(parts, axis=-1)[..., order] for parts in zip(*ends))

    def _finish(
        self, c: Any, b: Any, low: Any, high: Any, y: Any, tol: float
    ) -> tuple[Any, Any, np.ndarray]:
        """Solve the equations of the coefficients inside once more, with sums of zero."""
        xp = self.xp
        free = 1.0 * ((c > low) & (c < high))
        goal = (y - self._product(c) - b) * free
        every = b == b
        solve = self._newton(0.0 * c, free, -c.sum(axis=0))
        step, _ = solve(goal, _SHARE * tol + 0.0 * b, every, None)
        c = xp.clip(c + step, low, high)
        # What that took from the sums comes back from all that are inside, by the room they have.
        excess = c.sum(axis=0)
        room = xp.where(excess > 0.0, c - low, high - c) * ((c > low) & (c < high))
        c = c - room * (excess / xp.clip(room.sum(axis=0), 1e-300, None))
        u = self._product(c)
        right, left = xp.where(c < high, y - u, -np.inf), xp.where(c > low, y - u, np.inf)
        return c, u, self.arrays.get(xp.amax(right, axis=0) - xp.amin(left, axis=0))

    def _newton(self, theta: Any, on: Any, total: Any) -> Any:
        """Return what solves ``(K + diag(theta)) x + b 1 = goal, Σx = total`` on rows ``on``.

        It takes goals, the residuals at which columns end, which columns are live, the others
        being left unsolved, and a start or None.
        """
        xp = self.xp
        apply = self._preconditioner(on / (theta + self.missed[:, None]))
        ones = apply(on)
        weight = ones.sum(axis=0)

        def solve(
            goal: Any, wanted: Any, live: Any, x: Any, product: Any = self._product
        ) -> tuple[Any, Any]:
            x = ones * (total / weight) if x is None else x
            r = goal - product(x) * on - theta * x
            p = before = None
            for k in range(_GRADIENTS):
                z = apply(r)
                b = z.sum(axis=0) / weight
                z = z - ones * b
                now = (r * z).sum(axis=0)
                live = live & (now > 0.0)
                if k % _CHECK == 0:
                    live = live & (xp.amax(xp.abs(r - b) * on, axis=0) > wanted)
                    if not bool(live.any()):
                        break
                p = z if p is None else z + xp.where(live, now / before, 0.0) * p
                direction = product(p) * on + theta * p
                a = xp.where(live, now / (p * direction).sum(axis=0), 0.0)
                x, r, before = x + a * p, r - a * direction, xp.where(live, now, 1.0)
            return x, b

        return solve

    def _preconditioner(self, inverse: Any) -> Any:
        """Return the function that solves ``(ZZ' + diag(1 / inverse)) x = v``, by Woodbury."""
        xp, Z, r = self.xp, self.Z, self.r
        small = self.arrays.empty((inverse.shape[1], r, r), np.float64)
        for first, last in chunks(len(small), max(1, _BLOCK_BYTES // (8 * Z.shape[0] * r))):
            A = (Z.T[None] * inverse.T[first:last, None]) @ Z + self.unit
            rhs = xp.zeros_like(A) + self.unit
            small[first:last] = solve_definite(self.matrix, self.panel, A, rhs)

        def apply(v: Any) -> Any:
            some = inverse * v
            inner = (small @ (Z.T @ some).T[:, :, None])[:, :, 0]
            return some - inverse * (Z @ inner.T)

        return apply
