"""Linear learners without scikit-learn, which takes longer to load than many a stream to read."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oblong.online.growing import STRUCTURES, add_class, check_size, structure_of
from oblong.solvers.online import rules
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.slots import EACH, LEAST_FORGETTING, NONE, NOTHING, SINGLE, TOP
from oblong.solvers.online.state import OnlineState

# Rules of the learners with the parameters that they have by default.
_RULES = {
    "AROWClassifier": rules.arow(1.0),
    "NormalHerdClassifier": rules.normal_herd(1.0),
    "PassiveAggressiveClassifier": rules.passive_aggressive(soft=False),
    "SecondOrderPerceptron": rules.second_order_perceptron(),
}
# Parameters that need no look at the estimator.
_KNOWN = {"allow_new_classes", "calibration", "covariance", "forgetting", "normalize"}


class PlainLearner:
    """What a linear estimator is without scikit-learn: a rule, a model, and names of its classes.

    Parameters
    ----------
    estimator : callable
        Makes the estimator, unfitted.
    rule : callable
        The rule for a number of features.
    covariance : str or None
        The parameter of that name, if there is a covariance.
    options : dict
        Other arguments of
        :meth:`OnlineState.initial <oblong.solvers.online.state.OnlineState.initial>`.
    """

    _takes_new_features = True
    _most_bytes = 2.0**34
    multi_class = "top1"

    def __init__(
        self,
        estimator: Callable[[], Any],
        rule: Callable[[int], rules.Rule],
        covariance: str | None,
        options: Mapping[str, Any],
    ) -> None:
        self._estimator, self._rule, self._options = estimator, rule, dict(options)
        self.covariance = covariance
        self.sketch_size = options.get("sketch_size", 0)

    @classmethod
    def by_name(cls, name: str, parameters: Mapping[str, Any]) -> PlainLearner | None:
        """A learner by the name of its estimator; None if only that can tell what it is."""
        if name not in _RULES or not parameters.keys() <= _KNOWN:
            return None

        def estimator() -> Any:
            from oblong import online

            return getattr(online, name)(**parameters)

        covariance = parameters.get("covariance", "auto")
        known = covariance in ("auto", *STRUCTURES) and covariance != "sketch"
        if name == "PassiveAggressiveClassifier":
            known, covariance = "covariance" not in parameters, None
        calibration, forgetting = parameters.get("calibration"), parameters.get("forgetting", 1.0)
        sound = type(forgetting) is float and LEAST_FORGETTING <= forgetting <= 1.0
        if not known or calibration not in (None, "platt") or not sound:
            return None
        options = {
            "calibrated": calibration == "platt",
            "normalize": bool(parameters.get("normalize")),
            "forgetting": forgetting,
        }
        return cls(estimator, lambda _: _RULES[name], covariance, options)

    @classmethod
    def of(cls, model: Any) -> PlainLearner | None:
        """What a linear estimator has learned, or will learn; None for other estimators."""
        weighted = getattr(model, "class_weight", None) is not None
        if not getattr(model, "_takes_new_features", False) or weighted:
            return None
        covariance = getattr(model, "covariance", None)
        made = cls(lambda: model, model._rule, covariance, model._state_options())
        made.multi_class = model.multi_class
        if hasattr(model, "_state"):
            made.classes_, made.n_features_in_ = model.classes_, model.n_features_in_
            made._state = model._state
        return made

    def estimator(self) -> Any:
        """The estimator, with what was learned."""
        model = copy.copy(self._estimator())
        if hasattr(self, "_state"):
            model.classes_, model.multilabel_, model.n_iter_ = self.classes_, False, 1
            model.n_features_in_, model._state = self.n_features_in_, self._state
        return model

    @property
    def n_mistakes_(self) -> int:
        """Number of examples that were misclassified before they were learned from."""
        return self._state.mistakes

    @property
    def n_updates_(self) -> int:
        """Number of updates of the model."""
        return self._state.updates

    def n_outputs(self, n_classes: int) -> int:
        """Decision values per row."""
        return 1 if n_classes == 2 else n_classes

    def partial_fit(
        self,
        X: np.ndarray | Rows,
        y: np.ndarray,
        classes: Sequence[Any] | None = None,
        sample_weight: np.ndarray | None = None,
        record: np.ndarray = NOTHING,
    ) -> None:
        """Learn from a batch; as the estimator, of rows that are known to be sound."""
        if classes is not None:
            self.classes_ = np.unique(classes)
            self.n_features_in_ = X.shape[1]
            n, outputs = len(self.classes_), self.n_outputs(len(self.classes_))
            structure = self._structure(self.n_features_in_)
            check_size(self, structure, outputs, self.n_features_in_)
            one_vs_rest = self.multi_class == "ovr"
            self._state = OnlineState.initial(
                self._rule(self.n_features_in_),
                self.n_features_in_,
                outputs,
                structure=structure,
                task=SINGLE if n == 2 else EACH if one_vs_rest else TOP,
                **self._options,
            )
        state = self._state
        weights = np.ones(len(y)) if sample_weight is None else sample_weight
        check_copies(weights, self._rule(self.n_features_in_).soft)
        if len(self.classes_) == 2:
            labels = (y == self.classes_[1]).astype(np.int32)[:, None]
        else:
            labels = np.searchsorted(self.classes_, y).astype(np.int32)[:, None]
        before = state.health
        state.learn(Rows.of(X), labels, weights, record=record)
        if state.health != before:
            self.estimator()._warn_health(state.health, before, state.n_outputs)

    def _structure(self, n_features: int) -> int:
        return NONE if self.covariance is None else structure_of(self.covariance, n_features)

    def _steps(self) -> int:
        return self._options.get("steps", 1)

    def _is_calibrated(self) -> bool:
        return self._options.get("calibrated", False)

    def _append_classes(self, labels: Sequence[Any]) -> None:
        for label in labels:
            add_class(self, label)


def check_copies(weights: np.ndarray, soft: bool) -> None:
    """Refuse fractional weights for a rule without a loss to scale."""
    if not soft and not np.array_equal(weights, np.floor(weights)):
        raise ValueError(
            "sample_weight must be whole numbers for this learner, which has no loss to scale; "
            "they count copies of a row."
        )
