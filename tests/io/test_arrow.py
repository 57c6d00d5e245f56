"""Typed columns that are empty, named twice, or larger than memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oblong.io import DataFileError, open_rows
from oblong.io.prediction import read_rows
from oblong.io.tables import read_table, read_training_table
from oblong.streams import ArrowReader

EMPTY = {
    "null": pa.nulls(4),
    "words": pa.array([None] * 4, pa.string()),
    "dictionary": pa.array([None] * 4, pa.string()).dictionary_encode(),
}


def table(**columns):
    columns = {"a": [1.0, 2.0, 3.0, 4.0], **columns, "y": ["p", "q", "p", "q"]}
    return pa.table(list(columns.values()), names=list(columns))


@pytest.mark.parametrize("kind", EMPTY)
def test_read_training_table__empty_columns_of_parquet(tmp_path, kind):
    path = tmp_path / "t.parquet"
    pq.write_table(table(b=EMPTY[kind]), path)
    with pytest.raises(DataFileError, match='row 1, column "b": expected a number, got a missing'):
        read_table(path)
    found = read_training_table(path, gaps=True, categorical="auto")
    assert found.notes == ('column "b" is empty and was left out',)
    assert (found.schema.feature_names, found.X.tolist()) == (["a"], [[1], [2], [3], [4]])
    assert read_rows(path, found.schema, gaps=True).tolist() == found.X.tolist()


@pytest.mark.parametrize("kind", EMPTY)
def test_arrow_reader__empty_columns(kind):
    with ArrowReader(table(b=EMPTY[kind]), hash_bits=8) as reader:
        batch = reader.read(4)
    assert np.diff(batch.indptr).tolist() == [1, 1, 1, 1]
    with (
        ArrowReader(table(b=EMPTY[kind])) as reader,
        pytest.raises(DataFileError, match='column "b": expected a number, got a missing'),
    ):
        reader.read(4)
    with (
        ArrowReader(table(b=EMPTY[kind]), target="b") as reader,
        pytest.raises(DataFileError, match='column "b": expected a class label, got a missing'),
    ):
        reader.read(4)


def test_arrow_reader__dictionaries_of_nothing():
    codes = pa.array([0, 1, 0, 1])
    for words in (pa.nulls(2), pa.array([None, None], pa.string())):
        column = pa.DictionaryArray.from_arrays(codes, words)
        with ArrowReader(table(b=column), hash_bits=8) as reader:
            assert np.diff(reader.read(4).indptr).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.uint32(), pa.uint64()])
def test_arrow_reader__gaps_of_dictionaries_whose_codes_have_no_sign(kind):
    column = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, None], kind), ["u", "v"])
    with ArrowReader(table(b=column), hash_bits=8) as reader:
        assert np.diff(reader.read(4).indptr).tolist() == [2, 1, 2, 1]
    with pytest.raises(DataFileError, match=r"row 2.*expected a class label, got a missing"):
        ArrowReader(table(b=column), target="b").read(4)


def test_read_training_table__binary_words_of_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(table(b=["red", "a\0b", "red", "a\0b"]), path)
    with pytest.raises(DataFileError, match='row 2, column "b": expected text, got binary data'):
        read_training_table(path, categorical="auto")


def test_arrow_reader__columns_of_one_name():
    twice = pa.table([pa.array([1]), pa.array([2]), pa.array([0])], names=["a", "a", "y"])
    with pytest.raises(DataFileError, match='2 columns are named "a"'):
        ArrowReader(twice)
    with pytest.raises(DataFileError, match='2 columns are named "a"'):
        open_rows(twice, target="y")


def test_read_table__parquet_that_would_fill_the_memory(tmp_path):
    path = tmp_path / "t.parquet"
    chunk = pa.chunked_array([np.zeros(1 << 20)] * 64)
    labels = pa.chunked_array([np.arange(1 << 20) % 2] * 64)
    pq.write_table(pa.table({"a": chunk, "y": labels}), path, compression="zstd")
    message = r"damaged .*it expands to more than 1000 times its size"
    with pytest.raises(DataFileError, match=message):
        read_table(path)
    with pytest.raises(DataFileError, match=message):
        open_rows(path, target="y")
