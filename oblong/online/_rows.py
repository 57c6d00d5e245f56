"""Rows of a batch: checked, and parted for early stopping."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from oblong.solvers.online.order import shuffled

# Beyond, the square of an entry may overflow.
_LARGEST = 1e150


def checked_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Rows in C order or as CSR, of numbers whose squares are numbers."""
    options = {"dtype": [np.float64, np.float32], "order": "C", "accept_sparse": "csr"}
    X = validate_data(estimator, X, reset=reset, ensure_all_finite=False, **options)
    values = X.data if sp.issparse(X) else X.ravel()
    # One look at the entries: where the sum of their squares is fine, all of them are.
    with np.errstate(over="ignore"):
        fine = float(values.dot(values)) <= _LARGEST**2
    if not fine:
        validate_data(estimator, X, reset=False, **options)
        if max(float(values.max()), -float(values.min())) > _LARGEST:
            raise ValueError(f"Entries of X must be at most {_LARGEST:g} in absolute value")
    return X


def hold_out(
    present: np.ndarray,
    keys: np.ndarray,
    weights: np.ndarray,
    share: float,
    random_state: np.random.RandomState,
) -> tuple[np.ndarray, np.ndarray]:
    """Part rows into those held out for early stopping and those to learn from."""
    ranks = shuffled(keys[present], random_state)
    totals = np.cumsum(weights[present][ranks])
    # Whole groups of equal rows, so that a copy of a held-out row is not learned from.
    _, group = np.unique(keys[present][ranks], return_inverse=True)
    cut = int(np.searchsorted(totals, share * totals[-1]))
    inside = np.isin(group, group[: max(1, cut)])
    held, rest = present[ranks[inside]], np.sort(present[ranks[~inside]])
    if not len(rest):
        raise ValueError("early_stopping left no rows to learn from")
    return held, rest
