"""Notes on tables: they are said where they are true, and not where chance makes them so."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.cli.shared.options import spelled
from oblong.cli.shared.remarks import remarks, telltale_columns
from oblong.io.dataset import Schema, Table
from oblong.io.facts import Facts, LoneClass, Padded, Sentinel
from oblong.io.mixed_array import MixedArray


def table(X, y, names=None, facts=None):
    spellings = tuple(str(label) for label in np.unique(y))
    return Table(X, np.asarray(y), spellings, Schema(X.shape[1], names), "t", (), facts or Facts())


@pytest.mark.parametrize("kind", ["normal", "rounded", "flags", "gaps"])
def test_telltale_columns__noise_has_none(kind):
    """Small tables with many columns, above all, one of which may fit the labels by chance."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        n, d, k = rng.integers(4, 60), rng.integers(2, 60), rng.integers(2, 5)
        X = rng.normal(size=(n, d))
        if kind == "rounded":
            X = np.round(X)
        elif kind == "flags":
            X = np.sign(X)
        elif kind == "gaps":
            X[rng.random(X.shape) < 0.5] = np.nan
        y = rng.integers(0, k, n) if rng.random() < 0.5 else rng.random(n) < 0.1
        if len(np.unique(y)) > 1:
            assert not list(telltale_columns(table(X, y)))


@pytest.mark.parametrize("n", [40, 5000])
def test_telltale_columns__what_tells_the_class(n):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, n)
    codes = np.array([7, -2, 0])[y]
    gap = np.where(y == 1, np.nan, rng.normal(size=n))
    X = np.column_stack([rng.normal(size=n), codes, 2 * y - rng.random(n), gap])
    assert list(telltale_columns(table(X, y))) == [(1, 0), (2, 0)]
    # A gap tells too, and a class between two others has no side of its own.
    assert list(telltale_columns(table(X, y == 1))) == [(1, 0), (3, 0)]
    words = MixedArray(X[:, :1], [y], [["rot", "grün", "blau"]], [1])
    assert list(telltale_columns(table(words, y))) == [(1, 0)]
    assert not list(telltale_columns(table(sp.csr_matrix(np.nan_to_num(X)), y)))
    # What a single column says is no surprise.
    assert not list(telltale_columns(table(X[:, 1:2], y)))


def test_telltale_columns__with_exceptions():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 4000)
    X = np.column_stack([rng.normal(size=4000), y, y])
    X[:4, 1], X[:5, 2] = 1 - y[:4], 1 - y[:5]
    assert list(telltale_columns(table(X, y))) == [(1, 4)]
    assert "alone tells the class of all rows but 4; if" in remarks(table(X, y))[0]


def test_remarks__sentences():
    rng = np.random.default_rng(3)
    facts = Facts(
        (Padded('"zip"', "01234", 2),), (Sentinel("3", -999, 12),), (LoneClass("total", 9, True),)
    )
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    assert [spelled(text) for text in remarks(table(X, y, facts=facts))] == [
        'column "zip" has numbers with leading zeros, such as "01234" in row 2; if they are codes, '
        "name it in --categorical or leave it out with --drop",
        "column 3 has -999 in 12 rows, far from its other values; if that means unknown, --missing "
        "-999 and --impute treat it so",
        'class "total" has a single row, row 9, the last; if it is no class, remove the row',
    ]
    several = tuple(LoneClass(name, row, False) for name, row in (("a", 4), ("b", 7)))
    assert remarks(table(X, y, facts=Facts((), (), several))) == [
        '2 classes have a single row: "a" (row 4), "b" (row 7)'
    ]
    telltale = np.column_stack([X, y])
    assert spelled(remarks(table(telltale, y, ["a", "b", "won flag"]))[0]) == (
        'column "won flag" alone tells the class of every row; if it is known only after the '
        "class, leave it out with --drop"
    )


@pytest.mark.parametrize(
    ("classes", "rows", "said"), [(40, 4, True), (40, 40, False), (9, 4, False)]
)
def test_remarks__amounts_are_no_classes(classes, rows, said):
    y = np.repeat(np.arange(classes), rows)
    X = np.random.default_rng(4).normal(size=(len(y), 2))
    assert [("MarginRegressor" in text) for text in remarks(table(X, y))] == [True] * said
