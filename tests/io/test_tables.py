from __future__ import annotations

import gzip
import io
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from oblong.io import DataFileError, read_table

CSV = b"a,b,y\n1,2,x\n3,4,z\n"
SVMLIGHT = b"+1 1:0.5 3:2 # note\n-1 qid:2 2:1.5\n\n1 1:1\n"


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def parquet(**columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.CSV", "t.txt", "t.data", "t", "t.csv.gz", "t.gz"])
def test_csv(tmp_path, name):
    data = gzip.compress(CSV) if name.endswith(".gz") else CSV
    table = read_table(write(tmp_path, name, data))
    assert table.X.tolist() == [[1, 2], [3, 4]]
    assert table.y.tolist() == ["x", "z"]
    assert table.feature_names == ("a", "b")
    assert table.target_names == ("x", "z")
    assert table.name == name


def test_tsv_takes_tabs_only(tmp_path):
    table = read_table(write(tmp_path, "t.tsv", b"a,1\tb,2\ty\n1\t2\t0\n3\t4\t1\n"))
    assert table.feature_names == ("a,1", "b,2")


@pytest.mark.parametrize("name", ["t.libsvm", "t.svmlight", "t.svm", "t.txt", "t.libsvm.gz"])
def test_svmlight(tmp_path, name):
    data = gzip.compress(SVMLIGHT) if name.endswith(".gz") else SVMLIGHT
    table = read_table(write(tmp_path, name, data))
    assert sp.issparse(table.X)
    assert table.X.toarray().tolist() == [[0.5, 0, 2], [0, 1.5, 0], [1, 0, 0]]
    assert table.y.tolist() == [1, -1, 1]


def test_svmlight_indices_count_from_where_the_first_row_says(tmp_path):
    path = write(tmp_path, "t.svm", b"1 1:1\n-1 0:2\n")
    with pytest.raises(DataFileError, match=r"row 2, column 2: .* got 0; zero_based= counts"):
        read_table(path)
    assert read_table(path, zero_based=True).X.toarray().tolist() == [[0, 1], [2, 0]]


def test_svmlight_words_as_labels_and_index_zero(tmp_path):
    table = read_table(write(tmp_path, "t.svm", b"spam 0:1 2:3\nham 1:2\n"))
    assert table.X.toarray().tolist() == [[1, 0, 3], [0, 2, 0]]
    assert table.y.tolist() == ["spam", "ham"]


def test_json_lines(tmp_path):
    data = b'{"a": 1, "b": {"c": 0}, "y": "u"}\n{"b": {"c": 2}, "a": true, "y": "v"}\n'
    table = read_table(write(tmp_path, "t.jsonl", data))
    assert table.X.tolist() == [[1, 0], [1, 2]]
    assert (table.y.tolist(), table.feature_names) == (["u", "v"], ("a", "b.c"))


@pytest.mark.parametrize("target", [None, "y"])
def test_parquet(tmp_path, target):
    data = parquet(
        a=[1, 2, 3],
        b=pa.array([0.5, 1.5, 2.5], pa.float32()),
        c=[True, False, True],
        y=pa.array(["u", "v", "u"]).dictionary_encode(),
        __index_level_0__=[0, 1, 2],
    )
    table = read_table(write(tmp_path, "t.parquet", data), target)
    assert table.X.tolist() == [[1, 0.5, 1], [2, 1.5, 0], [3, 2.5, 1]]
    assert table.y.tolist() == ["u", "v", "u"]
    assert table.feature_names == ("a", "b", "c")


def test_parquet_number_labels(tmp_path):
    table = read_table(write(tmp_path, "t.pq", parquet(a=[1, 2], y=[1.0, -1.0])))
    assert table.y.dtype == np.int64


def test_npz_dense_with_names_and_test_part(tmp_path):
    X = np.array([[1, 200], [3, 4]], dtype=np.uint8)
    data = npz(X=X, y=np.array([2, 0]), target_names=["a", "b", "c"], X_test=X, y_test=[0, 2])
    table = read_table(write(tmp_path, "t.npz", data))
    assert table.X.dtype == np.float64
    assert table.target_names == ("a", "c")
    assert table.y_test.tolist() == [0, 2]


def test_npz_sparse_keeps_single_precision(tmp_path):
    X = sp.csr_matrix(np.array([[0, 1.5], [2, 0]], dtype=np.float32))
    data = npz(
        X_data=X.data,
        X_indices=X.indices.astype(np.uint16),
        X_indptr=X.indptr,
        X_shape=X.shape,
        y=np.array(["no", "yes"]),
    )
    table = read_table(write(tmp_path, "t.npz.gz", gzip.compress(data)))
    assert table.X.dtype == np.float32
    assert table.X.toarray().tolist() == [[0, 1.5], [2, 0]]
    assert table.y.tolist() == ["no", "yes"]


@pytest.mark.parametrize(
    ("data", "labels"),
    [
        (CSV, ["x", "z"]),
        (SVMLIGHT, [1, -1, 1]),
        (gzip.compress(CSV), ["x", "z"]),
        (parquet(a=[1, 2], y=["x", "z"]), ["x", "z"]),
        (npz(X=np.eye(2), y=[1, 2]), [1, 2]),
    ],
    ids=["csv", "svmlight", "gzip", "parquet", "npz"],
)
def test_standard_input_is_told_by_its_content(monkeypatch, data, labels):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    table = read_table("-")
    assert table.y.tolist() == labels
    assert table.name == "standard input"


OBJECTS = npz(X=np.eye(2), y=np.array([1, "a"], dtype=object))
BROKEN_CSR = {"X_indptr": np.array([0, 1, 1]), "X_shape": np.array([2, 2]), "y": np.array([0, 1])}
NAN = float("nan")

MALFORMED = {
    "not a number": (
        "t.csv",
        b"a,b,y\n1,2,x\n3,abc,z\n",
        'row 3, column "b": expected a number, got "abc"',
    ),
    "no header": ("t.csv", b"1,2,x\n3,q,z\n", 'row 2, column 2: expected a number, got "q"'),
    "empty cell": ("t.csv", b"a,b,y\n1,,x\n", 'row 2, column "b": expected a number, got a miss'),
    "missing mark": (
        "t.csv",
        b"a,b,y\n1,NA,x\n",
        'row 2, column "b": expected a number, got a miss',
    ),
    "infinite": ("t.csv", b"a,b,y\n1,1e999,x\n", "expected a number of at most 1e+150"),
    "decimal comma": ("t.csv", b"a;b;y\n1;2,5;x\n", "decimal= , reads decimal commas"),
    "empty label": ("t.csv", b"a,y\n1,x\n2,\n", 'row 3, column "y": expected a class label'),
    "short row": ("t.csv", b"a,b,y\n1,2,x\n3,z\n", "row 3: expected 3 fields, got 2"),
    "long row": ("t.csv", b"a,b,y\n1,2,x\n3,4,z,5\n", "row 3: expected 3 fields, got 4"),
    "open quote": ("t.csv", b'a,y\n1,x\n2,"z\n', "row 3: badly quoted field"),
    "empty": ("t.csv", b"", "the file is empty"),
    "blank": ("t.csv", b"\n  \n# hm\n", "the file is empty"),
    "only a header": ("t.csv", b"a,b,y\n", "row 1: expected rows below the header"),
    "one column": ("t.csv", b"a\n1\n2\n", "row 1: expected columns separated by"),
    "one class": ("t.csv", b"a,y\n1,x\n2,x\n", 'two or more classes, got only "x"'),
    "binary": ("t.csv", b"a,b\n\x00\x01\x02", "row 2: expected text, got binary data"),
    "latin-1": (
        "t.csv",
        b"a,y\n1,x\n2,\xe9t\xe9\n",
        'row 3, column "y": expected UTF-8 text, got the byte 0xe9',
    ),
    "latin-1 header": ("t.csv", b"\xe9,y\n1,x\n", "row 1: expected UTF-8 text"),
    "utf-16": ("t.csv", "a,y\n1,x\n".encode("utf-16"), "save the file as UTF-8"),
    "control characters": ("t.csv", b"a,b,y\n1,\x1b[31mred,x\n", r'got "\x1b[31mred"'),
    "long cell": ("t.csv", b"a,y\n" + b"q" * 500 + b",x\n", "…"),
    "unknown type": ("t.xlsx", b"PK", 'unknown file type ".xlsx"; expected one of .csv'),
    "damaged gzip": ("t.csv.gz", gzip.compress(CSV)[:-9], "damaged or unreadable (Compressed"),
    "svm no pair": ("t.svm", b"1 1:2\n-1 3\n", "row 2, column 2: expected index:value"),
    "svm no number": ("t.svm", b"1 1:2\n-1 3:x\n", 'row 2, column 2: expected a number, got "x"'),
    "svm infinite": (
        "t.svm",
        b"1 1:2\n-1 3:inf\n",
        'row 2, column 2: expected a number, got "inf"',
    ),
    "svm order": ("t.svm", b"1 1:2\n-1 3:1 2:1\n", "row 2, column 3: expected an index above 3"),
    "svm no label": ("t.svm", b"1 1:2\n1:3 2:1\n", "row 2, column 1: expected a class label first"),
    "svm two labels": ("t.svm", b"1 1:2\n1,2 2:1\n", "row 2, column 1: expected one class label"),
    "svm empty": ("t.svm", b"# nothing\n", "the file is empty"),
    "svm bare": ("t.svm", b"1\n-1\n", "expected features after the labels"),
    "svm binary": ("t.svm", b"\xff\x00\x01", "row 1, column 1: expected text, got binary"),
    "parquet damaged": ("t.parquet", b"PAR1 and no more", "damaged Parquet file"),
    "parquet text": (
        "t.parquet",
        parquet(a=["u", "v"], y=[0, 1]),
        'row 1, column "a": expected a number, got "u"',
    ),
    "parquet null": (
        "t.parquet",
        parquet(a=[1.0, None], y=[0, 1]),
        'row 2, column "a": expected a number, got a missing value',
    ),
    "parquet nan": ("t.parquet", parquet(a=[NAN, 1.0], y=[0, 1]), 'row 1, column "a": expected'),
    "parquet null label": (
        "t.parquet",
        parquet(a=[1, 2], y=["u", None]),
        'row 2, column "y": expected a class label',
    ),
    "parquet lists": ("t.parquet", parquet(a=[1, 2], y=[[1], [2]]), "expected class labels"),
    "parquet narrow": ("t.parquet", parquet(y=[1, 2]), "expected features and a target"),
    "parquet no rows": (
        "t.parquet",
        parquet(a=pa.array([], pa.int8()), y=pa.array([], pa.int8())),
        "no rows",
    ),
    "npz damaged": ("t.npz", OBJECTS[:40], "damaged NPZ archive"),
    "npz objects": ("t.npz", OBJECTS, "holds Python objects, which are never loaded"),
    "npz nothing": ("t.npz", npz(Z=np.eye(2)), 'expected the array "X", found "Z"'),
    "npz no labels": ("t.npz", npz(X=np.eye(2)), 'expected the array "y"'),
    "npz lengths": ("t.npz", npz(X=np.eye(2), y=[1, 2, 3]), 'column "y": expected 2 labels'),
    "npz flat": ("t.npz", npz(X=np.ones(2), y=[1, 2]), 'column "X": expected a table'),
    "npz words": ("t.npz", npz(X=np.array([["a"], ["b"]]), y=[1, 2]), "expected numbers"),
    "npz nan": ("t.npz", npz(X=[[1, 2], [3, NAN]], y=[1, 2]), "row 2, column 2: expected a finite"),
    "npz real labels": (
        "t.npz",
        npz(X=np.eye(2), y=[1, 2.5]),
        'row 2, column "y": expected a class',
    ),
    "npz few names": ("t.npz", npz(X=np.eye(2), y=[0, 5], target_names=["a", "b"]), "from 0 to 1"),
    "npz csr": (
        "t.npz",
        npz(X_data=np.ones(1), X_indices=np.array([9]), **BROKEN_CSR),
        "expected a CSR matrix",
    ),
    "npz csr nan": (
        "t.npz",
        npz(X_data=np.array([NAN]), X_indices=np.array([1]), **BROKEN_CSR),
        "row 1, column 2: expected a finite",
    ),
    "npz test width": (
        "t.npz",
        npz(X=np.eye(2), y=[0, 1], X_test=np.ones((1, 3)), y_test=[0]),
        'column "X_test": expected 2 columns',
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_files(tmp_path, case):
    name, data, expected = MALFORMED[case]
    with pytest.raises(DataFileError) as error:
        read_table(write(tmp_path, name, data))
    message = str(error.value)
    assert message.startswith(f"{name}")
    assert expected in message
    assert message.isprintable()
    assert len(message) < 250


def test_missing_target_names_the_columns_and_a_guess(tmp_path):
    path = write(tmp_path, "t.csv", b"age,weight,outcome\n1,2,x\n3,4,z\n")
    with pytest.raises(DataFileError, match=r'no column "outcom" \(did you mean "outcome"\?\)'):
        read_table(path, "outcom")
    with pytest.raises(DataFileError, match='columns are "age", "weight", "outcome"'):
        read_table(path, "zzz")


def test_repeated_target_name(tmp_path):
    path = write(tmp_path, "t.csv", b"y,y,a\n1,2,x\n3,4,z\n")
    with pytest.raises(DataFileError, match='2 columns are named "y"'):
        read_table(path, "y")


@pytest.mark.parametrize("name", ["t.svm", "t.npz"])
def test_target_is_refused_where_the_format_fixes_it(tmp_path, name):
    data = SVMLIGHT if name == "t.svm" else npz(X=np.eye(2), y=[0, 1])
    with pytest.raises(DataFileError, match="leave out target="):
        read_table(write(tmp_path, name, data), "y")


def test_folder_and_missing_file(tmp_path):
    with pytest.raises(DataFileError, match="expected a file, got a folder"):
        read_table(tmp_path)
    with pytest.raises(DataFileError, match=r"none\.csv: cannot be read: No such file"):
        read_table(tmp_path / "none.csv")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a file it may not read")
def test_unreadable_file(tmp_path):
    path = write(tmp_path, "t.csv", CSV)
    path.chmod(0)
    with pytest.raises(DataFileError, match="Permission denied"):
        read_table(path)


@pytest.mark.parametrize(
    ("spellings", "expected"),
    [
        (("9007199254740993", "9007199254740992"), [9007199254740993, 9007199254740992]),
        (("1e300", "2"), ["1e300", "2"]),
        (("+1", "-1.0"), [1, -1]),
    ],
)
def test_svmlight_labels_beyond_the_doubles_stay_apart(tmp_path, spellings, expected):
    text = "".join(f"{label} 1:1\n" for label in spellings)
    found = read_table(write(tmp_path, "t.libsvm", text.encode()))
    assert found.y.tolist() == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([True, False], ["True", "False"]),
        ([1e300, 2.0], ["1e+300", "2"]),
        ([2**63, 1], ["9223372036854775808", "1"]),
        ([3.0, 2.0], [3, 2]),
    ],
)
def test_parquet_labels_keep_their_kind(tmp_path, labels, expected):
    kind = pa.uint64() if labels[0] == 2**63 else None
    data = parquet(a=[1.0, 2.0], y=pa.array(labels, kind))
    assert read_table(write(tmp_path, "t.parquet", data)).y.tolist() == expected


def test_npz_labels_that_are_truth_values(tmp_path):
    X, y = np.eye(2), np.array([True, False])
    assert read_table(write(tmp_path, "t.npz", npz(X=X, y=y))).y.tolist() == ["True", "False"]
    named = npz(X=X, y=y, target_names=["no", "yes"])
    assert read_table(write(tmp_path, "t.npz", named)).target_names == ("no", "yes")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": np.array([2**63, 1], np.uint64)}, 'row 1, column "y": expected a class label'),
        ({"y": np.array([1.0, 1e19])}, 'row 2, column "y": expected a class label, got "1e'),
        ({"feature_names": ["a"]}, 'column "feature_names": expected 2 names'),
        ({"X": np.array([[0.0, np.inf], [1, 1]])}, "row 1, column 2: .* number, got inf"),
    ],
)
def test_npz_that_does_not_fit_together(tmp_path, arrays, message):
    arrays = {"X": np.eye(2), "y": np.array([0, 1])} | arrays
    with pytest.raises(DataFileError, match=message):
        read_table(write(tmp_path, "t.npz", npz(**arrays)))
