"""Rows to predict by a model whose features were hashed."""

from __future__ import annotations

import os
from typing import Any

from oblong._core.text import quote
from oblong.io.csv import Csv
from oblong.io.errors import DataFileError
from oblong.io.formats import Format
from oblong.io.jsonl import JSON
from oblong.io.layout import find_format, make_format, table_columns
from oblong.io.rows import Rows
from oblong.io.sources import LineBuffer

__all__ = ["read_hashed_rows"]


def read_hashed_rows(path: str | os.PathLike[str], hashing: dict[str, Any]) -> Any:
    """Read rows of text as the stream did that a model has learned from.

    Parameters
    ----------
    path : str or path-like
        The file; ``"-"`` is standard input.
    hashing : dict
        The number of bits, ``"bits"``, columns of texts, ``"text"``, and the names of columns that
        are no features, ``"others"``, which may be there or not.

    Returns
    -------
    csr_matrix of shape (n_rows, 2 ** bits)
        The rows.
    """
    import scipy.sparse as sp

    bits, texts, others = int(hashing["bits"]), hashing["text"], set(hashing["others"])
    lines = LineBuffer(path)
    try:
        kind = find_format(path, lines)
        made: Format
        if kind == "json":
            label = hashing["others"][0] if others else None
            made = JSON(bits, 0, target=label, vocabulary={}, labelled=False, texts=texts)
        elif kind == "libsvm":
            made = make_format(kind, lines, bits=bits)
        elif kind in ("csv", "tsv"):
            delimiter = "\t" if kind == "tsv" else None
            columns = table_columns(lines, delimiter=delimiter, labelled=False)
            known = [j for j in columns.features if columns.names[j] not in others]
            made = Csv(bits, columns, features=known, texts=texts)
        else:
            raise DataFileError(lines.source, f"expected rows of text, got {quote(kind)}")
        parts = [batch.matrix(1 << bits) for batch in Rows(lines, made, None)]
    finally:
        lines.close()
    if not parts:
        raise DataFileError(lines.source, "expected rows, got none")
    return sp.vstack(parts, format="csr")
