from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.datasets import DataFileError
from oblong.datasets import _columns as columns
from oblong.datasets import _plain as plain
from oblong.datasets._dataset import class_names, decode_labels
from oblong.datasets._delimited import find_layout
from oblong.datasets._svmlight import read_svmlight, svmlight_labels
from oblong.datasets.loading import summaries
from oblong.datasets.tables import Schema, read_rows, read_training_table

MIXED = """\
size,colour,city,kind
1.5,red,"New York, NY",a
,blue,"said ""no\"\"",b
+3,red,?,a
 4 , blue ,"two
lines",b
"""


def write(folder, text, name="t.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture(params=["fast", "careful"])
def reader(request, monkeypatch):
    """Both readers: with pyarrow and without."""
    if request.param == "careful":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    return request.param


def test_numbers_text_gaps_and_quotes(tmp_path, reader):
    table = read_training_table(write(tmp_path, MIXED), categorical="auto", gaps=True)
    assert table.X[:, 1:].tolist() == [
        ["red", "New York, NY"],
        ["blue", 'said "no"'],
        ["red", ""],
        ["blue", "two\nlines"],
    ]
    np.testing.assert_array_equal(table.X[:, 0].astype(float), [1.5, np.nan, 3.0, 4.0])
    assert table.y.tolist() == ["a", "b", "a", "b"]
    assert table.schema == Schema(3, ["size", "colour", "city"], [1, 2], "kind", 3)
    assert Schema.from_json(table.schema.to_json()) == table.schema


def test_plain_numbers_are_an_array_of_floats(tmp_path, reader):
    table = read_training_table(write(tmp_path, "a,b,y\n1,2,+1\n3,4,-1\n"))
    assert table.X.dtype == np.float64
    assert table.X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.y.tolist() == [1, -1]
    assert table.target_names == ("-1", "+1")


def test_the_index_of_pandas_is_left_out(tmp_path, reader):
    table = read_training_table(write(tmp_path, ",a,y\n0,5,p\n1,6,q\n"))
    assert table.schema.feature_names == ["a"]
    assert table.X.tolist() == [[5.0], [6.0]]
    assert read_rows(write(tmp_path, "a\n7\n", "n.csv"), table.schema).tolist() == [[7.0]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,y\n1,p\n\nx,q\n", {}, 'row 4, column "a": expected a number, got "x"'),
        ("a,y\n1,p\n,q\n", {}, 'row 3, column "a": expected a number, got a missing value'),
        ("a,y\n1,p\nNaN,q\n", {}, 'row 3, column "a": expected a number, got a missing value'),
        ("a,y\n1,p\ninf,q\n", {}, 'row 3, column "a": expected a'),
        ("a,y\n1,p\n1e999,q\n", {"gaps": True}, 'row 3, column "a": expected a'),
        ("a,y\n1,p\n2,\n", {"gaps": True}, 'row 3, column "y": expected a class label'),
        ("a,y\nu,p\n,q\n", {"categorical": "auto"}, 'column "a": expected a category'),
        ("a,y\n1,p\n2\n", {"gaps": True}, "row 3: expected 2 fields, got 1"),
        ("a,y\n1,p\n2,p\n", {}, "expected two or more classes"),
    ],
)
def test_errors_name_row_and_column(tmp_path, reader, text, options, message):
    with pytest.raises(DataFileError) as error:
        read_training_table(write(tmp_path, text), **options)
    assert message in str(error.value)


CELLS = st.one_of(
    st.sampled_from(["1", "-2.5e3", "+7", ".5", "5.", " 6 ", "", "NA", "nan", "?", "x", "a b"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


@given(
    rows=st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=12
        )
    ),
    guess=st.booleans(),
)
@settings(max_examples=200)
def test_both_readers_give_the_same_columns(rows, guess):
    width = len(rows[0]) + 1
    lines = [",".join([f"c{j}" for j in range(width)])]
    lines += [",".join([*row, "p"]) for row in rows]
    data = "\n".join(lines).encode()
    layout = find_layout(data, "t.csv", None, None)
    wanted = list(range(width))
    fast = columns.csv_columns(data, "t.csv", layout, wanted, {width - 1}, guess)
    careful = columns._read_csv(data, "t.csv", layout, wanted)
    for j in wanted:
        one, other = fast[j], careful[j]
        if not isinstance(one, columns.Words):
            other, numeric = columns.numbers_of(other)
            assert numeric.all()
            np.testing.assert_array_equal(one, other)
        else:
            assert [one.words[c] if c >= 0 else None for c in one.codes] == [
                other.words[c] if c >= 0 else None for c in other.codes
            ]


def test_rows_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "_BLOCK", 16)
    text = "a,b,y\n" + "1.25,2.5,p\n33.125,4.0625,q\n" * 50
    table = read_training_table(write(tmp_path, text))
    assert table.X.shape == (100, 2)
    assert table.X[1].tolist() == [33.125, 4.0625]


def test_rows_are_found_by_name_or_place(tmp_path, reader):
    named = Schema(2, ["a", "b"], [1], "y", 2)
    path = write(tmp_path, "b,z,a\nred,9,1\n,8,2\n")
    assert np.asarray(read_rows(path, named, gaps=True)).tolist() == [[1.0, "red"], [2.0, ""]]
    with pytest.raises(DataFileError, match='row 3, column "b": expected a category'):
        read_rows(path, named)
    # Without a header, by place; the labels may be there.
    bare = Schema(2, None, [], None, 0)
    assert read_rows(write(tmp_path, "5,1,2\n"), bare).tolist() == [[1.0, 2.0]]
    assert read_rows(write(tmp_path, "1,2\n"), bare).tolist() == [[1.0, 2.0]]
    with pytest.raises(DataFileError, match="expected 2 columns as in training"):
        read_rows(write(tmp_path, "1\n"), bare)


@pytest.mark.parametrize(
    "node",
    [
        None,
        {},
        {"n_features": 0},
        {"n_features": 1.5},
        {"n_features": 2, "feature_names": ["a"]},
        {"n_features": 2, "text": [2]},
        {"n_features": 1, "target": 3},
        {"n_features": 1, "x": 1},
    ],
)
def test_schemas_from_files_are_checked(node):
    with pytest.raises(ValueError, match="not a schema"):
        Schema.from_json(node)


def test_labels_keep_their_spelling():
    words = ["+1", "-1", "1", "07"]
    assert class_names(words[:3]) == ("-1", "+1")
    assert class_names(words) == tuple(np.unique(decode_labels(words, np.arange(4))))
    data = b"# c\n+1.0 1:2 # +9\n -1 qid:3 2:1\n1 1:1\n"
    _, y = read_svmlight(data, "t.svm")
    assert svmlight_labels(data, y) == ("-1", "+1.0")


def test_summaries_read_no_arrays(tmp_path):
    np.savez(tmp_path / "dense.npz", X=np.ones((7, 3)), y=np.arange(7))
    np.savez(tmp_path / "sparse.npz", X_shape=np.array([9, 4]), y=np.arange(9))
    found = {each.name: (each.rows, each.features) for each in summaries(tmp_path)}
    assert found["dense"] == (7, 3)
    assert found["sparse"] == (9, 4)
    assert found["iris"] == (150, 4)


PLAIN = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-(10**6), 10**6, places=4).map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["0", "-0.0", "1e22", "1e23", "9007199254740993", "1E-5", ".5", "5.", "+7"]),
    st.sampled_from(["", "NA", " 6 ", "1e400", "x", "1e", "-", ".", "1.2.3", "1e5.", "00012", "é"]),
)


@given(
    rows=st.lists(st.tuples(PLAIN, PLAIN, st.sampled_from(["p", "q", "r s", ""])), min_size=1),
    end=st.sampled_from(["\n", "\r\n"]),
    blank=st.booleans(),
)
@settings(max_examples=300)
def test_the_compiled_reader_agrees_or_steps_aside(rows, end, blank):
    text = "a,b,y" + end + (end if blank else "") + "".join(",".join(r) + end for r in rows)
    data = text.encode()
    layout = find_layout(data, "t.csv", "y", None)
    careful = columns._read_csv(data, "t.csv", layout, [0, 1, 2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_SMALL", 0)
        found = columns._read_plain(data, layout, [0, 1, 2], {2})
    if found is None:
        return
    for j in (0, 1):
        values, numeric = columns.numbers_of(careful[j])
        assert numeric.all()
        np.testing.assert_array_equal(found[j], values)
    assert [found[2].words[c] if c >= 0 else "" for c in found[2].codes] == [r[2] for r in rows]


def test_the_compiled_reader_reads_plain_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "_SMALL", 0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)).round(6)
    text = "".join(
        ",".join(map(repr, row)) + f",{'uv'[k % 2]}\n" for k, row in enumerate(X.tolist())
    )
    data = text.encode()
    layout = find_layout(data, "t.csv", None, None)
    assert columns._read_plain(data, layout, [0, 1, 2, 3, 4], {4}) is not None
    table = read_training_table(write(tmp_path, text))
    np.testing.assert_array_equal(table.X, X)
    assert table.y[:3].tolist() == ["u", "v", "u"]
    wide = text.replace("\n", ",9\n", 1).encode()
    assert columns._read_plain(wide, layout, [0, 1, 2, 3, 4], {4}) is None


def test_a_table_of_labels_alone(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"y": ["a", "b"]}), tmp_path / "t.parquet")
    with pytest.raises(DataFileError, match="expected features and a target, got 1 columns"):
        read_training_table(tmp_path / "t.parquet")


def test_gaps_of_arrays(tmp_path):
    X = np.array([[1.0, np.nan], [2.0, 3.0]])
    np.savez(tmp_path / "t.npz", X=X, y=[0, 1])
    with pytest.raises(DataFileError, match="row 1, column 2: expected a finite number") as caught:
        read_training_table(tmp_path / "t.npz")
    assert caught.value.cause == "missing"
    table = read_training_table(tmp_path / "t.npz", gaps=True)
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(read_rows(tmp_path / "t.npz", table.schema, gaps=True), X)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("gaps", [False, True])
def test_large_numbers_are_numbers(tmp_path, gaps):
    path = write(tmp_path, "a,b,y\n1e308,1.7e308,p\n-1.5e308,1e308,q\n")
    expected = [[1e308, 1.7e308], [-1.5e308, 1e308]]
    assert read_training_table(path, gaps=gaps).X.tolist() == expected


def test_long_fields_are_not_called_badly_quoted(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write(tmp_path, "a,y\n1,p\n" + "1" * 140_000 + ",q\n")
    with pytest.raises(DataFileError, match="row 3: expected fields of at most 131,072 char"):
        read_training_table(path)


def test_thousands_of_names_are_looked_up_at_once(tmp_path, monkeypatch):
    """One by one, they would be compared with each other."""
    names = [f"c{j}" for j in range(3000)]
    text = ",".join(reversed(names)) + "\n" + ",".join(str(j) for j in reversed(range(3000))) + "\n"
    monkeypatch.setattr("oblong.datasets.tables.find_column", lambda *_: pytest.fail("one by one"))
    found = read_rows(write(tmp_path, text), Schema(3000, names))
    assert found.tolist() == [list(range(3000))]
