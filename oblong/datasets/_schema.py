"""What the columns of a table are, and the table itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from oblong.datasets._dataset import Dataset, Matrix
from oblong.datasets._mixed import MixedArray

__all__ = ["Schema", "Table"]


@dataclass(frozen=True)
class Schema:
    """What the columns of a table are, as a model remembers it.

    Attributes
    ----------
    n_features : int
        Number of features.
    feature_names : list of str, or None
        Their names, where the table has any.
    text : list of int
        Which of them hold text.
    target : str or None
        Name of the label column.
    target_position : int or None
        Its place among all columns, where columns have no names.
    """

    n_features: int
    feature_names: list[str] | None = None
    text: list[int] | None = None
    target: str | None = None
    target_position: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The schema as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, node: Any) -> Schema:
        """The way back; raises ``ValueError`` for anything else."""
        try:
            schema = cls(**node)
        except TypeError:
            raise ValueError("not a schema") from None
        names, text = schema.feature_names, schema.text
        sound = (
            type(schema.n_features) is int
            and schema.n_features > 0
            and (names is None or (isinstance(names, list) and len(names) == schema.n_features))
            and all(isinstance(name, str) for name in names or ())
            and (text is None or isinstance(text, list))
            and all(type(j) is int and 0 <= j < schema.n_features for j in text or ())
            and isinstance(schema.target, (str, type(None)))
            and isinstance(schema.target_position, (int, type(None)))
        )
        if not sound:
            raise ValueError("not a schema")
        return schema


@dataclass(frozen=True, eq=False)
class Table:
    """A labelled table whose features may have gaps and text.

    Attributes
    ----------
    X : ndarray, csr_matrix or MixedArray of shape (n_samples, n_features)
        Features: floating point, nan in gaps; mixed if columns hold text.
    y : ndarray of shape (n_samples,)
        Labels: integers or strings.
    target_names : tuple of str
        How the table spells ``np.unique(y)``.
    schema : Schema
        What the columns are.
    name : str
        Name of the source.
    """

    X: Matrix | MixedArray
    y: np.ndarray
    target_names: tuple[str, ...]
    schema: Schema
    name: str

    @classmethod
    def of(cls, dataset: Dataset) -> Table:
        """A data set as a table."""
        names = dataset.feature_names
        schema = Schema(dataset.X.shape[1], None if names is None else list(names))
        return cls(dataset.X, dataset.y, dataset.target_names, schema, dataset.name)
