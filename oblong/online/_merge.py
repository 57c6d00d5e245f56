"""Models of shards put together."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from oblong.solvers.online.growth import placed
from oblong.solvers.online.merge import merge_states
from oblong.solvers.online.state import OnlineState

__all__ = ["MergeMixin"]


class MergeMixin:
    """Merging of learners."""

    # Whether merged models are the product of their Gaussians.
    _product: ClassVar[bool] = True

    def merge(self, *others: Any, prior: Any = None) -> MergeMixin:
        """Take in what other models of the same kind have learned from other examples.

        Parameters
        ----------
        *others : object
            Fitted learners of the same class, with the same parameters, features and classes.
            Those that learned from dicts may know other features, or have met them in another
            order: features are told by their names, and were zero to those that do not know them.
        prior : object, default=None
            The learner that all of them started from, if they did not start from nothing.

        Returns
        -------
        self : object
            The merged learner.

        Notes
        -----
        Gaussian learners whose shape is never scaled are multiplied: precisions ``Λ = S⁻¹`` and
        ``Λw`` add up, less all but one of the priors. This is exact in the sense that the result is
        the product of the factors that all updates contributed, for AROW and the second-order
        perceptron the ridge regression on the union of the examples updated on. It is not the
        model that one stream of all examples would give: there, other examples would have caused
        updates, and for CW, SCW and NHERD with other steps. The ellipsoid methods, which scale
        the shape, take the mean of the natural parameters weighted by the rounds; learners
        without a shape take the weighted mean of the weights, and sigmoids of ``calibration`` that
        of their parameters. The counters add up.
        """
        models = [self, *others, *([] if prior is None else [prior])]
        for other in models:
            if type(other) is not type(self):
                raise ValueError(f"Cannot merge {type(other).__name__} into {type(self).__name__}")
        states, vocabulary = self._aligned(models)
        for other, state in zip(models, states):
            same = (
                np.array_equal(other.classes_, self.classes_)
                and state.n_features == states[0].n_features
                and np.array_equal(state.codes[:5], states[0].codes[:5])
                and np.array_equal(state.settings, states[0].settings)
                and state.scale.shape == states[0].scale.shape
            )
            if not same:
                raise ValueError("Merged models must have the same parameters, features, classes")
        if vocabulary is not None:
            self._know(vocabulary)
        if prior is None:
            # Classes that came up on the way have shared the initial variance.
            start = self._new_state(np.float64, states[0].initial_variance)
        else:
            start = states.pop()
        self._state = merge_states(states, prior=start, product=self._product)
        vars(self).pop("_one_row", None)
        return self

    def _aligned(self, models: list[Any]) -> tuple[list[OnlineState], dict | None]:
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
        self._check_size(states[0].structure, states[0].n_outputs, n)
        for i, (state, own) in enumerate(zip(states, names)):
            columns = np.array([vocabulary[name] for name in own], dtype=np.intp)
            states[i] = placed(state, columns, n)
            states[i].settings[:4] = models[i]._rule(n)[1:5]
        return states, vocabulary
