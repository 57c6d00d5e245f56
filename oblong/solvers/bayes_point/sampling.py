"""Random walks through a version space, along ellipses.

For the prior ``N(0, I)`` and two independent draws ``w`` and ``v`` from it, every point
``w cos θ + v sin θ`` of their ellipse is a draw, too. In a cone ``Gw > 0`` those that are inside
have angles in one interval, from which the next is drawn uniformly: nothing is ever rejected
(elliptical hit-and-run). Alone it is slow where the cone is long and thin. So every step is
followed by one along an ellipse of the Gaussian of expectation propagation, which has the shape of
the cone. The points of that ellipse have weights, and slice sampling takes care of them (Murray,
Adams and MacKay, "Elliptical slice sampling", 2010). With slack, integrated out, there are only
steps of the second kind. Several chains walk at once, by matrix products.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, log_ndtr

from oblong._core.progress import Progress, ProgressCallback
from oblong.solvers.bayes_point.options import DEFAULTS, BayesPointOptions
from oblong.solvers.bayes_point.propagation import Propagated
from oblong.solvers.bayes_point.sites import Sites

_TINY = 1e-300


@dataclass(frozen=True)
class Sampled:
    """Moments of the draws.

    Attributes
    ----------
    w : ndarray of shape (p,)
        Mean.
    covariance : ndarray of shape (p, p)
        Covariance.
    standard_error : float
        Estimated error of the mean, over its length: the angle of its direction's error.
    n_iter : int
        Steps of each chain.
    """

    w: np.ndarray
    covariance: np.ndarray
    standard_error: float
    n_iter: int


def sample(
    sites: Sites,
    start: np.ndarray,
    guide: Propagated,
    n_samples: int,
    rng: np.random.Generator,
    tol: float,
    progress: ProgressCallback | None = None,
    options: BayesPointOptions = DEFAULTS,
) -> Sampled:
    """Average over draws of the weight vector.

    Parameters
    ----------
    sites : Sites
        The factors of the likelihood.
    start : ndarray of shape (p,)
        Where all chains start; without slack, a point inside the version space.
    guide : Propagated
        A Gaussian that is about right.
    n_samples : int
        Draws to average, over all chains; a quarter as many go before them.
    rng : numpy.random.Generator
        Source of randomness.
    tol : float
        Error that is reported as the target.
    progress : callable, optional
        Receives a report now and then.
    options : BayesPointOptions
        Settings.

    Returns
    -------
    Sampled
        The moments.
    """
    chains = options.chains
    p = sites.F.shape[1]
    G = sites.F.astype(np.float64, copy=False) * sites.y[:, None]
    weight = _weight(sites, guide)
    root, centre = guide.root(), guide.w
    image = G @ centre
    steps = -(-n_samples // chains)
    warm_up = int(np.ceil(options.warm_up * steps))
    W = np.tile(start, (chains, 1))
    A = W @ G.T
    sums, squares = np.zeros((chains, p)), np.zeros((p, p))
    for t in range(-warm_up, steps):
        if sites.hard:
            V = rng.normal(size=(chains, p))
            B = V @ G.T
            angle = _cone_step(A, B, rng)
            cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
            W, A = W * cosine + V * sine, A * cosine + B * sine
        V = rng.normal(size=(chains, p)) @ root.T
        B = V @ G.T
        angle = _slice_step(A - image, B, image, weight, rng, options.no_angle)
        cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
        W = centre + (W - centre) * cosine + V * sine
        refresh = (t + warm_up) % options.refresh == options.refresh - 1
        A = W @ G.T if refresh else image + (A - image) * cosine + B * sine
        if t < 0:
            continue
        # In a cone, length and direction are independent, and the moments of the length known.
        draws = W / np.linalg.norm(W, axis=1, keepdims=True) if sites.hard else W
        sums += draws
        squares += draws.T @ draws
        if progress is not None and (t + 1) % max(1, steps // options.reports) == 0:
            progress(Progress("sampling", t + 1, _error(sums / (t + 1)), tol))
    means = sums / steps
    w, second = means.mean(axis=0), squares / (steps * chains)
    error = _error(means)
    if sites.hard:
        w = w * np.exp(0.5 * np.log(2.0) + gammaln(0.5 * (p + 1)) - gammaln(0.5 * p))
        second = second * p
    return Sampled(w, second - np.outer(w, w), error, warm_up + steps)


def _error(means: np.ndarray) -> float:
    """Error of the mean of all chains, over its length, by how much the chains disagree."""
    length = float(np.linalg.norm(means.mean(axis=0)))
    error = float(np.sqrt(means.var(axis=0, ddof=1).sum() / len(means)))
    return error / length if length > 0.0 else np.inf


def _cone_step(A: np.ndarray, B: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Angles, uniform over those that leave ``A cos θ + B sin θ`` positive."""
    # Positive a allow angles from atan(b/a) - π/2 to atan(b/a) + π/2.
    ratio = B / np.maximum(A, _TINY)
    low = np.arctan(ratio.max(axis=1)) - 0.5 * np.pi
    high = np.arctan(ratio.min(axis=1)) + 0.5 * np.pi
    return low + (high - low) * rng.uniform(size=len(A))


def _weight(sites: Sites, guide: Propagated) -> Callable[[np.ndarray], np.ndarray]:
    """Logarithm of the posterior over the Gaussian, as a function of the outputs ``y f``."""
    tau, nu = 0.5 * guide.tau, sites.y * guide.nu

    def hard(A: np.ndarray) -> np.ndarray:
        return np.where(A.min(axis=1) > 0.0, A**2 @ tau - A @ nu, -np.inf)

    inverse = 1.0 / np.sqrt(np.maximum(sites.noise, _TINY))

    def soft(A: np.ndarray) -> np.ndarray:
        return log_ndtr(A * inverse) @ sites.copies + A**2 @ tau - A @ nu

    return hard if sites.hard else soft


def _slice_step(
    A: np.ndarray,
    B: np.ndarray,
    image: np.ndarray,
    weight: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    no_angle: float,
) -> np.ndarray:
    """Angles by a bracket about the current point that shrinks until its weight is enough."""
    level = weight(image + A) + np.log(rng.uniform(size=len(A)))
    angle = rng.uniform(0.0, 2.0 * np.pi, size=len(A))
    low, high = angle - 2.0 * np.pi, angle.copy()
    todo = np.arange(len(A))
    while True:
        cosine, sine = np.cos(angle[todo])[:, None], np.sin(angle[todo])[:, None]
        values = weight(image + A[todo] * cosine + B[todo] * sine)
        # The angle zero is the current point, where rounding must not go on for ever.
        todo = todo[(values <= level[todo]) & (np.abs(angle[todo]) > no_angle)]
        if todo.size == 0:
            return np.where(np.abs(angle) > no_angle, angle, 0.0)
        tried = angle[todo]
        low[todo] = np.where(tried < 0.0, tried, low[todo])
        high[todo] = np.where(tried < 0.0, high[todo], tried)
        angle[todo] = rng.uniform(low[todo], high[todo])
