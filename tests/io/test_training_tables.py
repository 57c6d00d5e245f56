from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from oblong.datasets.loading import summaries
from oblong.io import DataFileError, prediction
from oblong.io.labels import decode_labels
from oblong.io.prediction import read_rows
from oblong.io.tables import Schema, read_training_table

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


def test_numbers_text_gaps_and_quotes(tmp_path):
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


def test_plain_numbers_are_an_array_of_floats(tmp_path):
    table = read_training_table(write(tmp_path, "a,b,y\n1,2,+1\n3,4,-1\n"))
    assert table.X.dtype == np.float64
    assert table.X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.y.tolist() == [1, -1]
    assert table.target_names == ("-1", "+1")


def test_the_index_of_pandas_is_left_out(tmp_path):
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
def test_errors_name_row_and_column(tmp_path, text, options, message):
    with pytest.raises(DataFileError) as error:
        read_training_table(write(tmp_path, text), **options)
    assert message in str(error.value)


def test_rows_are_found_by_name_or_place(tmp_path):
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


def test_labels_keep_their_spelling(tmp_path):
    assert decode_labels(["+1", "-1", "1.0"], np.arange(3)).tolist() == [1, -1, 1]
    assert decode_labels(["+1", "07", "1"], np.arange(3)).tolist() == ["1", "07", "1"]
    path = write(tmp_path, "# c\n+1.0 1:2 # +9\n -1 qid:3 2:1\n1 1:1\n", "t.svm")
    assert read_training_table(path).target_names == ("-1", "+1.0")


def test_summaries_read_no_arrays(tmp_path):
    np.savez(tmp_path / "dense.npz", X=np.ones((7, 3)), y=np.arange(7))
    np.savez(tmp_path / "sparse.npz", X_shape=np.array([9, 4]), y=np.arange(9))
    found = {each.name: (each.rows, each.features) for each in summaries(tmp_path)}
    assert found["dense"] == (7, 3)
    assert found["sparse"] == (9, 4)
    assert found["iris"] == (150, 4)


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


@pytest.mark.parametrize("name", ["t.csv", "t.libsvm", "t.jsonl", "t.parquet"])
def test_numbers_that_learners_cannot_square_are_refused(tmp_path, name):
    if name == "t.parquet":
        pq = pytest.importorskip("pyarrow.parquet")
        pa = pytest.importorskip("pyarrow")
        pq.write_table(pa.table({"a": [1.0, 1e200], "y": ["p", "q"]}), tmp_path / name)
    text = {
        "t.csv": "a,y\n1,p\n1e200,q\n",
        "t.libsvm": "1 1:1\n2 1:1e200\n",
        "t.jsonl": '{"a": 1, "y": 1}\n{"a": 1e200, "y": 2}\n',
    }
    if name in text:
        write(tmp_path, text[name], name)
    with pytest.raises(DataFileError, match=r"row [23].*: expected a number of at most 1e\+150"):
        read_training_table(tmp_path / name)


def test_quoted_cells_are_not_longer_than_they_may_be(tmp_path):
    path = write(tmp_path, 'a,y\n1,p\n"' + "1\n" * 140_000 + '",q\n')
    with pytest.raises(DataFileError, match="row 3: badly quoted field"):
        read_training_table(path)


def test_thousands_of_names_are_looked_up_at_once(tmp_path, monkeypatch):
    """One by one, they would be compared with each other."""
    names = [f"c{j}" for j in range(3000)]
    text = ",".join(reversed(names)) + "\n" + ",".join(str(j) for j in reversed(range(3000))) + "\n"
    monkeypatch.setattr(prediction, "find_column", lambda *_: pytest.fail("one by one"))
    found = read_rows(write(tmp_path, text), Schema(3000, names))
    assert found.tolist() == [list(range(3000))]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_named_pipes_are_read_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_text, args=["a,b,y\n1,u,p\n2,v,q\n"], daemon=True).start()
    table = read_training_table(path, categorical="auto")
    assert np.asarray(table.X).tolist() == [[1.0, "u"], [2.0, "v"]]


def test_text_that_shows_late_is_read_again(tmp_path):
    rows = "".join(f"{k},,p\n" for k in range(300)) + "".join(f"{k},w{k % 3},q\n" for k in range(9))
    table = read_training_table(write(tmp_path, "a,b,y\n" + rows), categorical="auto", gaps=True)
    assert table.schema.text == [1]
    assert table.X[:, 1].tolist()[-3:] == ["w0", "w1", "w2"]
    assert set(table.X[:300, 1]) == {""}


def test_a_word_among_numbers_is_an_error_wherever_it_is(tmp_path):
    early = "a,y\n1,p\nx,q\n" + "2,p\n" * 5
    late = "a,y\n" + "1,p\n2,q\n" * 200 + "x,q\n"
    for text, row in ((early, 3), (late, 402)):
        for categorical in ("auto", "none"):
            with pytest.raises(DataFileError, match=f'row {row}, column "a": .* got "x"') as caught:
                read_training_table(write(tmp_path, text), categorical=categorical)
            assert caught.value.cause == "text"


def test_a_model_of_zero_based_rows_predicts_zero_based_rows(tmp_path):
    schema = read_training_table(write(tmp_path, "1 0:1 2:3\n2 1:1\n", "t.svm")).schema
    rows = read_rows(write(tmp_path, "1 1:5\n", "n.svm"), schema)
    assert rows.toarray().tolist() == [[0, 5, 0]]
    # Those that training has not seen are left out.
    rows = read_rows(write(tmp_path, "1 0:1 9:5\n", "n.svm"), schema)
    assert rows.toarray().tolist() == [[1, 0, 0]]
