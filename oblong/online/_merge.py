"""Models of shards put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from oblong.online.growing import STRUCTURES, prepare
from oblong.solvers.online.growth import grow, placed
from oblong.solvers.online.merge import merge_states
from oblong.solvers.online.state import OnlineState

if TYPE_CHECKING:
    from oblong.online._linear import LinearOnlineClassifier

_NAMES = {structure: f'"{name}"' for name, structure in STRUCTURES.items()}


def merge_models(
    first: LinearOnlineClassifier, others: Sequence[Any], prior: Any, how: str
) -> tuple[OnlineState, dict[Any, int] | None]:
    """Merge models that started from a prior, or from nothing.

    Returns the merged model, and the columns of the features if they differ from those of the
    first.
    """
    models = [first, *others, *([] if prior is None else [prior])]
    for other in models:
        if type(other) is not type(first):
            raise ValueError(f"Cannot merge {type(other).__name__} into {type(first).__name__}")
    states, vocabulary = _aligned(models)
    for other, state in zip(models, states):
        if state.structure != states[0].structure:
            own, asked = (_NAMES[one.structure] for one in (states[0], state))
            raise ValueError(f"Merged models must have the same covariance, not {own} and {asked}")
        if not np.array_equal(other.classes_, first.classes_) or not state.suits(states[0]):
            raise ValueError("Merged models must have the same parameters, features, classes")
    product = first._product and how == "product"
    if prior is not None and product and states[0].forgetting < 1.0:
        raise ValueError(
            'Models that forget have lost part of their prior: merge them with how="mean"'
        )
    if prior is not None:
        start = states.pop()
    else:
        # Classes that came up on the way have shared the initial variance.
        start = first._new_state(np.float64, states[0].initial_variance)
        if vocabulary is not None:
            prepare(first, start, len(vocabulary))
            grow(start, len(vocabulary))
            start.set_rule(first._rule(len(vocabulary)))
    return merge_states(states, prior=start, product=product), vocabulary


def _aligned(models: list[Any]) -> tuple[list[OnlineState], dict[Any, int] | None]:
    """States of models with the same features in the same columns, and new columns if any."""
    states = [model._fitted_state() for model in models]
    names = [model._feature_names() for model in models]
    if all(own == names[0] for own in names):
        return states, None
    if any(vars(model).get("_vocabulary") is None for model in models):
        raise ValueError("Merged models must have the same features, in the same order")
    union = dict.fromkeys(name for own in names for name in own)
    vocabulary = {name: j for j, name in enumerate(union)}
    n = len(vocabulary)
    for i, (state, own) in enumerate(zip(states, names)):
        columns = np.array([vocabulary[name] for name in own], dtype=np.intp)
        state = state.copy()
        prepare(models[i], state, n)
        states[i] = placed(state, columns, n)
        states[i].set_rule(models[i]._rule(n))
    return states, vocabulary
