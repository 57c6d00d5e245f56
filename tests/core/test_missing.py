from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from oblong._core.missing import check_present, is_missing


@pytest.mark.parametrize(
    "value", [None, np.nan, float("nan"), np.float32("nan"), pd.NA, pd.NaT, Decimal("nan")]
)
def test_is_missing__is_true_of_what_stands_for_nothing(value):
    assert is_missing(value)
    with pytest.raises(ValueError, match=r"y has a missing value, .*, in row 1"):
        check_present(["a", value, "b"])
    with pytest.raises(ValueError, match="in row 1"):
        check_present(np.array(["a", value, "b"], dtype=object))


@pytest.mark.parametrize("value", ["", "nan", 0, 0.0, np.inf, False, np.bool_(False), b"", ()])
def test_is_missing__is_false_of_all_others(value):
    assert not is_missing(value)
    check_present([value])
    check_present(pd.Series([value], dtype=object))


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(["a", None]),
        pd.Series(["a", None], dtype="string"),
        pd.Series(["a", None], dtype="category"),
        pd.Series(["a", None], index=[7, 9]),
        pd.Index(["a", None]),
        pd.DataFrame({"y": ["a", None]}),
        pd.array(["a", None], dtype="string[pyarrow]"),
        pd.Series(pd.to_datetime(["2020-01-01", None])),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
        pl.Series(["a", None]),
        pl.Series([1, None]),
        pd.Series([1, None], dtype="Int64"),
        np.array([1.0, np.nan]),
        np.array([[1.0], [np.nan]], dtype=np.float32),
        ("a", None),
    ],
    ids=lambda y: f"{type(y).__name__} {getattr(y, 'dtype', '')}",
)
def test_check_present__finds_the_row_in_any_container(y):
    with pytest.raises(ValueError, match=r"y has a missing value, .*, in row 1"):
        check_present(y)


@pytest.mark.parametrize(
    "y",
    [
        None,
        [1, 2],
        [[0, 1], [1, 1]],
        np.array(["a", "nan"]),
        sp.csr_matrix([[1, 0]]),
        pd.Series(["a", "b"], dtype="category"),
        pl.Series(["a", "b"]),
        np.array([[1, 0], [0, 1]]),
    ],
    ids=lambda y: f"{type(y).__name__} {getattr(y, 'dtype', '')}",
)
def test_check_present__lets_pass_what_is_whole(y):
    check_present(y)
