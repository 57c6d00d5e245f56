"""Two rivals that optimise the distribution of margins, as small kernel classifiers of two classes.

The large margin distribution machine (LDM; Zhang and Zhou, KDD 2014) and the optimal margin
distribution machine (ODM; Zhang and Zhou, IEEE TKDE 2020), with ``m_i = y_i f(x_i)``::

    LDM   min  ½|w|² + λ₁ 2 Var(m) - λ₂ mean(m) + C Σ [1 - m_i]_+
    ODM   min  ½|w|² + C' Σ [1 - θ - m_i]_+² + υ C' Σ [m_i - 1 - θ]_+²,   C' = C / (1 - θ)²

Neither has a bias; a constant added to the kernel stands for one. Both report a relative gap.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import rbf_kernel

_STEPS = 200


class _TwoClasses(ClassifierMixin, BaseEstimator):
    """A classifier ``sign(Σ a_i (k(x_i, x) + 1))`` of two classes."""

    gamma: float

    def fit(self, X: Any, y: Any) -> _TwoClasses:
        """Fit the coefficients."""
        self.classes_, self.X_ = np.unique(y), np.asarray(X, dtype=float)
        sign = np.where(np.asarray(y) == self.classes_[1], 1.0, -1.0)
        self.coef_, self.dual_gap_ = self._solve(self._kernel(self.X_), sign)
        return self

    def _kernel(self, X: np.ndarray) -> np.ndarray:
        return rbf_kernel(X, self.X_, gamma=self.gamma) + 1.0

    def _solve(self, K: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
        raise NotImplementedError

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs, by which several of these vote."""
        return self._kernel(np.asarray(X, dtype=float)) @ self.coef_

    def predict(self, X: Any) -> np.ndarray:
        """Predict classes."""
        return self.classes_[(self.decision_function(X) > 0.0).astype(int)]


class Pairs(ClassifierMixin, BaseEstimator):
    """Several classes by the votes of all pairs of them, over one kernel matrix.

    Parameters
    ----------
    model : LDM or ODM
        The classifier of two classes.
    """

    def __init__(self, model: _TwoClasses):
        self.model = model

    def fit(self, X: Any, y: Any) -> Pairs:
        """Fit the coefficients of every pair."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.model.X_ = np.asarray(X, dtype=float)
        K = self.model._kernel(self.model.X_)
        self.pairs_ = list(combinations(range(len(self.classes_)), 2))
        self.coef_, gaps = np.zeros((len(self.pairs_), len(codes))), []
        for coef, (a, b) in zip(self.coef_, self.pairs_):
            rows = np.flatnonzero((codes == a) | (codes == b))
            sign = np.where(codes[rows] == b, 1.0, -1.0)
            coef[rows], gap = self.model._solve(K[np.ix_(rows, rows)], sign)
            gaps.append(gap)
        self.dual_gap_ = max(gaps)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class with the most votes, of equal ones that with the larger outputs."""
        outputs = self.model._kernel(np.asarray(X, dtype=float)) @ self.coef_.T
        votes = np.zeros((len(outputs), len(self.classes_)))
        sums = np.zeros_like(votes)
        for output, (a, b) in zip(outputs.T, self.pairs_):
            votes[:, a] += output <= 0.0
            votes[:, b] += output > 0.0
            sums[:, a] -= output
            sums[:, b] += output
        # Less than half a vote: it parts ties and nothing else.
        return self.classes_[np.argmax(votes + sums / (3.0 * (np.abs(sums) + 1.0)), axis=1)]


class ODM(_TwoClasses):
    """Optimal margin distribution machine, by Newton steps on its primal problem."""

    def __init__(
        self, C: float = 1.0, theta: float = 0.2, upsilon: float = 0.5, gamma: float = 1.0
    ):
        self.C, self.theta, self.upsilon, self.gamma = C, theta, upsilon, gamma

    def _solve(self, K: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
        penalty = self.C / (1.0 - self.theta) ** 2

        def value(outputs: np.ndarray, norm: float) -> float:
            m = y * outputs
            low, high = np.maximum(1.0 - self.theta - m, 0.0), np.maximum(m - 1.0 - self.theta, 0.0)
            return 0.5 * norm + penalty * float(low @ low + self.upsilon * high @ high)

        c, f = np.zeros(len(y)), np.zeros(len(y))
        for _ in range(_STEPS):
            m = y * f
            below, above = m < 1.0 - self.theta, m > 1.0 + self.theta
            # With fixed sides of the band the optimum is that of a ridge regression on its rows.
            rows = np.flatnonzero(below | above)
            stiff = 2.0 * penalty * np.where(below, 1.0, self.upsilon)[rows]
            target = (y * np.where(below, 1.0 - self.theta, 1.0 + self.theta))[rows]
            new = np.zeros(len(y))
            if rows.size:
                system = K[np.ix_(rows, rows)] + np.diag(1.0 / stiff)
                new[rows] = linalg.solve(system, target, assume_a="pos")
            step, image = new - c, K @ new
            length = 1.0
            start = value(f, float(c @ f))
            while length > 1e-10:
                trial_c, trial_f = c + length * step, f + length * (image - f)
                if value(trial_f, float(trial_c @ trial_f)) <= start * (1.0 + 1e-14):
                    break
                length *= 0.5
            c, f = trial_c, trial_f
            if np.abs(length * step).max() <= 1e-12 * max(1.0, np.abs(c).max()):
                break
        m = y * f
        a = (
            2.0
            * penalty
            * (
                np.maximum(1.0 - self.theta - m, 0.0)
                - self.upsilon * np.maximum(m - 1.0 - self.theta, 0.0)
            )
        )
        stiff = 2.0 * penalty * np.where(a >= 0.0, 1.0, self.upsilon)
        width = np.where(a >= 0.0, 1.0 - self.theta, 1.0 + self.theta)
        primal = value(f, float(c @ f))
        dual = float(width @ a - 0.5 * (a / stiff) @ a - 0.5 * (y * a) @ K @ (y * a))
        return c, (primal - dual) / max(primal, 1e-300)


class LDM(_TwoClasses):
    """Large margin distribution machine, by projected Newton steps on its dual problem."""

    def __init__(
        self, C: float = 1.0, lambda1: float = 1.0, lambda2: float = 1.0, gamma: float = 1.0
    ):
        self.C, self.lambda1, self.lambda2, self.gamma = C, lambda1, lambda2, gamma

    def _solve(self, K: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
        n = len(y)
        signed = y[:, None] * K * y
        centred = signed - signed.mean(axis=0)
        G = centred - centred.mean(axis=1)[:, None]
        # In signed coefficients (I + 4 λ₁ S)⁻¹ is a ↦ a - H (I/q + G)⁻¹ H signed a.
        q = 4.0 * self.lambda1 / n
        inner = linalg.solve(np.eye(n) / q + G, centred, assume_a="sym")
        inner -= inner.mean(axis=0)
        weighted = np.eye(n) - inner
        Q = signed @ weighted
        Q = 0.5 * (Q + Q.T)
        shift = np.full(n, self.lambda2 / n)
        slope = 1.0 - Q @ shift
        beta = _box(Q, slope, self.C)
        a = weighted @ (beta + shift)
        m = signed @ a
        # |w|² + 4 λ₁ wᵀSw = (β + shift)ᵀ Q (β + shift); the variance is that of the margins.
        norm = float(a @ m)
        primal = 0.5 * norm + 2.0 * self.lambda1 * float(m.var()) - self.lambda2 * float(m.mean())
        primal += self.C * float(np.maximum(1.0 - m, 0.0).sum())
        both = beta + shift
        dual = float(beta.sum() - 0.5 * both @ Q @ both)
        return y * a, (primal - dual) / max(abs(primal), abs(dual), 1e-300)


def _box(Q: np.ndarray, slope: np.ndarray, C: float) -> np.ndarray:
    """Maximise ``slope·β - ½ βᵀQβ`` with ``0 <= β <= C`` (Bertsekas 1982)."""
    beta, ridge = np.zeros(len(slope)), 1e-12 * float(np.trace(Q)) / len(slope)
    for _ in range(_STEPS):
        gradient = slope - Q @ beta
        stuck = ((beta <= 0.0) & (gradient <= 0.0)) | ((beta >= C) & (gradient >= 0.0))
        free = np.flatnonzero(~stuck)
        if not free.size or np.abs(gradient[free]).max() <= 1e-10:
            break
        step = _solved(Q[np.ix_(free, free)], ridge, gradient[free])
        length, best = 1.0, slope @ beta - 0.5 * beta @ Q @ beta
        while length > 1e-10:
            trial = beta.copy()
            trial[free] = np.clip(beta[free] + length * step, 0.0, C)
            if slope @ trial - 0.5 * trial @ Q @ trial >= best + 1e-4 * gradient @ (trial - beta):
                break
            length *= 0.5
        if np.array_equal(trial, beta):
            break
        beta = trial
    return beta


def _solved(block: np.ndarray, ridge: float, right: np.ndarray) -> np.ndarray:
    """Solve with the least ridge, by tens, that makes the block positive definite.

    Rows that occur twice, as in sets of few distinct ones, leave it singular.
    """
    while True:
        try:
            factor = linalg.cho_factor(block + ridge * np.eye(len(block)))
        except linalg.LinAlgError:
            ridge *= 10.0
        else:
            return linalg.cho_solve(factor, right)
