"""A-optimal weights of landmarks, with a certificate.

Given landmarks ``v_j``, a moment matrix ``G = Σ x x'`` and ``0 <= D < 1``, solve ::

    min_p  a(p) = tr(M(p)^-1 G) + rest / (1 - D),   M(p) = (1 - D) I + D Σ_j p_j v_j v_j'

over the weights ``p >= 0`` with ``Σ p = 1``. The constant ``rest`` is the part of ``tr G``
outside the span of the landmarks, where ``M`` is a multiple of the identity. Bounds on the
complexity of the relative margin class come down to this problem (Shivaswamy and Jebara, Journal
of Machine Learning Research 11, 2010, theorem 10): its multipliers are ``p`` times a factor that
has a closed form, so no semidefinite program is needed.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

# Exchanges between two evaluations from scratch: updates of rank two lose digits slowly.
_EXCHANGES = 20
# A share of mass below this is as good as none.
_ZERO_MASS = 1e-14
# Rounds without progress after which rounding has the last word.
_PATIENCE = 100


@dataclass(frozen=True)
class DesignResult:
    """Weights of an A-optimal design.

    Attributes
    ----------
    weights : ndarray of shape (n_landmarks,)
        The weights ``p``.
    objective : float
        Value ``a(p)``, an upper bound of the minimum.
    lower_bound : float
        ``a(p)² / max_j d_j``, a lower bound of the minimum.
    n_iter : int
        Rounds of a multiplicative step and some exchanges.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped; ``"stalled"`` means that rounding allows no further progress.
    """

    weights: np.ndarray
    objective: float
    lower_bound: float
    n_iter: int
    status: str

    @property
    def gap(self) -> float:
        """Objective minus lower bound, relative to the objective."""
        if self.objective == 0.0:
            return 0.0
        return (self.objective - self.lower_bound) / self.objective


def solve_optimal_design(
    V: np.ndarray,
    G: np.ndarray,
    D: float,
    *,
    rest: float = 0.0,
    tol: float = 1e-10,
    max_iter: int = 10_000,
) -> DesignResult:
    """Minimise ``tr(M(p)^-1 G) + rest / (1 - D)`` over weights ``p`` of the landmarks.

    Rounds of two kinds of steps, both of which only ever lower the objective. With
    ``N = M^-1 G M^-1`` and ``d_j = (1 - D) tr N + D v_j'N v_j``, so that ``Σ p_j d_j = a``, a
    multiplicative step sets ``p_j ∝ p_j √d_j``; it finds the region of the optimum fast but
    empties weights slowly. Exchanges move mass from the weighted landmark of smallest ``d`` to
    the landmark of largest ``d``, by the best amount, which is a root of a quadratic. The
    Cauchy-Schwarz inequality gives ``a(q) >= a(p)² / Σ q_j d_j`` for every ``q``, hence the
    certificate.

    Parameters
    ----------
    V : ndarray of shape (n_landmarks, r)
        Landmarks.
    G : ndarray of shape (r, r)
        Moment matrix, positive semidefinite.
    D : float
        Weight of the landmarks in ``M``, in [0, 1).
    rest : float, default=0.0
        Trace of the moments outside the span of the landmarks.
    tol : float, default=1e-10
        Largest relative gap.
    max_iter : int, default=10_000
        Limit on rounds.

    Returns
    -------
    DesignResult
        The weights, the value and its certificate.
    """
    search = _Search(V, G, D, rest)
    # Every exchange empties one landmark at most, so that many landmarks need many of them.
    exchanges = _EXCHANGES + V.shape[0] // 10
    best, idle, n_iter = np.inf, 0, 0
    search.evaluate()
    while True:
        if search.gap <= tol and not search.fresh:
            search.evaluate()
        if search.gap <= tol:
            status = "converged"
            break
        idle = 0 if search.gap < 0.999 * best else idle + 1
        best = min(best, search.gap)
        if idle > _PATIENCE or n_iter >= max_iter:
            status = "stalled" if idle > _PATIENCE else "max_iter"
            search.evaluate()
            break
        search.multiply()
        search.evaluate()
        for _ in range(exchanges):
            if not search.exchange():
                break
        n_iter += 1
    return DesignResult(search.p, search.a, search.lower_bound, n_iter, status)


class _Search:
    """The weights, and what follows from them."""

    def __init__(self, V: np.ndarray, G: np.ndarray, D: float, rest: float) -> None:
        self.V, self.G, self.D, self.rest = V, G, D, rest
        self.p = np.full(V.shape[0], 1.0 / V.shape[0])
        self.work = np.empty(G.shape)

    def evaluate(self) -> None:
        """Factor ``M`` and recompute everything from the weights."""
        V, D = self.V, self.D
        M = D * (V.T * self.p) @ V
        M.flat[:: M.shape[0] + 1] += 1.0 - D
        factor = cho_factor(M, lower=True, check_finite=False)
        self.inverse = cho_solve(factor, np.eye(M.shape[0]), check_finite=False)
        image = self.inverse @ self.G
        self.N = image @ self.inverse
        self.a = float(np.trace(image)) + self.rest / (1.0 - D)
        self.t = np.einsum("ij,ij->i", V @ self.N, V)
        self.fresh = True

    @property
    def d(self) -> np.ndarray:
        """The sensitivities, whose mean under the weights is the objective."""
        bar = 1.0 - self.D
        return bar * np.trace(self.N) + self.rest / bar + self.D * self.t

    @property
    def lower_bound(self) -> float:
        highest = float(self.d.max())
        # Rounding aside, the largest d is at least the mean of them, which is a.
        return self.a * min(1.0, self.a / highest) if highest > 0 else 0.0

    @property
    def gap(self) -> float:
        return 1.0 - self.lower_bound / self.a if self.a > 0 else 0.0

    def multiply(self) -> None:
        """Take a multiplicative step."""
        p = self.p * np.sqrt(np.maximum(self.d, 0.0) / self.a)
        self.p = p / p.sum()

    def exchange(self) -> bool:
        """Move mass between two landmarks; tell whether there was any to move."""
        k = int(self.t.argmax())
        active = np.flatnonzero(self.p > 0)
        j = int(active[self.t[active].argmin()])
        pair = self.V[[k, j]]
        W, Y = pair @ self.inverse, pair @ self.N
        S, T = W @ pair.T, Y @ pair.T
        # Moving τ / D lowers a by τ (α - β τ) / (1 + σ τ - Δ τ²).
        alpha = T[0, 0] - T[1, 1]
        if alpha <= 0.0:
            return False
        beta = S[1, 1] * T[0, 0] + S[0, 0] * T[1, 1] - 2.0 * S[0, 1] * T[0, 1]
        sigma = S[0, 0] - S[1, 1]
        delta = S[0, 0] * S[1, 1] - S[0, 1] ** 2
        whole = self.D * self.p[j]
        tau = min(_first_root(alpha, beta, alpha * delta - beta * sigma), whole)
        if tau < _ZERO_MASS * self.D:
            return False
        self.p[k] += tau / self.D
        self.p[j] = 0.0 if tau == whole else self.p[j] - tau / self.D
        self.a -= tau * (alpha - beta * tau) / (1.0 + sigma * tau - delta * tau**2)
        # M += τ (v_k v_k' - v_j v_j'), carried to its inverse and to N by updates of rank two.
        core = tau * np.linalg.inv(np.diag([1.0, -1.0]) + tau * S)
        move = core @ W
        np.matmul(W.T, move, out=self.work)
        self.inverse -= self.work
        left, right = np.vstack([Y, move]), np.vstack([move, Y - T @ move])
        np.matmul(left.T, right, out=self.work)
        self.N -= self.work
        self.t -= np.einsum("ij,ij->i", self.V @ left.T, self.V @ right.T)
        self.fresh = False
        return True


def _first_root(alpha: float, beta: float, gamma: float) -> float:
    """Find the smallest positive root of ``α - 2βτ + γτ²``, infinite if there is none."""
    discriminant = beta * beta - alpha * gamma
    if discriminant < 0.0:
        return np.inf
    bottom = beta + np.sqrt(discriminant)
    return alpha / bottom if bottom > 0.0 else np.inf
