"""Facts about tables: what can be read and may not be meant."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.io import DataFileError
from oblong.io.dialect import Dialect
from oblong.io.facts import Facts, LoneClass, Padded, Sentinel, find_sentinels
from oblong.io.tables import read_training_table

N = 24


def written(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text)
    return path


def table(*columns, head, sep=","):
    rows = [head, *(sep.join(map(str, row)) for row in zip(*columns))]
    return "\n".join(rows) + "\n"


KINDS = ["yes", "no"] * (N // 2)


@pytest.mark.parametrize("cell", ["01234", '"01234"', "-007", " 01234 "])
def test_facts__codes_with_leading_zeros(tmp_path, cell):
    codes = [str(20000 + k) for k in range(N)]
    codes[7] = cell
    decimals = [f"0.{k:03d}" for k in range(N)]
    path = written(tmp_path, table(codes, decimals, KINDS, head="zip,x,y"))
    assert read_training_table(path).facts.padded == (Padded('"zip"', cell.strip(' "'), 9),)


def test_facts__categories_have_no_leading_zeros(tmp_path):
    codes = [f"{k % 5:03d}" for k in range(N)]
    path = written(tmp_path, table(codes, KINDS, head="zip,y"))
    assert read_training_table(path, categorical=["zip"]).facts == Facts()


def test_facts__sentinels(tmp_path):
    ages = [20 + k for k in range(N)]
    ages[3] = ages[8] = -999
    path = written(tmp_path, table(ages, range(N), KINDS, head="age,n,y"))
    assert read_training_table(path).facts.sentinels == (Sentinel('"age"', -999, 2),)
    found = read_training_table(path, gaps=True, dialect=Dialect(missing=("-999",)))
    assert found.facts == Facts()
    assert np.flatnonzero(np.isnan(found.X[:, 0])).tolist() == [3, 8]
    with pytest.raises(DataFileError, match='row 5, column "age": expected a number, got a miss'):
        read_training_table(path, dialect=Dialect(missing=("-999.0",)))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([*range(20), -99, -99], [-99]),
        ([*range(0, 400, 20), -99, -99], [-99]),
        ([*range(-400, 0, 20), -99, -99], []),
        ([*range(20), 999, 999], [999]),
        ([*range(0, 1000, 50), 999, 999], []),
        ([*range(20), -999], []),
        ([*range(20), -998, -998], []),
        ([*range(20), -9, -9], []),
        ([*range(20), np.nan, -999, -999], [-999]),
        ([-999, -999, np.nan], []),
        ([np.nan, np.nan], []),
    ],
)
def test_find_sentinels__only_what_stands_apart(column, expected):
    X = np.array(column, dtype=float)[:, None]
    assert [found.value for found in find_sentinels(X, ["x"])] == expected


def test_facts__a_class_of_one_row_has_its_line(tmp_path):
    text = table(range(N), KINDS, head="a,y") + "\n276,total\n"
    found = read_training_table(written(tmp_path, text)).facts
    assert found.lone_classes == (LoneClass("total", N + 3, True),)
    text = '"a\nb",y\n1,other\n' + table(range(N), KINDS, head="2,no")
    found = read_training_table(written(tmp_path, text)).facts
    assert found.lone_classes == (LoneClass("other", 3, False),)


def test_facts__labels_that_are_numbers_are_no_classes(tmp_path):
    path = written(tmp_path, table(range(N), range(N), head="a,y"))
    assert read_training_table(path).facts.lone_classes == ()


def test_facts__parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    ages = [20 + k for k in range(N - 2)] + [-999, -999]
    kinds = [*KINDS[:-1], "total"]
    pq.write_table(pa.table({"age": ages, "y": kinds}), tmp_path / "t.parquet")
    found = read_training_table(tmp_path / "t.parquet").facts
    expected = (Sentinel('"age"', -999, 2),), (LoneClass("total", N, True),)
    assert (found.sentinels, found.lone_classes) == expected
