"""NPZ archives: arrays by name."""

import io
import zipfile

import numpy as np
import scipy.sparse as sp

from oblong._core.text import quote
from oblong.io.dataset import Dataset, Matrix
from oblong.io.errors import DataFileError, first_line


def read_npz(
    data: bytes | io.BufferedIOBase,
    source: str,
    name: str,
    *,
    labelled: bool = True,
    gaps: bool = False,
) -> Dataset:
    """Read an NPZ archive; pickled objects are never loaded.

    Dense archives hold ``X`` and ``y``; sparse ones ``X_data``, ``X_indices``, ``X_indptr`` and
    ``X_shape`` in place of ``X``. Optional: ``target_names`` (then ``y`` counts into it),
    ``feature_names``, and a test part as ``X_test…`` and ``y_test``. Rows to predict need no
    ``y`` (``labelled=False``); entries may be nan if there may be gaps (``gaps=True``).
    """
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    try:
        _check_expansion(stream, source)
        archive = np.load(stream, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataFileError(source, "expected an NPZ archive of several arrays, got one array")
        _check_members(archive.files, source)
        arrays = {key: archive[key] for key in archive.files}
    except DataFileError:
        raise
    # What NumPy, zipfile and decompression raise is documented nowhere.
    except Exception as error:
        what = (
            "holds Python objects, which are never loaded"
            if "allow_pickle" in str(error)
            else f"damaged NPZ archive ({first_line(error)})"
        )
        raise DataFileError(source, what) from None

    X = _features(arrays, "X", source, gaps)
    if not labelled:
        return Dataset(X, np.zeros(X.shape[0], dtype=np.int64), None, (), name=name)
    y = _targets(arrays, "y", X.shape[0], source)
    X_test = y_test = None
    if "y_test" in arrays:
        X_test = _features(arrays, "X_test", source, gaps)
        y_test = _targets(arrays, "y_test", X_test.shape[0], source)
        if X_test.shape[1] != X.shape[1]:
            problem = f"expected {X.shape[1]} columns as in X, got {X_test.shape[1]}"
            raise DataFileError(source, problem, column=quote("X_test"))
    columns = arrays.get("feature_names")
    if columns is not None and columns.shape != (X.shape[1],):
        problem = f"expected {X.shape[1]} names, got the shape {columns.shape}"
        raise DataFileError(source, problem, column=quote("feature_names"))
    return Dataset(
        X,
        y,
        feature_names=None if columns is None else tuple(str(c) for c in columns),
        target_names=_target_names(arrays.get("target_names"), np.unique(y), source),
        name=name,
        X_test=X_test,
        y_test=y_test,
    )


_HARMLESS, _MOST_EXPANSION = 1 << 28, 200


def _check_members(names: list[str], source: str) -> None:
    """Refuse archives of something else."""
    if "[Content_Types].xml" in names:
        workbook = any(name.startswith("xl/") for name in names)
        kind = "an Excel workbook" if workbook else "an Office document"
        raise DataFileError(source, f"expected rows, got {kind}", advice="save it as CSV")
    if names and not any(name.endswith(".npy") or "." not in name for name in names):
        problem = f"expected an NPZ archive, got a ZIP archive of {quote(names[0])}"
        raise DataFileError(source, problem, advice="unpack it; gzip and Zstandard can be read")


def _check_expansion(stream: io.BytesIO | io.BufferedIOBase, source: str) -> None:
    """Refuse an archive that is small and would fill the memory."""
    magic = stream.read(2)
    stream.seek(0)
    if magic != b"PK":
        return
    with zipfile.ZipFile(stream) as archive:
        size = sum(member.file_size for member in archive.infolist())
    compressed = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if size > max(_HARMLESS, _MOST_EXPANSION * compressed):
        problem = (
            f"damaged or unreadable (it expands to more than {_MOST_EXPANSION} times its size)"
        )
        raise DataFileError(source, problem)


def _features(arrays: dict[str, np.ndarray], key: str, source: str, gaps: bool) -> Matrix:
    parts = [f"{key}_{part}" for part in ("data", "indices", "indptr", "shape")]
    if key in arrays:
        X = arrays[key]
        if X.ndim != 2 or 0 in X.shape:
            problem = f"expected a table with rows and columns, got the shape {X.shape}"
            raise DataFileError(source, problem, column=quote(key))
        values = X
    elif all(part in arrays for part in parts):
        content, indices, indptr, shape = (arrays[part] for part in parts)
        try:
            X = sp.csr_matrix(
                (content, indices.astype(np.int64), indptr.astype(np.int64)),
                shape=tuple(int(s) for s in shape),
            )
            X.check_format(full_check=True)
        except (ValueError, TypeError, IndexError) as error:
            problem = f"expected a CSR matrix ({first_line(error)})"
            raise DataFileError(source, problem, column=quote(key)) from None
        values, gaps = X.data, False
    else:
        found = ", ".join(quote(k) for k in sorted(arrays)[:12]) or "nothing"
        raise DataFileError(source, f"expected the array {quote(key)}, found {found}")
    if values.dtype.kind not in "fiub":
        problem = f"expected numbers, got the type {values.dtype}"
        raise DataFileError(source, problem, column=quote(key))
    if values.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    bad = np.argwhere(np.isinf(values) if gaps else ~np.isfinite(values))
    if len(bad):
        row, column = bad[0] if values.ndim == 2 else _place(X, bad[0][0])
        raise DataFileError(
            source,
            f"expected a finite number, got {values[tuple(bad[0])]}",
            row=int(row) + 1,
            column=str(int(column) + 1),
            cause="missing" if np.isnan(values[tuple(bad[0])]) else "infinite",
        )
    return X


def _place(X: sp.csr_matrix, entry: int) -> tuple[int, int]:
    """Row and column of a stored entry of a CSR matrix."""
    return int(np.searchsorted(X.indptr, entry, side="right")) - 1, int(X.indices[entry])


def _targets(arrays: dict[str, np.ndarray], key: str, rows: int, source: str) -> np.ndarray:
    if key not in arrays:
        raise DataFileError(source, f"expected the array {quote(key)}")
    y = arrays[key]
    if y.ndim != 1 or len(y) != rows:
        problem = f"expected {rows} labels, got the shape {y.shape}"
        raise DataFileError(source, problem, column=quote(key))
    if y.dtype.kind == "b":
        return y.astype(np.int64 if "target_names" in arrays else str)
    if y.dtype.kind in "fiu":
        if y.dtype.kind == "f":
            whole = (y == np.rint(y)) & (np.abs(y.astype(np.float64)) < 2.0**63)
        else:
            whole = y <= np.iinfo(np.int64).max
        if not whole.all():
            row = int(np.flatnonzero(~whole)[0]) + 1
            problem = f"expected a class label, got {quote(y[row - 1])}"
            raise DataFileError(source, problem, row=row, column=quote(key))
        return y.astype(np.int64)
    if y.dtype.kind == "U":
        return y
    raise DataFileError(source, f"expected labels, got the type {y.dtype}", column=quote(key))


def _target_names(names: np.ndarray | None, classes: np.ndarray, source: str) -> tuple[str, ...]:
    if names is None:
        return tuple(str(c) for c in classes)
    if classes.dtype.kind != "i" or classes[0] < 0 or classes[-1] >= len(names):
        problem = f"expected labels from 0 to {len(names) - 1}, one for each target name"
        raise DataFileError(source, problem, column=quote("y"))
    return tuple(str(names[c]) for c in classes)
