"""From a table to what a classifier takes: gaps filled, text encoded, columns on one scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from oblong.io.tables import Table

__all__ = ["make_pipeline", "spread_of"]


def make_pipeline(table: Table, classifier: Any, impute: str | None) -> Pipeline:
    """Put before a classifier what the columns of a table need.

    Parameters
    ----------
    table : Table
        The training data.
    classifier : estimator
        The last step.
    impute : {"mean", "median", "most_frequent"} or None
        What gaps of numbers are filled with.

    Returns
    -------
    Pipeline
        Numbers are scaled, columns of text become one column a word; words that training has not
        seen become zeros.
    """
    sparse = sp.issparse(table.X)
    steps: list[tuple[str, Any]] = []
    if impute is not None and not sparse:
        steps.append(("impute", SimpleImputer(strategy=impute, keep_empty_features=True)))
    steps.append(("scale", MaxAbsScaler() if sparse else StandardScaler()))
    text = table.schema.text or []
    if text:
        words = set(text)
        numbers = [j for j in range(table.schema.n_features) if j not in words]
        parts = [("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), text)]
        if numbers:
            parts.insert(0, ("numbers", Pipeline(steps), numbers))
        steps = [("columns", ColumnTransformer(parts))]
    return Pipeline([*steps, ("model", classifier)])


def spread_of(X: Any) -> float:
    """The unit of kernel widths: one over features times variance, as ``gamma="scale"``."""
    variance = X.multiply(X).mean() - X.mean() ** 2 if sp.issparse(X) else np.var(X)
    return 1.0 / (X.shape[1] * float(variance)) if variance > 0.0 else 1.0 / X.shape[1]
