"""What estimators need of a model, whatever is inside."""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from oblong.solvers.online.rows import Rows


class Health(NamedTuple):
    """How often a covariance had to be saved from vanishing."""

    skipped: int = 0
    resets: int = 0
    rescaled: int = 0
    floored: int = 0


class State(Protocol):
    """What estimators need of a model, whatever is inside."""

    @property
    def n_features(self) -> int:
        """Number of features."""

    @property
    def n_outputs(self) -> int:
        """Number of weight vectors."""

    @property
    def task(self) -> int:
        """How an example of several classes becomes examples of two."""

    @property
    def rounds(self) -> int:
        """Examples seen."""

    @property
    def updates(self) -> int:
        """Changes of the model."""

    @property
    def mistakes(self) -> int:
        """Examples that were predicted wrongly before they were learned from."""

    def copy(self) -> Self:
        """A model of its own."""

    def promote(self, dtype: Any) -> None:
        """Make weights at least as precise as ``dtype``."""

    def learn(
        self, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: np.ndarray | None = None
    ) -> None:
        """Learn from rows, one after the other."""

    def scores(self, X: Any) -> np.ndarray:
        """Outputs of all weight vectors, of shape (n_rows, n_outputs)."""


class RuleState(State, Protocol):
    """What estimators need of a model that follows a rule and has a covariance."""

    @property
    def health(self) -> Health:
        """How often the covariance had to be saved from vanishing."""

    def variances(self, X: Any) -> np.ndarray:
        """Variances of the outputs, of shape (n_rows, n_outputs)."""

    def logits(self, outputs: np.ndarray) -> np.ndarray:
        """Logits of the sigmoids of the outputs."""

    def calibrates(self, learns: bool) -> None:
        """Say whether the sigmoids of the outputs are learned."""
