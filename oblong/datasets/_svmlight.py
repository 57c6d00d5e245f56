"""LIBSVM / SVMlight text: ``label index:value index:value … # comment``."""

from __future__ import annotations

import io
import math
import re
from array import array

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from oblong.datasets._dataset import DataFileError, decode_labels, quote
from oblong.datasets._delimited import MISSING

__all__ = ["looks_like_svmlight", "read_svmlight", "svmlight_labels"]

_ROW = re.compile(rb"\S+([ \t]+qid:\S+)?([ \t]+[0-9]+:\S+)+[ \t]*(#.*)?")

_LABEL = re.compile(rb"^[ \t]*([^\s#]+)", re.MULTILINE)


def looks_like_svmlight(line: bytes) -> bool:
    """Tell whether a line reads as a label followed by index:value pairs."""
    return _ROW.fullmatch(line.strip()) is not None


def read_svmlight(data: bytes, source: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Read LIBSVM text into a sparse matrix and labels.

    Indices count from 1, or from 0 if an index 0 occurs. ``qid`` fields and comments are
    skipped. Labels may be any word; whole numbers become integers.
    """
    try:
        X, labels = load_svmlight_file(io.BytesIO(data), zero_based="auto")
    except Exception:
        # The fast parser fails in many ways and says neither row nor column.
        return _read_carefully(data, source)
    # Beyond 2^53 different numbers may have become one.
    whole = len(labels) and np.all((labels == np.rint(labels)) & (np.abs(labels) < 2.0**53))
    if not whole or not np.isfinite(X.data).all() or X.nnz == 0:
        return _read_carefully(data, source)
    return X, labels.astype(np.int64)


def svmlight_labels(data: bytes, y: np.ndarray) -> tuple[str, ...]:
    """How the text spells ``np.unique(y)``: ``+1`` is not ``1`` to who reads predictions."""
    classes = np.unique(y)
    found = dict.fromkeys(_LABEL.findall(data))
    first: dict[str, str] = {}
    for word in (word.decode("utf-8", "replace") for word in found):
        first.setdefault(_whole(word), word)
    return tuple(first.get(str(label), str(label)) for label in classes)


def _read_carefully(data: bytes, source: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Read row by row; raise at the first field that is not what it should be."""
    values, indices, indptr, codes = array("d"), array("q"), array("q", [0]), array("q")
    seen: dict[str, int] = {}
    for row, line in enumerate(io.BytesIO(data), start=1):
        try:
            fields = line.decode("utf-8-sig").partition("#")[0].split()
        except UnicodeDecodeError:
            raise DataFileError(source, "expected UTF-8 text", row=row) from None
        if not fields:
            continue
        label, *pairs = fields
        if ":" in label:
            problem = f"expected a class label first, got {quote(label)}"
            raise DataFileError(source, problem, row=row, column="1")
        if label.lower() in MISSING:
            problem = f"expected a class label, got {quote(label)}"
            raise DataFileError(source, problem, row=row, column="1")
        if "," in label:
            problem = f"expected one class label, got {quote(label)}"
            raise DataFileError(source, problem, row=row, column="1")
        codes.append(seen.setdefault(_whole(label), len(seen)))
        last = -1
        for position, pair in enumerate(pairs, start=2):
            if pair.startswith("qid:"):
                continue
            index, value = _pair(pair, source, row, position)
            if index <= last:
                problem = f"expected an index above {last}, got {quote(pair)}"
                raise DataFileError(source, problem, row=row, column=str(position))
            indices.append(index)
            values.append(value)
            last = index
        indptr.append(len(values))
    if not codes:
        raise DataFileError(source, "the file is empty")
    if not values:
        raise DataFileError(source, "expected index:value pairs after the labels, got none")
    columns = np.frombuffer(indices, dtype=np.int64)
    first = 0 if columns.min() == 0 else 1
    X = sp.csr_matrix(
        (np.frombuffer(values), columns - first, np.frombuffer(indptr, dtype=np.int64)),
        shape=(len(codes), int(columns.max()) + 1 - first),
    )
    return X, decode_labels(list(seen), np.frombuffer(codes, dtype=np.int64))


def _whole(label: str) -> str:
    """Spell whole numbers alike: ``+1``, ``1`` and ``1.0`` are one class in this format."""
    if re.fullmatch(r"[+-]?[0-9]{1,18}", label):
        return str(int(label))
    try:
        number = float(label)
    except ValueError:
        return label
    return str(int(number)) if number.is_integer() and abs(number) < 2.0**53 else label


def _pair(pair: str, source: str, row: int, position: int) -> tuple[int, float]:
    index, colon, value = pair.partition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,10}", index) or int(index) >= 2**31:
        problem = f"expected index:value, got {quote(pair)}"
        raise DataFileError(source, problem, row=row, column=str(position))
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        problem = f"expected a finite number after the colon, got {quote(pair)}"
        raise DataFileError(source, problem, row=row, column=str(position))
    return int(index), number
