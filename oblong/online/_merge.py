"""Models of shards put together."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from oblong.solvers.online.merge import merge_states

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
        states = [self._fitted_state()]
        for other in others:
            if type(other) is not type(self):
                raise ValueError(f"Cannot merge {type(other).__name__} into {type(self).__name__}")
            state = other._fitted_state()
            same = (
                np.array_equal(other.classes_, self.classes_)
                and state.n_features == states[0].n_features
                and np.array_equal(state.codes[:5], states[0].codes[:5])
                and np.array_equal(state.settings, states[0].settings)
                and state.scale.shape == states[0].scale.shape
            )
            if not same:
                raise ValueError("Merged models must have the same parameters, features, classes")
            states.append(state)
        start = self._new_state(np.float64) if prior is None else prior._fitted_state()
        self._state = merge_states(states, prior=start, product=self._product)
        return self
