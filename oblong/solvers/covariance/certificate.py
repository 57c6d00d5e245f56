"""Certificates of stored models: the objective of what is predicted with, rounding included.

A solver works in a geometry of its own: whitened rows, a changed kernel. What is stored are
coefficients for the kernel itself, or a weight vector for the rows as given, and the map between
the two rounds. Here the objective is that of the stored model. The dual point is the solver's; its
quadratic term is bounded through the model and the residual of the equations between the two, so
that no inverse has to be trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from oblong._core.threads import chunks

if TYPE_CHECKING:
    from oblong.solvers.covariance.sigma import Whitening

# Relative gap that a solution must not exceed to have converged.
PROMISE = 1e-3
# Relative error of a sum of products, whose errors have random signs; powers multiply that of their
# argument by the degree.
UNIT = 16.0 * float(np.finfo(float).eps)
_CHUNK = 4096


@dataclass(frozen=True)
class Certificate:
    """A primal objective, and how far above the optimum it can be.

    Attributes
    ----------
    objective : float
        Objective of the stored model.
    gap : float
        Objective minus a lower bound of all objectives, rounding included.
    """

    objective: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """The gap over the objective."""
        # A finite gap is finite over an objective of zero, too.
        limits = np.finfo(float)
        return self.gap / max(abs(self.objective), self.gap / limits.max, limits.tiny)

    def status(self, reached: str) -> str:
        """Why the solver stopped; a gap above the promise is no convergence."""
        stalled = reached == "converged" and not self.relative_gap <= PROMISE
        return "stalled" if stalled else reached


@dataclass(frozen=True)
class StoredOutputs:
    """Outputs of a stored model on its rows, with what rounding may have done to them.

    Attributes
    ----------
    f : ndarray of shape (n,)
        Outputs ``w·φ_i + b``.
    error : ndarray of shape (n,)
        Bound on their rounding.
    """

    f: np.ndarray
    error: np.ndarray

    @classmethod
    def of_rows(cls, X: Any, w: np.ndarray, bias: float) -> StoredOutputs:
        """Outputs of a weight vector on dense or CSR rows as given."""
        f, sizes = np.empty(X.shape[0]), np.empty(X.shape[0])
        for start, stop in chunks(X.shape[0], _CHUNK):
            part = X[start:stop].astype(np.float64, copy=False)
            f[start:stop] = part @ w
            sizes[start:stop] = abs(part) @ np.abs(w)
        return cls(f + bias, UNIT * (sizes + abs(bias)))

    @classmethod
    def of_kernel(
        cls, K: np.ndarray, g: np.ndarray, bias: float, unit: float = 0.0
    ) -> StoredOutputs:
        """Outputs of coefficients on the rows of a kernel matrix, with the unit of its rounding."""
        sizes = np.sqrt(np.abs(K.diagonal()).astype(np.float64))
        error = (UNIT + unit) * float(np.abs(g) @ sizes) * sizes
        return cls(K @ g + bias, error + UNIT * abs(bias))

    @classmethod
    def of_values(cls, values: np.ndarray, coef: np.ndarray, bias: float) -> StoredOutputs:
        """Outputs of coefficients on rows with given kernel values, of either sign."""
        sizes = np.abs(values) @ np.abs(coef)
        return cls(values @ coef + bias, UNIT * (sizes + abs(bias)))

    def loss(self, y: np.ndarray, C: np.ndarray) -> tuple[float, float]:
        """Sum of the hinge losses, and what rounding may add to it."""
        value = float(C @ np.maximum(1.0 - y * self.f, 0.0))
        worst = float(C @ np.maximum(1.0 - y * self.f + self.error, 0.0))
        return value, worst - value


def certify_kernel(
    K: np.ndarray, outputs: StoredOutputs, g: np.ndarray, bias: float, c: np.ndarray, scale: float,
    *, y: np.ndarray, C: np.ndarray, D: float, share: np.ndarray,
) -> Certificate:  # fmt: skip
    """Certify the Σ-SVM ``f = K g + bias`` with the dual point ``c``.

    With ``v = w·(φ - μ)`` the two are related by ``c = (1-D) g + D diag(p) v``. For the residual
    ``r`` of this equation, ``½ c'K̂c <= ½(1-D)|w|² + ½D Σ p v² + r·v + ½ r'K̂r``, and ``K̂`` is at
    most the centred kernel over ``1-D``.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix.
    outputs : StoredOutputs
        Outputs of the stored model.
    g, bias : ndarray of shape (n,), float
        The stored model.
    c : ndarray of shape (n,)
        Coefficients of the dual, inside their boxes.
    scale : float
        The factor of the dual point that the model is.
    y, C : ndarray of shape (n,)
        Labels and penalties.
    D : float
        Fraction of the covariance.
    share : ndarray of shape (n,)
        Weights ``p`` of the rows, of sum one.
    """
    u, error = outputs.f - bias, outputs.error
    mean = float(share @ u)
    v, doubt = u - mean, error + float(share @ error)
    quadratic = 0.5 * (1.0 - D) * float(g @ u) + 0.5 * D * float(share @ v**2)
    hidden = 0.5 * (1.0 - D) * float(np.abs(g) @ error)
    hidden += D * float(share @ (doubt * (np.abs(v) + 0.5 * doubt)))
    residual = scale * c - (1.0 - D) * g - D * share * v
    unsure = np.abs(residual) + D * share * doubt
    means = K @ share
    spreads = np.maximum(K.diagonal() - 2.0 * means + float(share @ means), 0.0)
    far = float(unsure @ np.sqrt(spreads))
    quadratic_of_c = quadratic + float(residual @ v) + 0.5 * far * far / (1.0 - D)
    hidden_of_c = hidden + float(unsure @ doubt) + D * float(share @ (doubt * np.abs(v)))
    # The mean drops out only as far as the coefficients have the sum zero.
    hidden_of_c += (1.0 - D) * abs(math.fsum(g)) * abs(mean)
    bound = _unscaled(quadratic_of_c + hidden_of_c, scale)
    return _certificate(outputs, quadratic, hidden, bound, c, bias + mean, y, C)


def certify_linear(
    X: Any, outputs: StoredOutputs, w: np.ndarray, bias: float, c: np.ndarray, scale: float,
    whitening: Whitening, *, y: np.ndarray, C: np.ndarray,
) -> Certificate:  # fmt: skip
    """Certify the Σ-SVM ``f = w·x + bias`` with the dual point ``c``.

    With ``M = (1-D)I + DΣ`` and ``m = Σ c_i (x_i - μ)``, the residual ``r = m - M w`` gives
    ``½ m'M^-1 m = ½ w'Mw + r·w + ½ r'M^-1 r``.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows as given.
    outputs, c, scale, y, C
        As for :func:`certify_kernel`.
    w, bias : ndarray of shape (d,), float
        The stored model.
    whitening : Whitening
        The mean ``μ`` and the factor of ``M``.
    """
    D, share, mean, factor = whitening.D, whitening.share, whitening.mean, whitening.factor
    n, d = X.shape
    v = np.empty(n)
    moment, spread, sizes = np.zeros(d), np.zeros(d), np.zeros(d)
    for start, stop in chunks(n, _CHUNK):
        part = X[start:stop]
        part = (part.toarray() if sp.issparse(part) else part) - mean
        some, own = slice(start, stop), share[start:stop]
        v[some] = part @ w
        moment += scale * c[some] @ part
        spread += (own * v[some]) @ part
        np.abs(part, out=part)
        sizes += (scale * np.abs(c[some]) + D * own * np.abs(v[some])) @ part
    # Rows of which the mean is not exactly zero are one with their spread about it.
    middle = float(share @ v)
    quadratic = 0.5 * (1.0 - D) * float(w @ w) + 0.5 * D * float(share @ (v - middle) ** 2)
    hidden = UNIT * quadratic + D * abs(middle) * float(share @ np.abs(v))
    residual = moment - (1.0 - D) * w - D * spread
    unsure = UNIT * (sizes + (1.0 - D) * np.abs(w))
    inverse = solve_triangular(factor, np.eye(d), lower=True, check_finite=False)
    widths = np.sqrt(np.einsum("ij,ij->j", inverse, inverse))
    far = float(np.linalg.norm(inverse @ residual)) + float(unsure @ widths)
    quadratic_of_c = quadratic + float(residual @ w) + 0.5 * far**2
    hidden_of_c = hidden + float(unsure @ np.abs(w))
    bound = _unscaled(quadratic_of_c + hidden_of_c, scale)
    return _certificate(outputs, quadratic, hidden, bound, c, bias + float(w @ mean), y, C)


def _unscaled(quadratic: float, scale: float) -> float:
    """Quadratic term of a dual point, from that of a multiple."""
    return quadratic / scale**2 if scale > 0.0 else np.inf


def certify_features(
    T: np.ndarray,
    outputs: StoredOutputs,
    image: np.ndarray,
    c: np.ndarray,
    centre: float,
    *,
    y: np.ndarray,
    C: np.ndarray,
    doubt: np.ndarray | float = 0.0,
) -> Certificate:
    """Certify a support vector machine on features, which is stored in another form.

    Parameters
    ----------
    T : ndarray of shape (n, k)
        The features.
    outputs : StoredOutputs
        Outputs of the stored model.
    image : ndarray of shape (k,)
        Its weight vector for the features.
    c : ndarray of shape (n,)
        Coefficients of the dual, inside their boxes.
    centre : float
        Its output where the features are zero.
    y, C : ndarray of shape (n,)
        Labels and penalties.
    doubt : ndarray of shape (n,) or float, default=0.0
        Length of the error that each row of features has already.
    """
    combined = c @ T
    length = float(np.linalg.norm(combined))
    error = UNIT * float(np.linalg.norm(np.abs(c) @ np.abs(T))) + float((np.abs(c) * doubt).sum())
    quadratic = 0.5 * float(image @ image)
    bound = 0.5 * (length + error) ** 2
    return _certificate(outputs, quadratic, UNIT * quadratic, bound, c, centre, y, C)


def _certificate(
    outputs: StoredOutputs,
    quadratic: float,
    hidden: float,
    quadratic_of_c: float,
    c: np.ndarray,
    centre: float,
    y: np.ndarray,
    C: np.ndarray,
) -> Certificate:
    """Put the two objectives together; ``quadratic_of_c`` is a bound, rounding included."""
    loss, unsure = outputs.loss(y, C)
    objective = quadratic + loss
    # A sum of coefficients other than zero meets every bias, the best one too.
    unbalanced = abs(math.fsum(c)) * 2.0 * max(1.0, abs(centre))
    dual = float(np.clip(y * c, 0.0, C).sum()) - quadratic_of_c - unbalanced
    # No coefficients are a dual point too.
    gap = max(objective - max(dual, 0.0), 0.0) + hidden + unsure
    return Certificate(objective, gap)
