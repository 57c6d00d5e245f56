"""Data sets by name: built in, in a local folder, or on OpenML."""

import os
import re
import zipfile
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from oblong._core.text import quote
from oblong.io.dataset import Dataset
from oblong.io.errors import DataFileError, first_line
from oblong.io.labels import decode_labels
from oblong.io.npz import read_npz

# Sets of scikit-learn, which is loaded with the first of them, and generated ones.
_BUNDLED = {
    "breast_cancer": "Shapes of cell nuclei in breast tissue, malignant or benign.",
    "digits": "Handwritten digits, 8 x 8 grey levels.",
    "iris": "Petal and sepal sizes of three kinds of iris.",
    "wine": "Chemical analyses of wines from three cultivars.",
}
_GENERATED = {
    "parallel_lines": "Two classes on parallel lines, stretched along them.",
    "tilted_gaussians": "Two long Gaussians side by side, stretched along their boundary.",
}
BUILT_IN = (*_BUNDLED, *_GENERATED)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def available(data_home: str | os.PathLike[str] | None = None) -> list[str]:
    """List the names that :func:`load` finds without a network.

    Parameters
    ----------
    data_home : path-like, optional
        Folder of NPZ sets; by default the environment variable ``OBLONG_DATA``.

    Examples
    --------
    >>> from oblong.datasets import available
    >>> {"breast_cancer", "tilted_gaussians"} <= set(available())
    True
    """
    folder = _folder(data_home)
    stems = {path.stem for path in folder.glob("*.npz")} if folder else set()
    return sorted({*BUILT_IN, *filter(_NAME.fullmatch, stems)})


@dataclass(frozen=True)
class DatasetSummary:
    """A data set in a line; ``rows`` and ``features`` are None where the file does not say."""

    name: str
    rows: int | None
    features: int | None
    description: str


def summaries(data_home: str | os.PathLike[str] | None = None) -> list[DatasetSummary]:
    """List the sets of :func:`available` with their sizes; large files are not read.

    Parameters
    ----------
    data_home : path-like, optional
        Folder of NPZ sets; by default the environment variable ``OBLONG_DATA``.
    """
    folder, found = _folder(data_home), []
    for name in available(data_home):
        if name in BUILT_IN:
            dataset = load(name)
            rows, features = dataset.X.shape
            found.append(DatasetSummary(name, rows, features, dataset.description))
        elif folder is not None:
            rows, features = _size(folder / f"{name}.npz")
            found.append(DatasetSummary(name, rows, features, f"{name}.npz in the data folder"))
    return found


def _size(path: Path) -> tuple[int | None, int | None]:
    """Shape of the features of an NPZ set, from the headers of its arrays alone."""
    try:
        with zipfile.ZipFile(path) as archive:
            sparse = "X_shape.npy" in archive.namelist()
            with archive.open("X_shape.npy" if sparse else "X.npy") as member:
                if sparse:
                    shape = np.lib.format.read_array(member, allow_pickle=False).tolist()
                else:
                    version = np.lib.format.read_magic(member)
                    read = {
                        (1, 0): np.lib.format.read_array_header_1_0,
                        (2, 0): np.lib.format.read_array_header_2_0,
                    }[version]
                    shape = read(member)[0]
        rows, features = (int(n) for n in shape)
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
        return None, None
    return rows, features


def load(name: str, data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name.

    The sets built in come first, then ``<data_home>/<name>.npz``, then OpenML.

    Parameters
    ----------
    name : str
        Name of the set.
    data_home : path-like, optional
        Folder of NPZ sets; by default the environment variable ``OBLONG_DATA``. A set holds
        ``X``, ``y`` and optionally ``target_names``, ``feature_names``, ``X_test`` and
        ``y_test``; a sparse ``X`` is stored as its CSR parts ``X_data``, ``X_indices``,
        ``X_indptr`` and ``X_shape``. Pickled objects are never loaded.

    Returns
    -------
    Dataset
        The data, with its names.

    Raises
    ------
    DataFileError
        If the set is unknown, damaged or has missing values.

    Examples
    --------
    >>> from oblong.datasets import load
    >>> wine = load("wine")
    >>> wine.X.shape, wine.target_names
    ((178, 13), ('class_0', 'class_1', 'class_2'))
    """
    if name in _BUNDLED:
        from sklearn import datasets as bundled

        bunch = getattr(bundled, f"load_{name}")()
        return Dataset(
            bunch.data,
            bunch.target,
            feature_names=tuple(bunch.feature_names),
            target_names=tuple(str(t) for t in bunch.target_names),
            name=name,
            description=_BUNDLED[name],
        )
    if name in _GENERATED:
        from oblong.datasets import generators

        make = getattr(generators, f"make_{name}")
        X, y = make(n_samples=200, stretch=4.0, random_state=0)
        return Dataset(X, y, ("x1", "x2"), ("0", "1"), name, _GENERATED[name])
    if not _NAME.fullmatch(name):
        raise DataFileError(quote(name), "expected the name of a data set")
    folder = _folder(data_home)
    if folder and (folder / f"{name}.npz").is_file():
        with open(folder / f"{name}.npz", "rb") as stream:
            return read_npz(stream, f"{name}.npz", name)
    return _from_openml(name, data_home)


def _folder(data_home: str | os.PathLike[str] | None) -> Path | None:
    place = data_home or os.environ.get("OBLONG_DATA")
    return Path(place).expanduser() if place else None


def _from_openml(name: str, data_home: str | os.PathLike[str] | None) -> Dataset:
    from sklearn import datasets as bundled

    try:
        # This parser needs no pandas; it codes nominal features as integers.
        bunch = bundled.fetch_openml(name, as_frame=False, parser="liac-arff")
    except (OSError, ValueError) as error:
        close = get_close_matches(name, available(data_home), n=1)
        hint = f"did you mean {quote(close[0])}? " if close else ""
        problem = f"not built in, not in the data folder; {hint}(OpenML: {first_line(error)})"
        raise DataFileError(quote(name), problem) from None
    X = bunch.data
    missing = np.argwhere(~np.isfinite(X.data if hasattr(X, "indptr") else X))
    if len(missing):
        raise DataFileError(quote(name), "the set on OpenML has missing values")
    spellings, codes = np.unique(np.asarray(bunch.target, dtype=str), return_inverse=True)
    y = decode_labels(spellings.tolist(), codes)
    return Dataset(
        X,
        y,
        feature_names=tuple(bunch.feature_names),
        target_names=tuple(str(c) for c in np.unique(y)),
        name=name,
        description="From OpenML.",
    )
