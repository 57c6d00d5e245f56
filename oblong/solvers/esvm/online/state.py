"""The linear ellipsoidal support vector machine, learned from a stream.

For rows ``u_i = x_i / t_i`` of unit length and weights ``ω_i`` that sum to ``N``, solve ::

    min  f(B, w) = -ln|B| + (c / N) Σ ω_i max(0, τ_i u_i'B u_i - y_i u_i'w)
    s.t. tr B <= T,  |w| <= 1,  B positive definite

(Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines, ACML 2010, eq. 14, which has
``τ_i = t_i``, ``c = 1 / ν`` and ``T = 1 / max t_i``). The dual is ::

    max  ln|M| + p - |v| - θ T,   M = Σ α_i τ_i u_i u_i' + θ I,   v = Σ α_i y_i u_i
    s.t. 0 <= α_i <= c ω_i / N,  θ >= 0.

A bound on the trace thus is the ellipsoidal support vector machine with ``r = 1 / (1 + θ)``. The
algorithm is the paper's algorithm 1, corrected: the inverse ``P = B⁻¹`` runs through means with
steps ``1 / t`` (which make it the plain mean over all examples; the printed ``1 / 2t`` do not fit
the proof), the bound on the trace is restored by adding a multiple of the identity to ``P``,
and the weights, for which the proof does not hold, have steps over the root of the sum of their
squares so far. These are never shorter than by ``1 / √t`` in order, and longer where few examples
violate their constraints.

How often the passes over a finite set of rows find the constraint of a row violated gives its
dual weight ``α_i``, hence a certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.array_state import copied, number
from oblong._core.threads import chunks
from oblong.linalg.log_det import chunk_length, inverse_factor
from oblong.solvers.esvm.online import passes
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.slots import EACH, N_COUNTERS, SINGLE

# Bounds on the trace: the inverse of the square of the least is a number, and matrices at the
# largest can still be factored.
LEAST_TRACE, LARGEST_TRACE = 1e-100, 1e10


class _NamedNumbers:
    """Names for numbers in the arrays: ``unit`` says whether ``τ = 1``."""

    __slots__ = ()

    rounds: int = number("counters", passes.ROUNDS)
    updates: int = number("counters", passes.UPDATES)
    mistakes: int = number("counters", passes.MISTAKES)
    bias: float = number("settings", passes.BIAS, float)
    unit: bool = number("settings", passes.UNIT, bool)


@dataclass(slots=True)
class OnlineEllipsoidalState(_NamedNumbers):
    """The classifiers of a learner, one per output, with the unfinished batch.

    Attributes
    ----------
    w, mean : ndarray of shape (n_outputs, p)
        Weights and their means; that of the constant feature, if there is one, comes first.
    P, B, mean_B : ndarray of shape (n_outputs, p, p)
        The matrices, their inverses, and the means of these.
    G, g : ndarray
        Sums of the unfinished batch.
    pulls : ndarray of shape (n_outputs,)
        Sums of the squared lengths of all steps of the weights, before their rate.
    theta : ndarray of shape (n_outputs,)
        Multiples of the identity that the last step added.
    numbers : ndarray of shape (3,)
        See :mod:`~oblong.solvers.esvm.online.passes`.
    counters : ndarray of int
        Rounds, steps, mistakes, and zeros.
    settings : ndarray of shape (6,)
        See :mod:`~oblong.solvers.esvm.online.passes`.
    averaged : bool
        Whether the means are used.
    """

    w: np.ndarray
    mean: np.ndarray
    P: np.ndarray
    B: np.ndarray
    mean_B: np.ndarray
    G: np.ndarray
    g: np.ndarray
    pulls: np.ndarray
    theta: np.ndarray
    numbers: np.ndarray
    counters: np.ndarray
    settings: np.ndarray
    averaged: bool

    @classmethod
    def initial(
        cls,
        n_features: int,
        n_outputs: int,
        *,
        penalty: float,
        trace_bound: float | None,
        unit: bool,
        batch_size: int,
        bias: float = 1.0,
        averaged: bool = True,
    ) -> OnlineEllipsoidalState:
        """Classifiers that have seen nothing.

        Parameters
        ----------
        n_features, n_outputs : int
            Number of features, and of classifiers: one for two classes, else one per class.
        penalty : float
            The penalty ``c`` of a violation.
        trace_bound : float or None
            Bound on the trace; infinity for none, None for one over the largest ``τ``.
        unit : bool
            Whether ``τ = 1``.
        batch_size : int
            Rows of a step.
        bias : float, default=1.0
            Value of the constant feature, 0 for no intercept.
        averaged : bool, default=True
            Whether the means are used.
        """
        size = n_features + (bias != 0.0)
        eye = np.repeat(np.eye(size)[None], n_outputs, axis=0)
        fixed = np.inf if trace_bound is None else float(trace_bound)
        settings = [bias, penalty, fixed, batch_size, float(unit), float(trace_bound is None)]
        return cls(
            w=np.zeros((n_outputs, size)),
            mean=np.zeros((n_outputs, size)),
            P=eye * size,
            B=eye / size,
            mean_B=eye / size,
            G=np.zeros_like(eye),
            g=np.zeros((n_outputs, size)),
            pulls=np.zeros(n_outputs),
            theta=np.zeros(n_outputs),
            numbers=np.zeros(3),
            counters=np.zeros(N_COUNTERS, dtype=np.int64),
            settings=np.array(settings),
            averaged=averaged,
        )

    # What the arrays mean ------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.w.shape[1] - (self.bias != 0.0)

    @property
    def n_outputs(self) -> int:
        """Number of classifiers."""
        return self.w.shape[0]

    @property
    def table(self) -> np.ndarray:
        """The last weights, one column per classifier, as the other learners keep theirs."""
        return self.w.T

    @property
    def task(self) -> int:
        """How an example of several classes becomes examples of two."""
        return SINGLE if self.n_outputs == 1 else EACH

    @property
    def trace_bound(self) -> float:
        """The bound on the trace in force."""
        if not self.settings[passes.FOLLOWS]:
            return float(self.settings[passes.TRACE])
        return 1.0 / self.numbers[passes.LARGEST] if self.numbers[passes.LARGEST] > 0.0 else np.inf

    @property
    def matrices(self) -> np.ndarray:
        """The matrices ``B``, means or last."""
        return self.mean_B if self.averaged else self.B

    def directions(self) -> np.ndarray:
        """The weights, means or last, of shape (n_outputs, p)."""
        return self.mean if self.averaged else self.w

    def weights(self) -> np.ndarray:
        """Weights for prediction, those of the constant feature in row 0.

        With several classifiers they have length one, so that outputs are distances and can be
        compared.
        """
        found = self.directions().T
        if self.n_outputs > 1:
            lengths = np.linalg.norm(found, axis=0)
            found = found / np.where(lengths > 0.0, lengths, 1.0)
        return found if self.bias != 0.0 else np.vstack([np.zeros(self.n_outputs), found])

    def scores(self, X: Any) -> np.ndarray:
        """Outputs of all classifiers, of shape (n_rows, n_outputs)."""
        weights = self.weights()
        outputs = np.asarray(X @ weights[1:]) + self.bias * weights[0]
        return outputs.astype(X.dtype, copy=False)

    def copy(self) -> OnlineEllipsoidalState:
        """Classifiers of their own."""
        return copied(self)

    def promote(self, dtype: Any) -> None:
        """Do nothing: everything is in double precision."""

    # Learning ------------------------------------------------------------------------------------

    def announce(self, largest: float) -> None:
        """Tell the largest ``τ`` of the rows to come before the first of them."""
        if largest > 0.0:
            self.numbers[passes.LARGEST] = largest
            fixed = self.settings[passes.TRACE]
            bound = fixed if np.isfinite(fixed) else 1.0 / largest
            size = self.w.shape[1]
            diagonal = np.arange(size)
            self.P[:, diagonal, diagonal] = size / bound
            self.B[:, diagonal, diagonal] = bound / size
            self.mean_B[:] = self.B

    def learn(
        self,
        rows: Rows,
        labels: np.ndarray,
        weights: np.ndarray,
        order: np.ndarray | None = None,
        hits: np.ndarray | None = None,
    ) -> None:
        """Learn from rows, in batches that do not depend on the calls.

        Parameters
        ----------
        rows : Rows
            The rows.
        labels : ndarray of int32, of shape (n_rows, 1)
            Number of the class.
        weights : ndarray of shape (n_rows,)
            Weights of the rows.
        order : ndarray of int64, default=None
            Which rows, in which order.
        hits : ndarray of shape (n_rows, n_outputs + 1), default=None
            Where to add up visits and violations of the rows, for :func:`certify`.
        """
        if order is None:
            order = np.arange(len(labels))
        if hits is None:
            hits = np.zeros((0, self.n_outputs + 1))
        model = passes.Classifiers(*(getattr(self, name) for name in passes.Classifiers._fields))
        where = (rows.data, rows.indices, rows.indptr, rows.dense)
        passes.learn_batches(*where, order, labels, weights, model, hits)


@dataclass(frozen=True)
class Certificate:
    """How far a classifier is from the best one for given rows.

    Attributes
    ----------
    objective : float
        Value of the primal.
    dual_objective : float
        Value of the dual: no feasible point has a smaller objective.
    gap : float
        Difference of the two over the number ``p`` of features, with the constant one.
    alpha : ndarray of shape (n_rows,)
        Dual weights of the rows.
    theta : float
        Multiplier of the bound on the trace.
    """

    objective: float
    dual_objective: float
    gap: float
    alpha: np.ndarray
    theta: float


def largest_length(X: Any, bias: float) -> float:
    """Largest length of a row with its constant feature."""
    largest = 0.0
    for start, stop in chunks(X.shape[0], chunk_length(X.shape[1])):
        rows = X[start:stop].astype(np.float64)
        squares = rows.multiply(rows) if sp.issparse(rows) else rows * rows
        largest = max(largest, float(np.asarray(squares.sum(axis=1)).max(initial=0.0)))
    return float(np.sqrt(largest + bias * bias))


def _unit_rows(X: Any, bias: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows with their constant feature over their lengths, and the lengths."""
    first = int(bias != 0.0)
    Z = np.empty((X.shape[0], X.shape[1] + first))
    Z[:, :first] = bias
    Z[:, first:] = X.toarray() if sp.issparse(X) else X
    lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z))
    Z /= np.where(lengths > 0.0, lengths, 1.0)[:, None]
    return Z, lengths


def certify(
    state: OnlineEllipsoidalState,
    X: Any,
    labels: np.ndarray,
    weights: np.ndarray,
    hits: np.ndarray,
) -> list[Certificate]:
    """Certify classifiers for the rows that they learned from, one certificate each.

    Parameters
    ----------
    state : OnlineEllipsoidalState
        The classifiers.
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        The rows.
    labels : ndarray of int, of shape (n_rows, 1)
        Numbers of their classes.
    weights : ndarray of shape (n_rows,)
        Their weights.
    hits : ndarray of shape (n_rows, n_outputs + 1)
        Their visits and violations, from :meth:`OnlineEllipsoidalState.learn`.
    """
    outputs, size = state.w.shape
    visits = hits[:, outputs]
    shares = hits[:, :outputs] / np.where(visits > 0.0, visits, 1.0)[:, None]
    caps = state.settings[passes.PENALTY] * weights / weights.sum()
    alpha = caps[:, None] * shares
    codes = labels[:, 0]
    signs = np.where(codes[:, None] == (np.arange(outputs) if outputs > 1 else [1]), 1.0, -1.0)
    bound = state.trace_bound
    factors, directions = [], state.directions()
    for k in range(outputs):
        B = state.matrices[k]
        B = B * min(1.0, bound / float(np.trace(B)))
        factors.append(np.linalg.cholesky(B))
    M, v, losses = np.zeros((outputs, size, size)), np.zeros((outputs, size)), np.zeros(outputs)
    for start, stop in chunks(X.shape[0], chunk_length(size)):
        Z, lengths = _unit_rows(X[start:stop], state.bias)
        tau = np.ones_like(lengths) if state.unit else lengths
        for k in range(outputs):
            image = Z @ factors[k]
            q = tau * np.einsum("ij,ij->i", image, image)
            a, y = alpha[start:stop, k], signs[start:stop, k]
            slack = np.maximum(q - y * (Z @ directions[k]), 0.0)
            losses[k] += float(caps[start:stop] @ slack)
            M[k] += (Z * (a * tau)[:, None]).T @ Z
            v[k] += (a * y) @ Z
    found = []
    for k in range(outputs):
        primal = losses[k] - 2.0 * float(np.log(factors[k].diagonal()).sum())
        dual, theta = _dual_value(M[k], v[k], bound)
        found.append(Certificate(primal, dual, (primal - dual) / size, alpha[:, k], theta))
    return found


def _dual_value(M: np.ndarray, v: np.ndarray, bound: float) -> tuple[float, float]:
    """Value of the dual at the best ``θ``, and that."""
    size, theta = len(v), 0.0
    M = 0.5 * (M + M.T)
    if np.isfinite(bound):
        # At least this much is needed, or the trace of the inverse would be at its bound.
        values = np.linalg.eigvalsh(M)
        guess = max(0.0, 1.0 / bound - float(values[0]))
        theta = passes.project(M, np.empty_like(M), bound, guess)
    try:
        _, log_det = inverse_factor(M)
    except np.linalg.LinAlgError:
        return -np.inf, theta
    penalty = theta * bound if theta > 0.0 else 0.0
    return log_det + size - float(np.linalg.norm(v)) - penalty, theta


def merge_models(states: Sequence[OnlineEllipsoidalState]) -> OnlineEllipsoidalState:
    """Means of classifiers that learned from different examples, by the weights of these.

    The mean of the inverses ``P`` is what one classifier would have collected that found the same
    violations. The objective of the mean is at most the mean of the objectives, as it is convex.
    Unfinished batches are put together.
    """
    merged = states[0].copy()
    totals = np.array([state.numbers[passes.DONE] for state in states])
    shares = totals / totals.sum() if totals.sum() > 0.0 else np.full(len(states), 1 / len(states))
    for name in ("w", "mean", "P", "mean_B"):
        setattr(merged, name, sum(p * getattr(s, name) for p, s in zip(shares, states)))
    for name in ("G", "g", "pulls", "counters"):
        setattr(merged, name, np.sum([getattr(state, name) for state in states], axis=0))
    merged.numbers[: passes.LARGEST] = np.sum(
        [state.numbers[: passes.LARGEST] for state in states], axis=0
    )
    merged.numbers[passes.LARGEST] = max(state.numbers[passes.LARGEST] for state in states)
    for k in range(merged.n_outputs):
        merged.theta[k] = passes.project(merged.P[k], merged.B[k], merged.trace_bound, 0.0)
    return merged
