"""Metrics of scikit-learn on predictions that were made one by one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer


@dataclass(frozen=True, slots=True)
class Seen:
    """A row as it was predicted; without responses if there was but one class."""

    truth: Any
    label: Any
    weight: float
    classes: np.ndarray | None
    decisions: Any
    probabilities: np.ndarray | None


class FixedResponses(ClassifierMixin, BaseEstimator):
    """A classifier whose answers are known, as scikit-learn's scorers want to be given one."""

    def __init__(self, classes: np.ndarray, seen: Sequence[Seen]) -> None:
        self.classes = classes
        self.seen = seen
        self.classes_ = classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray:
        return np.array([s.label for s in self.seen])

    def predict_proba(self, X: Any) -> np.ndarray:
        if any(s.classes is not None and s.probabilities is None for s in self.seen):
            raise ValueError("the learner has no probabilities; use calibration='platt'")
        found = np.zeros((len(self.seen), len(self.classes_)))
        for row, s in zip(found, self.seen):
            if s.classes is None:
                row[self.classes_ == s.label] = 1.0
            else:
                row[np.searchsorted(self.classes_, s.classes)] = s.probabilities
        return found

    def decision_function(self, X: Any) -> np.ndarray:
        if len(self.classes_) == 2:
            signs = [1.0 if s.label == self.classes_[1] else -1.0 for s in self.seen]
            return np.array(
                [g if s.classes is None else s.decisions for s, g in zip(self.seen, signs)]
            )
        found = np.full((len(self.seen), len(self.classes_)), -np.inf)
        for row, s in zip(found, self.seen):
            if s.classes is None:
                row[self.classes_ == s.label] = 0.0
            else:
                pair = (-s.decisions, s.decisions) if len(s.classes) == 2 else s.decisions
                row[np.searchsorted(self.classes_, s.classes)] = pair
        return np.maximum(found, np.min(found, where=np.isfinite(found), initial=0.0) - 1.0)


def is_function(metric: Any) -> bool:
    """Whether a metric takes labels and predictions, and not an estimator."""
    return not hasattr(metric, "_score_func")


def named(metrics: Any) -> dict[str, Callable[..., float]]:
    """Metrics by name, each checked before any work."""
    if metrics is None:
        return {}
    if isinstance(metrics, Mapping):
        pairs = list(metrics.items())
    else:
        each = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
        pairs = [(m if isinstance(m, str) else getattr(m, "__name__", str(m)), m) for m in each]
    found = {}
    for name, metric in pairs:
        if isinstance(metric, str):
            metric = get_scorer(metric)
        if not callable(metric):
            raise TypeError(f"expected a metric, the name of a scorer or a scorer, got {metric!r}")
        if name in found:
            raise ValueError(f"two metrics are called {name!r}; give them names in a dict")
        found[str(name)] = metric
    return found
