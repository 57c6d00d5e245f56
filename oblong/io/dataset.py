"""What readers return: data sets, tables, and what their columns are."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from oblong.io.dialect import Dialect
from oblong.io.facts import Facts
from oblong.io.mixed_array import MixedArray

Matrix: TypeAlias = np.ndarray | sp.csr_matrix


@dataclass(frozen=True, eq=False)
class Dataset:
    """A classification data set.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n_samples, n_features)
        Features, floating point and finite.
    y : ndarray of shape (n_samples,)
        Labels: integers or strings.
    feature_names : tuple of str, or None
        One name per column; None where the source names none.
    target_names : tuple of str
        ``target_names[k]`` is how to print ``np.unique(y)[k]``.
    name : str
        Short name of the set.
    description : str
        One sentence on where the data comes from.
    X_test, y_test : as `X` and `y`, or None
        The set's own test part, where it has one.
    """

    X: Matrix
    y: np.ndarray
    feature_names: tuple[str, ...] | None
    target_names: tuple[str, ...]
    name: str
    description: str = ""
    X_test: Matrix | None = None
    y_test: np.ndarray | None = None


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
    zero_based : bool or None
        Whether indices of LIBSVM rows counted from 0.
    hashed : list of int
        Which of the columns of text hold free text.
    dates : list of [int, str]
        Which features are dates, read as days since 1970, and how they are written.
    places : list of int or None
        Where the features are among all columns, where some were left out.
    width : int or None
        Number of all columns.
    sparse : bool or None
        Whether rows are JSON objects from which most names are absent: those are zero.
    dialect : dict or None
        How the text of the table is written, as JSON values of a
        :class:`~oblong.io.dialect.Dialect`.
    """

    n_features: int
    feature_names: list[str] | None = None
    text: list[int] | None = None
    target: str | None = None
    target_position: int | None = None
    zero_based: bool | None = None
    hashed: list[int] | None = None
    dates: list[list[Any]] | None = None
    places: list[int] | None = None
    width: int | None = None
    sparse: bool | None = None
    dialect: dict[str, Any] | None = None

    @property
    def numbers(self) -> list[int]:
        """Features that are numbers."""
        return [j for j in range(self.n_features) if j not in (self.text or ())]

    @property
    def categories(self) -> list[int]:
        """Features that are categories."""
        return [j for j in self.text or () if j not in (self.hashed or ())]

    def to_json(self) -> dict[str, Any]:
        """The schema as JSON values; what is not there is left out, for earlier versions."""
        node = asdict(self)
        later = ("hashed", "dates", "places", "width", "sparse", "dialect")
        return {k: v for k, v in node.items() if v is not None or k not in later}

    @classmethod
    def from_json(cls, node: Any) -> Schema:
        """The way back; raises ``ValueError`` for anything else."""
        try:
            schema = cls(**node)
            if schema.dialect is not None:
                Dialect.from_json(schema.dialect)
            n, names, text = schema.n_features, schema.feature_names, schema.text or []
            columns = [*text, *(j for j, form in schema.dates or () if isinstance(form, str))]
            sound = (
                type(n) is int
                and n > 0
                and (names is None or [str(name) for name in names] == names)
                and all(len(part) == n for part in (names, schema.places) if part is not None)
                and len(columns) == len(text) + len(schema.dates or ())
                and all(type(j) is int and 0 <= j < n for j in columns)
                and all(type(j) is int and j >= 0 for j in schema.places or ())
                and set(schema.hashed or ()) <= set(text)
                and isinstance(schema.target, (str, type(None)))
                and isinstance(schema.target_position, (int, type(None)))
                and isinstance(schema.zero_based, (bool, type(None)))
                and isinstance(schema.sparse, (bool, type(None)))
                and isinstance(schema.width, (int, type(None)))
            )
        except (TypeError, ValueError):
            sound = False
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
    notes : tuple of str
        What may not be as it was meant.
    facts : Facts
        The same, where commands put it into words.
    """

    X: Matrix | MixedArray
    y: np.ndarray
    target_names: tuple[str, ...]
    schema: Schema
    name: str
    notes: tuple[str, ...] = ()
    facts: Facts = field(default_factory=Facts)

    @classmethod
    def of(cls, dataset: Dataset) -> Table:
        """A data set as a table."""
        names = dataset.feature_names
        schema = Schema(dataset.X.shape[1], None if names is None else list(names))
        return cls(dataset.X, dataset.y, dataset.target_names, schema, dataset.name)
