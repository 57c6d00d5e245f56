"""The Bayes point: the mean of all weight vectors that agree with the labels.

For the prior ``w ~ N(0, I)``, outputs ``f = Fw`` and labels ``y``, the posterior is ::

    p(w) ∝ N(w; 0, I) Π_i Φ(y_i f_i / √λ),     or    N(w; 0, I) Π_i 1[y_i f_i > 0]   for λ = 0.

Without slack (``λ = 0``) its mean has the direction of the centre of mass of the version space on
the sphere. With slack it is what the kernel matrix ``K + λI`` in the place of ``K = FF'`` gives.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import eigh

from oblong._core.progress import ProgressCallback
from oblong.solvers.bayes_point.options import DEFAULTS, BayesPointOptions
from oblong.solvers.bayes_point.propagation import propagate
from oblong.solvers.bayes_point.sampling import sample
from oblong.solvers.bayes_point.sites import find_sites, interior_direction, signed_outputs


@dataclass(frozen=True)
class BayesPointResult:
    """The Bayes point and the spread about it.

    Attributes
    ----------
    w : ndarray of shape (p,)
        Mean of the posterior; zero if the version space is empty.
    root : ndarray of shape (p, p)
        ``R`` with the covariance ``R R'``.
    log_evidence : float
        Logarithm of the probability of the labels; without slack, of the fraction of the sphere
        in the version space. NaN for the sampler.
    residual : float
        By expectation propagation, the largest disagreement of moments; by sampling, the
        estimated error of ``w`` over its length.
    n_iter : int
        Sweeps, or steps of each chain.
    status : {"converged", "max_iter", "few_samples", "empty"}
        ``"empty"`` if no weight vector agrees with the labels.
    """

    w: np.ndarray
    root: np.ndarray
    log_evidence: float
    residual: float
    n_iter: int
    status: str


def solve_bayes_point(
    F: np.ndarray,
    y: np.ndarray,
    *,
    soft: float = 0.0,
    method: str = "ep",
    weights: np.ndarray | None = None,
    tol: float = 1e-5,
    max_iter: int = 1000,
    n_samples: int = 10_000,
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
    options: BayesPointOptions = DEFAULTS,
) -> BayesPointResult:
    """Find the Bayes point.

    Parameters
    ----------
    F : ndarray of shape (n, p)
        Feature vectors.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    soft : float, default=0.0
        Variance ``λ`` of the slack.
    method : {"ep", "sampling"}, default="ep"
        Expectation propagation, or random walks.
    weights : ndarray of shape (n,), default=None
        Weights. A row of weight two counts as two rows, which without slack is no more than one.
    tol : float, default=1e-5
        Largest disagreement of moments, for expectation propagation.
    max_iter : int, default=1000
        Limit on its sweeps.
    n_samples : int, default=10000
        Draws of the sampler.
    rng : numpy.random.Generator, default=None
        Source of randomness of the sampler.
    progress : callable, optional
        Receives reports.
    options : BayesPointOptions
        Settings of the methods.

    Returns
    -------
    BayesPointResult
        The mean and the covariance.
    """
    n, p = F.shape
    sites = find_sites(F, y, soft, np.ones(n) if weights is None else weights, options)
    if sites.y.size == 0:
        # No row says anything: the posterior is the prior.
        return BayesPointResult(np.zeros(p), np.eye(p), 0.0, 0.0, 0, "converged")
    sampling = method == "sampling"
    run = partial(
        propagate,
        sites,
        tol=options.start_tol if sampling else tol,
        max_iter=options.start_sweeps if sampling else max_iter,
        progress=None if sampling else progress,
        options=options,
    )
    found = run()
    inside: np.ndarray | None = found.w
    if sites.hard and not signed_outputs(sites, found.w).min() > 0.0:
        inside = interior_direction(sites, found.w, options)
        if inside is None:
            zero = np.zeros(p)
            return BayesPointResult(zero, np.eye(p), -np.inf, np.inf, found.n_iter, "empty")
        if found.status == "collapsed":
            found = run(damping=options.careful_damping, watch=False)
    if sampling:
        rng = np.random.default_rng() if rng is None else rng
        assert inside is not None
        drawn = sample(
            sites, inside, found, n_samples, rng, options.sampling_tol, progress, options
        )
        values, vectors = eigh(drawn.covariance, check_finite=False)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        status = "converged" if drawn.standard_error <= options.sampling_tol else "few_samples"
        return BayesPointResult(drawn.w, root, np.nan, drawn.standard_error, drawn.n_iter, status)
    return BayesPointResult(
        found.w, found.root(), found.log_evidence, found.residual, found.n_iter, found.status
    )
