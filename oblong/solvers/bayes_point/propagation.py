"""Expectation propagation: a Gaussian with the moments that each factor asks for.

The posterior ``N(w; 0, I) Π Φ(y_i f_i / √λ_i)`` with ``f = Fw`` is approximated by a Gaussian in
which every factor is replaced by ``exp(-τ_i f_i²/2 + ν_i f_i)``. With the others in place, the mean
and the variance of ``f_i`` under the true factor are known in closed form; ``τ_i`` and ``ν_i`` are
right when the Gaussian has the same (Minka, Expectation Propagation for Approximate Bayesian
Inference, UAI 2001).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dtrtri
from scipy.special import erfcx, log_ndtr

from oblong._core.progress import Progress, ProgressCallback
from oblong._core.threads import chunks, own_threads_only, released_blas
from oblong.linalg.feature_map import row_norms
from oblong.linalg.gram import lower_gram
from oblong.solvers.bayes_point.options import DEFAULTS, BayesPointOptions
from oblong.solvers.bayes_point.sites import Sites


@dataclass(frozen=True)
class Propagated:
    """The Gaussian that was found.

    Attributes
    ----------
    w : ndarray of shape (p,)
        Its mean.
    factor : ndarray of shape (p, p)
        Lower triangular ``L``, with the covariance ``(L L')^-1``.
    tau, nu : ndarray of shape (m,)
        The factors, each for all of its copies.
    log_evidence : float
        Logarithm of the probability of the labels.
    residual : float
        Largest difference of a mean, over its standard deviation, or of a variance, over itself.
    n_iter : int
        Sweeps.
    status : {"converged", "max_iter", "collapsed"}
        ``"collapsed"``: the factors seem to contradict each other.
    """

    w: np.ndarray
    factor: np.ndarray
    tau: np.ndarray
    nu: np.ndarray
    log_evidence: float
    residual: float
    n_iter: int
    status: str

    def root(self) -> np.ndarray:
        """``R = L'^-1``, with the covariance ``R R'``."""
        inverse, _ = dtrtri(self.factor, lower=1)
        return np.tril(inverse).T


@own_threads_only()
def propagate(
    sites: Sites,
    *,
    tol: float,
    max_iter: int,
    damping: float | None = None,
    watch: bool = True,
    progress: ProgressCallback | None = None,
    options: BayesPointOptions = DEFAULTS,
) -> Propagated:
    """Match the moments of all factors, in parallel sweeps.

    Parameters
    ----------
    sites : Sites
        The factors.
    tol : float
        Largest residual.
    max_iter : int
        Limit on the sweeps.
    damping : float, optional
        Step to begin with, at most one; by default that of the options.
    watch : bool, default=True
        Whether to stop when the Gaussian collapses.
    progress : callable, optional
        Receives a report after every sweep.
    options : BayesPointOptions
        Settings.

    Returns
    -------
    Propagated
        The Gaussian.
    """
    damping = options.damping if damping is None else damping
    m, p = sites.F.shape
    y, copies, noise = sites.y, sites.copies, sites.noise
    tau, nu = np.zeros(m), np.zeros(m)
    most = options.narrowest / row_norms(sites.F) ** 2
    last, status = np.inf, "max_iter"
    for sweep in range(1, max_iter + 1):
        L, w = _posterior(sites.F, copies * tau, copies * nu, options.chunk_values)
        mean, variance = _marginals(sites.F, L, w, options.chunk_values)
        # The moments without one copy of the factor.
        left = np.maximum(1.0 - tau * variance, np.finfo(float).eps)
        s2, c = variance / left, (mean - variance * nu) / left
        spread = np.sqrt(s2 + noise)
        u = y * c / spread
        hazard, rest = normal_hazard(u, options.far_tail)
        scale = noise + s2 * rest
        new_tau = (1.0 - rest) / scale
        new_nu = (y * hazard * spread + (1.0 - rest) * c) / scale
        shift = np.abs(c + y * s2 * hazard / spread - mean) / np.sqrt(variance)
        # Of ratios: products of two variances overflow for rows of 1e100.
        stretch = np.abs((s2 / spread**2) * (scale / variance) - 1.0)
        residual = float(max(shift.max(), stretch.max()))
        if progress is not None:
            progress(Progress("expectation propagation", sweep, residual, tol))
        if residual <= tol:
            status = "converged"
            break
        # E|w|² = |w|² + tr (L L')^-1, and the trace is p less what the factors take.
        moment = float(w @ w) + p - float((copies * tau) @ variance)
        narrow = new_tau > most
        if watch and sites.hard and (narrow.any() or moment < options.collapsed * p):
            status = "collapsed"
            break
        if narrow.any():
            new_nu[narrow] *= most[narrow] / new_tau[narrow]
            new_tau[narrow] = most[narrow]
        if sweep > options.free_sweeps and residual > last:
            damping = max(options.least_damping, options.damping_factor * damping)
        last = residual
        if sweep < max_iter:
            tau = tau + damping * (new_tau - tau)
            nu = nu + damping * (new_nu - nu)
    constants = log_ndtr(u) + 0.5 * np.log1p(tau * s2)
    constants -= 0.5 * (nu**2 * s2 + 2.0 * nu * c - c**2 * tau) / (1.0 + tau * s2)
    evidence = copies @ constants - np.log(L.diagonal()).sum() + 0.5 * (copies * nu) @ mean
    return Propagated(w, L, copies * tau, copies * nu, float(evidence), residual, sweep, status)


def normal_hazard(
    u: np.ndarray, far_tail: float = BayesPointOptions.far_tail
) -> tuple[np.ndarray, np.ndarray]:
    """``ρ = N(u)/Φ(u)``, and ``1 - ρ(ρ + u)``: the variance left of a normal cut off at ``-u``."""
    hazard = np.sqrt(2.0 / np.pi) / erfcx(-u / np.sqrt(2.0))
    rest = 1.0 - hazard * (hazard + u)
    far = u < far_tail
    squares = u[far] ** -2.0
    rest[far] = squares * (1.0 - squares * (6.0 - 50.0 * squares))
    return hazard, rest


def _posterior(
    F: np.ndarray, tau: np.ndarray, nu: np.ndarray, chunk_values: int
) -> tuple[np.ndarray, np.ndarray]:
    """Factor of ``I + F' diag(τ) F``, and the mean ``(I + F' diag(τ) F)^-1 F'ν``."""
    p = F.shape[1]
    M, h = np.eye(p, order="F"), np.zeros(p)
    roots = np.sqrt(tau)
    for start, stop in chunks(len(F), max(1, chunk_values // p)):
        part = F[start:stop] * roots[start:stop, None]
        with released_blas(p):
            M = lower_gram(part.T, add_to=M)
        h += nu[start:stop] @ F[start:stop]
    with released_blas(p):
        L = cholesky(M, lower=True, overwrite_a=True, check_finite=False)
    return L, cho_solve((L, True), h, check_finite=False)


def _marginals(
    F: np.ndarray, L: np.ndarray, w: np.ndarray, chunk_values: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the outputs."""
    mean, variance = np.empty(len(F)), np.empty(len(F))
    for start, stop in chunks(len(F), max(1, chunk_values // F.shape[1])):
        part = F[start:stop].astype(np.float64, copy=False)
        mean[start:stop] = part @ w
        with released_blas(len(L)):
            white = solve_triangular(L, part.T, lower=True, check_finite=False)
        variance[start:stop] = np.einsum("ij,ij->j", white, white)
    return mean, variance
