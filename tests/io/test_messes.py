"""Tables as people have them: read as they are meant, or an error that says what helps."""

from __future__ import annotations

import gzip
import io
import zipfile

import numpy as np
import pytest

from oblong.io import sources
from oblong.io.dataset import Schema
from oblong.io.dialect import Dialect
from oblong.io.errors import DataFileError
from oblong.io.prediction import read_rows
from oblong.io.tables import read_table, read_training_table

N = 24
VALUES = [round(0.5 * k - 3, 1) for k in range(N)]
KINDS = ["yes", "no"] * (N // 2)


def write(folder, *columns, head="a,y", sep=",", encoding="utf-8", before="", after=""):
    lines = [sep.join(head.split(",")), *(sep.join(map(str, row)) for row in zip(*columns))]
    path = folder / "t.csv"
    path.write_bytes((before + "\n".join(lines) + "\n" + after).encode(encoding))
    return path


def error(path, *arguments, **options):
    with pytest.raises(DataFileError) as caught:
        read_training_table(path, *arguments, **options)
    return str(caught.value)


def again(path, table):
    """The rows read for prediction are those of training."""
    gaps = {"gaps": True} if np.asarray(table.X).dtype == float and np.isnan(table.X).any() else {}
    rows = read_rows(path, Schema.from_json(table.schema.to_json()), **gaps)
    np.testing.assert_array_equal(np.asarray(rows), np.asarray(table.X))


@pytest.mark.parametrize(
    ("how", "options"),
    [
        ({"sep": "|"}, {}),
        ({"sep": ";", "before": "sep=;\n"}, {}),
        ({"sep": " "}, {"dialect": Dialect(delimiter=" ")}),
        ({"encoding": "utf-16"}, {"dialect": Dialect(encoding="utf-16")}),
        ({"after": "Total of 24 rows\n"}, {"dialect": Dialect(skip_bad=True)}),
    ],
)
def test_layouts(tmp_path, how, options):
    path = write(tmp_path, VALUES, KINDS, **how)
    table = read_training_table(path, **options)
    assert table.X.ravel().tolist() == VALUES
    assert table.y.tolist() == KINDS
    if "after" in how:
        assert table.notes == (
            "1 bad row was skipped, the first is row 26: expected 2 fields, got 1",
        )
    else:
        again(path, table)


@pytest.mark.parametrize(
    ("text", "dialect", "value"),
    [
        ("1,5", Dialect(";", ","), 1.5),
        ("1.234,5", Dialect(";", ",", "."), 1234.5),
        ("-1 234 567", Dialect(";", thousands=" "), -1234567.0),
        ("1\u202f234\u00a0567", Dialect(";", thousands=" "), 1234567.0),
        ("1,234.5", Dialect(";", thousands=","), 1234.5),
        ("2,5e3", Dialect(";", ","), 2500.0),
        ("True", Dialect(";"), 1.0),
    ],
)
def test_conventions_of_numbers(tmp_path, text, dialect, value):
    path = write(tmp_path, [text] * N, KINDS, sep=";")
    table = read_training_table(path, dialect=dialect)
    assert set(table.X.ravel()) == {value}
    again(path, table)


@pytest.mark.parametrize(
    ("text", "dialect"), [("1.5", Dialect(";", ",")), ("12,34", Dialect(";", thousands=","))]
)
def test_numbers_of_another_convention_are_an_error(tmp_path, text, dialect):
    message = error(write(tmp_path, [text] * N, KINDS, sep=";"), dialect=dialect)
    assert f'expected a number, got "{text}"' in message


def test_delimiters_at_the_ends_of_rows(tmp_path):
    for head in ("a,b,y,", "a,b,y"):
        path = write(tmp_path, VALUES, VALUES, KINDS, [""] * N, head=head)
        table = read_training_table(path)
        assert (table.schema.feature_names, table.schema.target) == (["a", "b"], "y")
        again(path, table)


@pytest.mark.parametrize(
    ("columns", "head", "options", "message"),
    [
        ((KINDS, VALUES), "y,a", {}, 'if these are the labels, give target= "y"'),
        ((["-"] * N, KINDS), "a,y", {}, "missing= - treats it as a missing value"),
        ((["1,5"] * N, KINDS), "a,y", {}, "decimal= , reads decimal commas"),
        ((["9,999,999"] * N, KINDS), "a,y", {}, "thousands= , reads it"),
        ((["€ 5"] * N, KINDS), "a,y", {}, "without its unit"),
    ],
)
def test_messages_that_help(tmp_path, columns, head, options, message):
    assert message in error(write(tmp_path, *columns, head=head, sep=";"), **options)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([f"{k},5" for k in range(N)], "numbers in another notation, such as"),
        ([f"${k}.50" for k in range(N)], "numbers in another notation, such as"),
        ([f"{k} kg" for k in range(N)], "numbers in another notation, such as"),
        ([f"2024-01-{k + 1:02d}" for k in range(N)], "look like dates"),
        ([f"{k + 1:02d}.01.2024 10:00" for k in range(N)], "look like dates"),
        ([f"Person {k}" for k in range(N)], "24 different texts in 24 rows are names"),
    ],
)
def test_what_is_not_guessed_to_be_categories(tmp_path, cells, message):
    path = write(tmp_path, cells, VALUES, KINDS, head="c,a,y", sep=";")
    assert message in error(path, categorical="auto")
    # Whoever names the column means it.
    assert read_training_table(path, categorical=["c"]).schema.text == [0]


def test_dates_are_days(tmp_path):
    cells = [f"{k + 1:02d}/02/1970" for k in range(N)]
    path = write(tmp_path, cells, VALUES, KINDS, head="when,a,y")
    assert 'got "01/02/1970"; dates= reads columns of dates' in error(path)
    table = read_training_table(path, dates=["when"])
    np.testing.assert_array_equal(table.X[:, 0], 31.0 + np.arange(N))
    again(path, table)
    path = write(tmp_path, cells[:12] * 2, VALUES, KINDS, head="when,a,y")
    message = error(path, dates=["when"])
    assert 'dates such as "01/02/1970" can be read in two ways; date_format= says how' in message
    table = read_training_table(path, dates=["when"], date_format="%m/%d/%Y")
    assert table.X[1, 0] == 32.0
    again(path, table)
    (tmp_path / "new.csv").write_text("when,a\nsoon,1\n")
    with pytest.raises(DataFileError, match='column "when": expected a date'):
        read_rows(tmp_path / "new.csv", table.schema)


def test_timestamps_of_parquet_are_days(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    when = np.array(["1970-01-02T12:00", "1969-12-31"], dtype="datetime64[ms]")
    pq.write_table(pa.table({"when": when, "y": ["p", "q"]}), tmp_path / "t.parquet")
    assert read_training_table(tmp_path / "t.parquet").X.tolist() == [[1.5], [-1.0]]


def test_columns_left_out_by_place_and_by_name(tmp_path):
    path = write(tmp_path, range(N), VALUES, [""] * N, KINDS, head="id,a,empty,y")
    table = read_training_table(path, drop=["id"], gaps=True)
    assert table.schema.feature_names == ["a"]
    assert table.notes == ('column "empty" is empty and was left out',)
    again(path, table)
    assert 'no column "emty" (did you mean "empty"?)' in error(path, drop=["emty"])
    assert "the label column cannot be left out" in error(path, "y", drop=["y"])
    assert 'column "a" is named for dates and for text' in error(path, dates=["a"], text=["a"])
    path.write_text("".join(f"{k},{v},{y}\n" for k, (v, y) in enumerate(zip(VALUES, KINDS))))
    table = read_training_table(path, drop=["1"])
    assert table.X.ravel().tolist() == VALUES
    again(path, table)
    # The rows to predict have no labels, or only what the model needs.
    path.write_text("0.5\n")
    assert read_rows(path, table.schema).tolist() == [[0.5]]


@pytest.mark.parametrize(
    ("column", "head", "note"),
    [
        ([1000 + 7 * k for k in range(N)], "customer_id", "has another value in every row"),
        ([5 + k for k in range(N)], "n", "counts the rows"),
        ([k % 5 for k in range(N)], "id", None),
    ],
)
def test_identifiers_are_pointed_out(tmp_path, column, head, note):
    notes = read_training_table(write(tmp_path, column, KINDS, head=f"{head},y")).notes
    assert notes == () if note is None else note in notes[0]


def test_labels_that_differ_in_case_are_pointed_out(tmp_path):
    table = read_training_table(write(tmp_path, VALUES, ["Yes", "yes", "no"] * 8))
    assert table.notes == ('the labels "Yes" and "yes" are two classes',)


def test_expanding_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_HARMLESS", 1 << 20)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,y\n" + b"1,p\n2,q\n" * 500_000))
    assert "it expands to more than 200 times its size" in error(path)
    path.write_bytes(gzip.compress(b"a,y\n" + b"1,p\n2,q\n" * 100_000))
    assert len(read_table(path).y) == 200_000


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, 19])
def test_npz_of_other_compressions(tmp_path, method):
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in (("X", np.eye(4)), ("y", np.array([0, 1, 0, 1]))):
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(f"{name}.npy", stream.getvalue())
    if method == zipfile.ZIP_LZMA:
        assert read_table(path).X.shape == (4, 4)
        return
    content = bytearray(path.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = content.find(magic)
        while place >= 0:
            content[place + offset] = method
            place = content.find(magic, place + 4)
    path.write_bytes(content)
    with pytest.raises(DataFileError, match="damaged NPZ archive"):
        read_table(path)


def test_npz_of_bytes(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.array([[b"1"], [b"2"]]), y=[0, 1])
    with pytest.raises(DataFileError, match="expected numbers, got the type"):
        read_table(tmp_path / "t.npz")
