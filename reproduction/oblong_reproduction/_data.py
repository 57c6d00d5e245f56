"""Data sets of the experiments: from a folder, or else from OpenML by their number."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import fetch_openml

from oblong.datasets import DataFileError, Dataset, load


@dataclass(frozen=True)
class Known:
    """What a set has to look like, and its number on OpenML.

    There is no number where OpenML has no such set, or has it in another form: with other rows,
    with missing values, or without telling the training part from the test part.
    """

    rows: int
    features: int
    test_rows: int = 0
    openml: int | None = None


KNOWN = {
    "a9a": Known(32_561, 123, 16_281),
    "adult": Known(32_561, 14, 16_281),
    "breast_wisconsin": Known(683, 9),
    "bupa": Known(345, 6),
    "covtype_93k": Known(92_962, 54),
    "dna": Known(2_000, 180, 1_186),
    "fashion_mnist": Known(60_000, 784, 10_000, openml=40996),
    "german_numeric": Known(1_000, 24),
    "heart": Known(270, 13, openml=53),
    "ida_banana": Known(5_300, 2),
    "ida_breast_cancer": Known(277, 9),
    "ida_diabetis": Known(768, 8),
    "ida_flare_solar": Known(1_066, 9),
    "ida_german": Known(1_000, 20),
    "ida_heart": Known(270, 13),
    "ida_image": Known(2_310, 18),
    "ida_ringnorm": Known(7_400, 20),
    "ida_splice": Known(3_175, 60),
    "ida_thyroid": Known(215, 5),
    "ida_titanic": Known(2_201, 3),
    "ida_twonorm": Known(7_400, 20),
    "ida_waveform": Known(5_000, 21),
    "ionosphere": Known(351, 34, openml=59),
    "iris": Known(150, 4, openml=61),
    "isolet": Known(6_238, 617, 1_559),
    "kddcup99_10pct": Known(494_020, 41),
    "letter": Known(20_000, 16, openml=6),
    "mnist": Known(60_000, 784, 10_000, openml=554),
    "mushroom": Known(8_124, 22),
    "new_thyroid": Known(215, 5),
    "news20_bydate": Known(11_314, 130_107, 7_532),
    "news20_bydate_stripped": Known(11_314, 101_632, 7_532),
    "optdigits": Known(3_823, 64, 1_797),
    "pendigits": Known(7_494, 16, 3_498),
    "pima": Known(768, 8, openml=37),
    "reuters_moneyfx": Known(7_770, 8_315, 3_299),
    "satimage": Known(4_435, 36, 2_000),
    "segment": Known(2_310, 19, openml=36),
    "sentiment_multidomain": Known(8_000, 473_856),
    "shuttle": Known(43_500, 9, 14_500),
    "sonar": Known(208, 60, openml=40),
    "splice": Known(3_190, 60),
    "usps": Known(7_291, 256, 2_007),
    "w1a": Known(2_477, 300),
    "w8a": Known(49_749, 300),
    "waveform": Known(5_000, 21),
    "wdbc": Known(569, 30, openml=1510),
}


class Sets:
    """The data sets that an experiment may ask for.

    Parameters
    ----------
    folder : path-like, optional
        Folder of NPZ files; by default the one that the variable ``OBLONG_DATA`` names. A set
        that is not there is taken from OpenML, where it has a number.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        place = folder or os.environ.get("OBLONG_DATA")
        self.folder = Path(place).expanduser().resolve() if place else None

    def source(self, name: str) -> str | None:
        """Where a set comes from, in words; None if it cannot be had."""
        if self._file(name):
            return "local folder"
        number = KNOWN[name].openml
        return None if number is None else f"OpenML {number}"

    def missing(self, name: str) -> str | None:
        """Why a set cannot be had, after a try; None if it can."""
        if self.source(name) is None:
            where = "not in the data folder" if self.folder else "no data folder was given"
            return f"{name}: {where}, and OpenML does not have it in this form"
        if self._file(name):
            return None
        try:
            self.load(name)
        except DataFileError as error:
            return str(error)
        return None

    def load(self, name: str) -> Dataset:
        """Load a set, with labels 0, 1, ...; many dense features are in single precision."""
        return _load(name, self.folder if self._file(name) else None)

    def extra(self, name: str, key: str) -> np.ndarray:
        """Return an array that lies beside a set in its file."""
        path = self._file(name)
        if path is None:
            raise DataFileError(name, f"the array {key!r} is in the file of the data folder only")
        with np.load(path, allow_pickle=False) as arrays:
            return arrays[key]

    def _file(self, name: str) -> Path | None:
        if self.folder is None:
            return None
        path = self.folder / f"{name}.npz"
        return path if path.is_file() else None


# Above this many values a set is kept in single precision: images need no more.
_MANY = 1 << 23


@lru_cache(maxsize=3)
def _load(name: str, folder: Path | None) -> Dataset:
    dataset = load(name, data_home=folder) if folder else _from_openml(name)
    expected, found = KNOWN[name], dataset.X.shape
    if found != (expected.rows, expected.features):
        raise DataFileError(
            name, f"expected {expected.rows} rows of {expected.features} features, got {found}"
        )
    X, X_test = dataset.X, dataset.X_test
    if not sp.issparse(X) and X.size >= _MANY:
        X = X.astype(np.float32)
        X_test = None if X_test is None else X_test.astype(np.float32)
    # Class names differ between the sources; their order does not.
    classes = np.unique(dataset.y)
    y_test = None if dataset.y_test is None else np.searchsorted(classes, dataset.y_test)
    return replace(
        dataset, X=X, y=np.searchsorted(classes, dataset.y), X_test=X_test, y_test=y_test
    )


def _from_openml(name: str) -> Dataset:
    known = KNOWN[name]
    try:
        bunch = fetch_openml(data_id=known.openml, as_frame=False, parser="liac-arff")
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataFileError(name, f"OpenML {known.openml}: {reason}") from None
    X = bunch.data
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise DataFileError(name, f"OpenML {known.openml} has missing values")
    y = _labels(np.asarray(bunch.target, dtype=str))
    tests = slice(known.rows, known.rows + known.test_rows) if known.test_rows else None
    return Dataset(
        X[: known.rows],
        y[: known.rows],
        tuple(bunch.feature_names),
        tuple(str(label) for label in np.unique(y)),
        name,
        f"From OpenML, number {known.openml}.",
        None if tests is None else X[tests],
        None if tests is None else y[tests],
    )


def _labels(spelled: np.ndarray) -> np.ndarray:
    """Numbers where all labels are numbers, so that 10 comes after 9; else the words."""
    try:
        return spelled.astype(np.float64)
    except ValueError:
        return spelled
