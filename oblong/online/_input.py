"""Rows, labels and weights of a batch, as a learner takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import validate_data

from oblong._core.class_weights import class_factors
from oblong.online._labels import check_weights, encode, indicator
from oblong.solvers.online.state import Rows

__all__ = ["InputMixin"]

# Beyond, the square of an entry may overflow.
_LARGEST = 1e150


class InputMixin:
    """Checks of what comes in; nothing is changed before all of them have passed."""

    def _check_rows(self, X: Any, *, reset: bool) -> tuple[Any, Rows]:
        X = self._checked(X, reset=reset)
        return X, Rows.of(X)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Rows in C order or as CSR, of numbers whose squares are numbers."""
        options = {"dtype": [np.float64, np.float32], "order": "C", "accept_sparse": "csr"}
        X = validate_data(self, X, reset=reset, ensure_all_finite=False, **options)
        values = X.data if sp.issparse(X) else X.ravel()
        # One look at the entries: where the sum of their squares is fine, all of them are.
        with np.errstate(over="ignore"):
            fine = float(values.dot(values)) <= _LARGEST**2
        if not fine:
            validate_data(self, X, reset=False, **options)
            if max(float(values.max()), -float(values.min())) > _LARGEST:
                raise ValueError(f"Entries of X must be at most {_LARGEST:g} in absolute value")
        return X

    def _check_weights(self, sample_weight: Any, X: Any) -> np.ndarray:
        return check_weights(sample_weight, X, soft=self._is_soft())

    def _is_soft(self) -> bool:
        """Whether a violation has a cost, which a weight may scale."""
        return self._rule(self.n_features_in_).soft

    def _class_weighted(
        self, weights: np.ndarray, labels: np.ndarray, *, whole: bool
    ) -> np.ndarray:
        """Weights of rows times those of their classes, if the learner has such."""
        given = getattr(self, "class_weight", None)
        if given is None:
            return weights
        if self.multilabel_:
            raise ValueError("class_weight is not for label sets")
        if isinstance(given, str) and not whole:
            raise ValueError(
                'class_weight="balanced" needs all rows at once; pass the weights of the classes '
                "as a dict to learn from batches"
            )
        codes = labels[:, 0]
        factors = class_factors(given, self.classes_, codes, weights, allow_zero=True)
        found = weights * factors[codes]
        return check_weights(found, found[:, None], soft=self._is_soft())

    def _factor(self, label: Any) -> float:
        """Weight of a class, for a single example."""
        given = getattr(self, "class_weight", None)
        if given is None:
            return 1.0
        if isinstance(given, str):
            raise ValueError('class_weight="balanced" needs all rows at once')
        return float(given.get(label, 1.0))

    def _declare(self, classes: Any, y: Any, multilabel: bool) -> None:
        self.multilabel_ = multilabel
        if multilabel:
            self.classes_ = np.arange(indicator(y[:1]).shape[1])
            return
        if classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        self.classes_ = unique_labels(classes)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the data contains only one "
                f"class, {self.classes_.tolist()}"
            )

    def _encode(self, y: Any, n: int) -> np.ndarray:
        labels = indicator(y) if self.multilabel_ else encode(y, self.classes_)
        if len(labels) != n:
            raise ValueError(f"X has {n} rows, but y has {len(labels)}")
        if self.multilabel_ and labels.shape[1] != len(self.classes_):
            raise ValueError(f"y has {labels.shape[1]} labels, expected {len(self.classes_)}")
        return labels
