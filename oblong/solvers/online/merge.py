"""Models of shards put together in their natural parameters, precision and precision times mean."""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from oblong.solvers.online import slots
from oblong.solvers.online.arrays import initial_columns
from oblong.solvers.online.calibration import DRIFTING
from oblong.solvers.online.state import OnlineState
from oblong.solvers.online.structures.sketch import shrink, sketch_apply
from oblong.solvers.online.units import in_units


def _has_scale(state: OnlineState) -> bool:
    """Whether the scale of the covariance means anything to the rule."""
    return state.invariance != slots.UNIT_OF_COVARIANCE


def _natural(state: OnlineState, exponent: int) -> tuple[np.ndarray, np.ndarray]:
    """Precisions and precisions times weights, in the given unit.

    Precisions without a scale get the initial one as the mean of their diagonals.
    """
    n = state.n_features + 1
    weights = np.asarray(state.own_weights(), dtype=np.float64).T
    if state.structure != slots.FULL:
        precision = 1.0 / state.diagonal().astype(np.float64).T
        diagonals, target = precision, precision * weights
    else:
        precision = np.empty((state.n_outputs, n, n))
        for k, S in enumerate(state.matrices()):
            precision[k] = cho_solve(cho_factor(S, lower=True), np.eye(n))
        diagonals = np.diagonal(precision, axis1=1, axis2=2)
        target = np.einsum("kij,kj->ki", precision, weights)
    if not _has_scale(state):
        unit = state.initial_variance * diagonals.mean()
        return precision / unit, target / unit
    # What is too small to be a number in the unit of the others is nothing beside them.
    change = state.exponent - exponent
    return np.ldexp(precision, 2 * change), np.ldexp(target, change)


def _prior_left(states: Sequence[OnlineState]) -> np.ndarray:
    """Shares of the prior that models have not forgotten, of shape (n_states, n_outputs)."""
    shares = np.ones((len(states), states[0].n_outputs))
    # The variances of a diagonal are held at those of the prior.
    if states[0].forgetting < 1.0 and states[0].structure != slots.DIAGONAL:
        shares /= [state.sigma for state in states]
    return shares


def _merge_sigmoids(merged: OnlineState, states: Sequence[OnlineState], shares: np.ndarray) -> None:
    """Take the mean of sigmoids; their doubt goes down with the examples."""
    parts = np.array([state.scale for state in states])
    merged.scale[:, slots.N_PLAIN :] = np.einsum("s,sij->ij", shares, parts[:, :, slots.N_PLAIN :])
    merged.scale[:, slots.P_SLOPE : slots.P_OFFSET + 1] /= len(states)
    merged.scale[:, slots.WEIGHT] = parts[:, :, slots.WEIGHT].sum(axis=0)
    if abs(merged.scale[0, slots.KIND]) == DRIFTING:
        # Outputs are small where the covariance is, and the smallest covariance counts most.
        changes = [2 * (merged.exponent - state.exponent) for state in states]
        with np.errstate(over="ignore"):
            squares = np.ldexp(parts[:, :, slots.SQUARE], np.array(changes)[:, None])
        merged.scale[:, slots.SQUARE] = squares.min(axis=0)


def _along(factors: np.ndarray, arrays: np.ndarray) -> np.ndarray:
    """Arrays times factors of their first axis."""
    return factors.reshape(-1, *[1] * (arrays.ndim - 1)) * arrays


def _merge_sketches(
    merged: OnlineState,
    states: Sequence[OnlineState],
    prior: OnlineState,
    shares: np.ndarray,
    product: bool,
) -> OnlineState:
    """Put the rows of all sketches together, and cut them."""
    models = [*states, prior] if product else list(states)
    factors = [1.0] * len(states) + [0.0] if product else shares.tolist()
    n, outputs, width = merged.n_features + 1, merged.n_outputs, merged.covariance.shape[2]
    keep = (width - merged.steps) // 2
    merged.scale[:, slots.SIGMA] = 1.0
    if not _has_scale(merged):
        precisions = [s.table[:n, 2 * outputs :] / s.sigma for s in states]
        factors = shares / [merged.initial_variance * part.mean() for part in precisions]
    least = 1.0 / merged.initial_variance if _has_scale(merged) else 0.0
    for k in range(outputs):
        if product:
            factors[-1] = 1.0 - float(_prior_left(states)[:, k].sum())
        exact, target, rows = np.zeros(n), np.zeros(n), []
        for factor, model in zip(factors, models):
            sigma, rank = model.sigma[k], model.ranks[k]
            B, w = model.covariance[k, :n, :rank], model.own_weights()[:, k].astype(np.float64)
            diagonal = model.table[:n, 2 * outputs + k]
            own = 1.0 / model.table[:n, outputs + k]
            exact += factor / sigma * diagonal
            target += factor / sigma * (own * w + B @ (B.T @ w))
            # Directions of a prior cannot be taken away: its diagonal is.
            if factor > 0.0:
                rows.append(np.sqrt(factor / sigma) * B)
        collected = np.hstack(rows)
        block = np.zeros((n + collected.shape[1] + 1, collected.shape[1] + 1))
        block[:n, :-1] = collected
        inverse = np.empty(n)
        rank = shrink(block, inverse, exact, keep, least)
        merged.covariance[k] = 0.0
        merged.covariance[k, :n, :rank] = block[:n, :rank]
        # Counted from the end: there may be room for more features in between.
        merged.covariance[k, -width:][:rank, :rank] = block[n : n + rank, :rank]
        merged.table[:n, outputs + k] = inverse
        merged.table[:n, 2 * outputs + k] = exact
        merged.table[:n, k] = sketch_apply(block, inverse, rank, target)
        merged.scale[k, slots.DIRECTIONS] = rank
    return merged


def merge_states(
    states: Sequence[OnlineState], *, prior: OnlineState, product: bool
) -> OnlineState:
    """Merge models that started from the same prior and learned from different examples.

    Parameters
    ----------
    states : sequence of OnlineState
        The models, with the same features, classes and rule.
    prior : OnlineState
        What they started from.
    product : bool
        Whether to multiply the Gaussians and divide by all but one of the priors,
        ``Λ = Σ Λ_k - (K-1) Λ₀`` and likewise for ``Λw``, or to take the mean of the natural
        parameters, weighted by the rounds. A covariance whose scale means nothing to the rule is
        first given that of the initial one. Of a model that forgets, only what is left of the
        prior is taken away.

    Returns
    -------
    OnlineState
        The merged model. Without a covariance the weights are averaged, weighted by the rounds.
    """
    if states[0].units.size:
        units = np.max([state.units[: state.n_features + 1] for state in states], axis=0)
        states, prior = [in_units(state, units) for state in states], in_units(prior, units)
    merged = states[0].copy()
    merged.counters = np.sum([state.counters for state in states], axis=0)
    # The unit of the model with the least variance.
    exponent = max(state.exponent for state in states) if _has_scale(merged) else 0
    merged.counters[slots.EXPONENT] = exponent
    merged.total[:] = 0.0
    rounds = np.array([max(1, state.rounds) for state in states], dtype=np.float64)
    shares = rounds / rounds.sum()
    n = merged.n_features + 1
    # What a rule carries along goes down as it learns.
    merged.scale[:, slots.MEMORY] = np.min(
        [state.scale[:, slots.MEMORY] for state in states], axis=0
    )
    if merged.calibrated:
        _merge_sigmoids(merged, states, shares)
    if merged.structure == slots.NONE:
        mean = sum(p * s.own_weights().astype(np.float64) for p, s in zip(shares, states))
        merged.table[:n] = mean
        return merged
    if merged.structure != slots.FULL:
        # Rows of no feature tell how new ones start.
        fills = initial_columns(merged.structure, merged.initial_variance)[1:]
        merged.table[n:, merged.n_outputs :] = np.repeat(fills, merged.n_outputs)
    if merged.structure == slots.SKETCH:
        return _merge_sketches(merged, states, prior, shares, product)
    naturals = [_natural(state, exponent) for state in states]
    if product:
        base, pull = _natural(prior, exponent)
        less = _prior_left(states).sum(axis=0) - 1.0
        precision = sum(part for part, _ in naturals) - _along(less, base)
        target = sum(part for _, part in naturals) - _along(less, pull)
    else:
        precision = sum(p * part for p, (part, _) in zip(shares, naturals))
        target = sum(p * part for p, (_, part) in zip(shares, naturals))
    merged.scale[:, slots.SIGMA] = 1.0
    outputs = merged.n_outputs
    if merged.structure != slots.FULL:
        merged.table[:n, outputs:] = (1.0 / precision).T
        merged.table[:n, :outputs] = (target / precision).T
        return merged
    for k in range(outputs):
        factor = cho_factor(precision[k], lower=True)
        S = cho_solve(factor, np.eye(n))
        merged.covariance[k, :n, :n] = 0.5 * (S + S.T)
        merged.table[:n, k] = cho_solve(factor, target[k])
    return merged
