"""From a table to what a classifier takes: gaps filled, text encoded, columns on one scale."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from oblong._core.text import quote
from oblong.cli.shared.remarks import REGRESSION
from oblong.io.dataset import Dataset, Table
from oblong.io.errors import DataFileError
from oblong.io.numbers import is_number

# Columns to which the words of a column of free text are hashed.
TEXT_FEATURES = 1 << 12


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
        Numbers are scaled, columns of categories become one column per word, where words that
        training has not seen become zeros, and the words of free text are hashed to columns.
    """
    steps = scaling(table.X, impute)
    if table.schema.text:
        steps = [("columns", by_kind(table, Pipeline(steps)))]
    return Pipeline([*steps, ("model", classifier)])


def by_kind(table: Table, step: Any, **how: Any) -> ColumnTransformer:
    """What happens to columns of numbers, and encoders of categories and of free text."""
    schema = table.schema
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    parts = [("numbers", step, schema.numbers), ("text", encoder, schema.categories)]
    hasher = HashingVectorizer(n_features=TEXT_FEATURES)
    words = [(f"words {j}", hasher, j) for j in schema.hashed or ()]
    return ColumnTransformer([*(part for part in parts if part[2]), *words], **how)


def scaling(X: Any, impute: str | None) -> list[tuple[str, Any]]:
    """Steps that bring numbers to one scale; sparse ones keep their zeros and have no gaps."""
    if sp.issparse(X):
        return [("scale", MaxAbsScaler())]
    filler = SimpleImputer(strategy=impute or "median", keep_empty_features=True)
    return [*([("impute", filler)] if impute else []), ("scale", StandardScaler())]


def class_counts(table: Table | Dataset) -> np.ndarray:
    """Rows of every class; refuses labels that are numbers to predict."""
    counts = np.unique(table.y, return_counts=True)[1]
    if len(counts) > max(2, len(table.y) // 2):
        found = f"{len(counts)} different values in {len(table.y)} rows"
        problem = f"expected class labels, got {found}; choose the label column with --target"
        if all(map(is_number, table.target_names)):
            problem += f", or, for amounts, use {REGRESSION}"
        raise DataFileError(table.name, problem)
    return counts


def check_labels(table: Table, folds: int | None) -> None:
    """Refuse labels that are numbers to predict, and classes that `folds` would leave empty."""
    counts = class_counts(table)
    fewest = int(counts.min())
    if folds is not None and fewest < folds:
        name = quote(table.target_names[int(counts.argmin())])
        problem = f"class {name} has {fewest} rows, but --cv {folds} needs {folds} of every class"
        raise DataFileError(table.name, problem)


def spread_of(X: Any) -> float:
    """The unit of kernel widths: one over features times variance, as ``gamma="scale"``."""
    variance = X.multiply(X).mean() - X.mean() ** 2 if sp.issparse(X) else np.var(X)
    return 1.0 / (X.shape[1] * float(variance)) if variance > 0.0 else 1.0 / X.shape[1]
