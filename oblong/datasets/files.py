"""Reading labelled tables from files and standard input."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from pathlib import Path

import numpy as np

from oblong.datasets._binary import read_npz, read_parquet
from oblong.datasets._dataset import DataFileError, Dataset, quote
from oblong.datasets._delimited import read_delimited
from oblong.datasets._svmlight import looks_like_svmlight, read_svmlight

__all__ = ["EXTENSIONS", "fetch", "is_compressed", "read_table", "sniff"]

EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
    ".svm": "svmlight",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    # The content decides.
    ".txt": None,
    ".data": None,
    "": None,
}


def read_table(path: str | os.PathLike[str], target: str | None = None) -> Dataset:
    """Read a labelled table.

    The format follows from the extension: CSV (``.csv``, ``.tsv``), LIBSVM / SVMlight
    (``.libsvm``, ``.svmlight``, ``.svm``; the features come back as a CSR matrix), Parquet
    (``.parquet``) or NPZ (``.npz``, see :func:`oblong.datasets.load`), each also compressed as
    ``.gz`` or ``.zst``. Without an extension, for ``.txt`` and ``.data``, and for standard input
    the content decides.

    Parameters
    ----------
    path : str or path-like
        The file; ``"-"`` is standard input.
    target : str, optional
        Name of the label column of a CSV or Parquet file, the last column by default. In a CSV
        file without a header it is the number of the column, counted from 1.

    Returns
    -------
    Dataset
        Features are finite floats; labels are integers if all of them are, else strings.

    Raises
    ------
    DataFileError
        In one line: the file, the row (of text: the line, counted from 1), the column and what
        was expected there.

    Examples
    --------
    >>> import os, tempfile
    >>> from oblong.datasets import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fruit.csv")
    ...     with open(path, "w") as file:
    ...         print("weight,length,kind", file=file)
    ...         print("150,7,apple", file=file)
    ...         print("120,19,banana", file=file)
    ...     fruit = read_table(path)
    >>> fruit.feature_names, fruit.target_names
    (('weight', 'length'), ('apple', 'banana'))
    >>> fruit.X
    array([[150.,   7.],
           [120.,  19.]])
    """
    source, extension, data = fetch(path)
    kind = EXTENSIONS[extension] or sniff(data)
    feature_names: tuple[str, ...] | None = None
    if target is not None and kind in ("svmlight", "npz"):
        where = "the first field" if kind == "svmlight" else 'the array "y"'
        raise DataFileError(source, f"the target of this format is {where}; leave --target out")
    if kind == "npz":
        dataset = read_npz(data, source, name=source)
    else:
        if kind == "svmlight":
            X, y = read_svmlight(data, source)
        elif kind == "parquet":
            X, y, feature_names = read_parquet(data, source, target)
        else:
            X, y, feature_names = read_delimited(
                data, source, target, delimiter="\t" if kind == "tsv" else None
            )
        dataset = Dataset(X, y, feature_names, tuple(str(c) for c in np.unique(y)), name=source)
    if len(dataset.target_names) < 2:
        problem = f"expected two or more classes, got only {quote(dataset.target_names[0])}"
        raise DataFileError(source, problem)
    return dataset


def fetch(path: str | os.PathLike[str]) -> tuple[str, str, bytes]:
    """Read a file, or standard input for ``"-"``, and undo its compression.

    Returns the source for messages, the extension without that of a compression, and the content.
    """
    if path == "-":
        source, extension, data = "standard input", "", sys.stdin.buffer.read()
    else:
        source, extension, data = _read(Path(path))
    # What the content is counts, not what it is called.
    for magic, decompress in _COMPRESSIONS.items():
        if data.startswith(magic):
            data = decompress(data, source)
    return source, extension, data


def _read(path: Path) -> tuple[str, str, bytes]:
    name = path.name or str(path)
    source = name if name.isprintable() else ascii(name)
    bare = path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path
    extension = bare.suffix.lower()
    if path.is_dir():
        raise DataFileError(source, "expected a file, got a folder")
    if extension not in EXTENSIONS:
        known = ", ".join(e for e in EXTENSIONS if e)
        problem = (
            f"unknown file type {quote(extension)}; expected one of {known}, or any of them .gz "
            f"or .zst"
        )
        raise DataFileError(source, problem)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataFileError(source, f"cannot be read: {error.strerror or error}") from None
    return source, extension, data


def _gunzip(data: bytes, source: str) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataFileError(source, f"damaged gzip file ({error})") from None


def _unzstd(data: bytes, source: str) -> bytes:
    try:
        import pyarrow as pa
    except ImportError:
        raise DataFileError(
            source, 'reading zstd needs pyarrow: pip install "oblong[cli]"'
        ) from None
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            return stream.read()
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or ["no reason"])[0][:100]
        raise DataFileError(source, f"damaged zstd file ({reason})") from None


_COMPRESSIONS = {b"\x1f\x8b": _gunzip, b"\x28\xb5\x2f\xfd": _unzstd}


def is_compressed(data: bytes) -> bool:
    """Tell from the content whether a file is compressed."""
    return data.startswith(tuple(_COMPRESSIONS))


def sniff(data: bytes) -> str:
    """Tell the format from the content."""
    if data.startswith(b"PAR1"):
        return "parquet"
    if data.startswith(b"PK\x03\x04"):
        return "npz"
    for line in data[:65536].splitlines():
        if line.strip() and not line.startswith(b"#"):
            return "svmlight" if looks_like_svmlight(line) else "csv"
    return "csv"
