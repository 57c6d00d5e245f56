from __future__ import annotations

import gzip
import io

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from oblong.io import DataFileError, RowReader, read_table, sources
from oblong.io import rows as reader


def read_all(path, n=1000, **options):
    """All rows of a file as a matrix, labels, and the reader."""
    with RowReader(path, **options) as rows:
        batches = []
        while (batch := rows.read(n)) is not None:
            batches.append(batch)
    labels = [rows.labels[code] for batch in batches for code in batch.codes]
    width = rows.n_columns
    if width is None:
        tops = [b.columns.max() for b in batches if b.columns is not None and b.columns.size]
        width = max(tops, default=0) + 1
    parts = [batch.matrix(width) for batch in batches]
    if not parts:
        return None, labels, rows
    X = sp.vstack(parts).toarray() if sp.issparse(parts[0]) else np.vstack(parts)
    return X, labels, rows


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_libsvm_is_that_of_scikit_learn(tmp_path):
    X = sp.random(300, 40, density=0.2, format="csr", random_state=0)
    rng = np.random.default_rng(0)
    X.data = rng.standard_normal(X.nnz) * 10.0 ** rng.integers(-9, 9, X.nnz)
    y = np.random.default_rng(1).integers(-1, 3, 300)
    dump_svmlight_file(X, y, str(tmp_path / "a.libsvm"), zero_based=False)
    ours, labels, _ = read_all(tmp_path / "a.libsvm", n=7, n_features=40)
    theirs, known = load_svmlight_file(str(tmp_path / "a.libsvm"), n_features=40)
    np.testing.assert_array_equal(ours, theirs.toarray())
    assert labels == known.astype(int).tolist()


def test_libsvm_comments_queries_blanks_and_carriage_returns(tmp_path):
    text = "# head\r\n\r\n+1 qid:3 1:1 3:2 # why\r\n  -1\t2:.5e1 \r\n1.0\r\n-1 1:1 2:2#x"
    X, labels, rows = read_all(write(tmp_path / "a.svm", text), n_features=3)
    np.testing.assert_array_equal(X, [[1, 0, 2], [0, 5, 0], [0, 0, 0], [1, 2, 0]])
    assert labels == [1, -1, 1, -1]
    assert rows.rows == 4


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1:1 2:2", "row 3, column 1: expected a class label first"),
        ("a,b 1:1", "row 3, column 1: expected one class label"),
        ("1 x:1", "row 3, column 2: expected index:value"),
        ("1 2:1 1:1", "row 3, column 3: expected an index above 2"),
        ("1 2:1 2:1", "row 3, column 3: expected an index above 2"),
        ("1 0:1", "row 3, column 2: expected an index of at least 1, got 0; zero_based="),
        ("1 1:", "row 3, column 2: expected a number, got a missing value"),
        ("1 1:nan", "row 3, column 2: expected a number, got a missing value"),
        ("1 1:1e200", "row 3, column 2: expected a number of at most 1e\\+150"),
        ("1 1:2:3", "row 3, column 2: expected index:value"),
        ("1 99999999999999:1", "row 3, column 2: expected an index of at most 16777216"),
        ("1 " + "9" * 5000 + ":1", "row 3, column 2: expected an index of at most"),
        ("1 1", 'row 3, column 2: expected index:value, got "1"'),
        ("cat 1:1", "row 3, column 1: expected a whole number .*; name all classes with classes="),
        ("nan 1:1", "row 3, column 1: expected a class label"),
        ("\x01 1:1", "row 3, column 1: expected a class label"),
    ],
)
def test_malformed_libsvm(tmp_path, row, message):
    path = write(tmp_path / "a.libsvm", f"1 1:1\n-1 1:2\n{row}\n1 1:3\n")
    with pytest.raises(DataFileError, match=f"^a.libsvm, {message}"):
        read_all(path, steady_labels=True)
    X, labels, rows = read_all(path, skip_bad=True, steady_labels=True)
    assert (X.ravel().tolist(), labels, rows.skipped) == ([1, 2, 3], [1, -1, 1], 1)


def test_long_numbers_are_exact(tmp_path):
    numbers = ["0.1234567890123456789012345", "-12345678901234567890123e-7", "1e-310", "4.9e-324"]
    path = write(tmp_path / "a.libsvm", "".join(f"1 1:{x} 2:{x}\n" for x in numbers))
    X, _, _ = read_all(path)
    assert X.tolist() == [[float(x)] * 2 for x in numbers]
    path = write(tmp_path / "a.csv", "".join(f"{x},{x},b\n" for x in numbers))
    X, _, _ = read_all(path)
    assert X.tolist() == [[float(x)] * 2 for x in numbers]


def test_table_is_that_of_the_other_reader(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        ",".join([*map(repr, x), "yes" if x[0] > 0 else '"no, not"'])
        for x in rng.normal(size=(50, 3)).tolist()
    ]
    path = write(tmp_path / "a.csv", "\n".join(["u,v,w,kind", *rows]))
    known = read_table(path)
    X, labels, reader_ = read_all(path, n=8)
    np.testing.assert_array_equal(X, known.X)
    assert labels == known.y.tolist()
    assert reader_.names == ["u", "v", "w"]
    first, labels, reader_ = read_all(path, target="kind", n=3)
    np.testing.assert_array_equal(first, known.X)


def test_tables_with_tabs_semicolons_numbers_and_no_header(tmp_path):
    X, labels, rows = read_all(write(tmp_path / "a.tsv", "1\t 2 \t3\n4\t5\t6\n"))
    assert (X.tolist(), labels, rows.names) == ([[1, 2], [4, 5]], [3, 6], None)
    X, labels, _ = read_all(write(tmp_path / "b", "a;1.5;2\n b ;4;5\n"), target="1")
    assert (X.tolist(), labels) == ([[1.5, 2], [4, 5]], ["a", "b"])
    X, labels, _ = read_all(write(tmp_path / "c.csv", "x,y\nx,z\n"), header=False, hash_bits=4)
    assert labels == ["y", "z"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,2", "row 3: expected 3 fields, got 2"),
        ("1,2,3,4", "row 3: expected 3 fields, got 4"),
        ("1,x,a", 'row 3, column "v": expected a number, got "x"; hash_bits='),
        ("1,,a", 'row 3, column "v": expected a number, got a missing value'),
        ("1,2,", 'row 3, column "y": expected a class label, got a missing value'),
        ('1,2,"a', "row 3: badly quoted field"),
        ("1,\0,a", 'row 3, column "v": expected text, got binary data'),
    ],
)
def test_malformed_tables(tmp_path, row, message):
    path = write(tmp_path / "a.csv", f"u,v,y\n1,2,a\n{row}\n3,4,b\n")
    with pytest.raises(DataFileError, match=f"^a.csv, {message}"):
        read_all(path)
    X, labels, rows = read_all(path, skip_bad=True)
    assert (X.tolist(), labels, rows.skipped) == ([[1, 2], [3, 4]], ["a", "b"], 1)


def test_json_lines(tmp_path):
    text = (
        '{"a": 1, "b": true, "y": "u"}\n\n'
        '{"y": "v", "c": {"d": 2, "e": [3, 4]}, "a": 0}\n{"y": "u", "b": -1e2}\n'
    )
    X, labels, rows = read_all(write(tmp_path / "a.jsonl", text))
    assert rows.names == ["a", "b", "c.d", "c.e.0", "c.e.1"]
    np.testing.assert_array_equal(X, [[1, 1, 0, 0, 0], [0, 0, 2, 3, 4], [0, -100, 0, 0, 0]])
    assert labels == ["u", "v", "u"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", r"row 2: expected a JSON object on every line \("),
        ("3", "row 2: expected a JSON object on every line$"),
        ("[1]", 'row 2: .* every line, got an array; .* to_json.orient="records", lines=True'),
        ('{"a": 1}', 'row 2, column "y": expected a class label, got a missing value'),
        ('{"y": null}', 'row 2, column "y": expected a class label, got a missing value'),
        ('{"y": [1]}', 'row 2, column "y": expected a label'),
        ('{"y": 1, "a": null}', 'row 2, column "a": .* a missing value; a name that is left out'),
        ('{"y": 1, "a": "x"}', 'row 2, column "a": expected a number, got "x"'),
        ('{"y": 1, "a": NaN}', 'row 2, column "a": expected a number, got a missing'),
        ('{"y": 1, "a": 1' + "0" * 400 + "}", 'row 2, column "a": expected a number of at most 1e'),
        ('{"y": 1, "a": ' + "[" * 50 + "]" * 50 + "}", "row 2: the object is nested too deeply"),
        ('{"y": 1, "a": ' + "[" * 99999, "row 2: expected a JSON object"),
    ],
)
def test_malformed_json(tmp_path, row, message):
    path = write(tmp_path / "a.jsonl", '{"y": 0, "a": 1}\n' + row + '\n{"y": 1, "a": 2}\n')
    with pytest.raises(DataFileError, match=f"^a.jsonl, {message}"):
        read_all(path)
    X, labels, rows = read_all(path, skip_bad=True)
    assert (X.ravel().tolist(), labels, rows.skipped) == ([1, 2], [0, 1], 1)


def test_names_hash_alike_in_all_formats(tmp_path):
    libsvm = write(tmp_path / "a.libsvm", "1 size:2.5 colour=red:1\n0 size:1\n")
    table = write(tmp_path / "a.csv", "size,colour,y\n2.5,red,1\n1,,0\n")
    quoted = write(tmp_path / "b.csv", 'size,colour,y\n2.5,"red",1\n1,"",0\n')
    lines = write(
        tmp_path / "a.jsonl",
        '{"size": 2.5, "colour": "red", "y": 1}\n{"size": 1, "colour": null, "y": 0}\n',
    )
    first, _, rows = read_all(libsvm, hash_bits=6)
    assert (rows.n_columns, first.shape) == (64, (2, 64))
    assert sorted(first[0][first[0] != 0]) == [1, 2.5]
    for path in (table, quoted, lines):
        other, labels, _ = read_all(path, hash_bits=6)
        np.testing.assert_array_equal(other, first)
        assert labels == [1, 0]


def test_hashed_columns_that_collide_add_up_and_are_spread(tmp_path):
    names = [f"word{k}" for k in range(2000)]
    path = write(tmp_path / "a.libsvm", "1 " + " ".join(f"{name}:1" for name in names) + "\n")
    X, _, _ = read_all(path, hash_bits=4)
    assert X.sum() == 2000
    # Sixteen columns with 125 each, and a deviation of 11.
    assert X.min() > 75
    assert X.max() < 175
    with RowReader(path, hash_bits=4) as rows:
        assert (np.diff(rows.read(1).columns) > 0).all()


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_compressed(tmp_path, form):
    text = b"".join(b"%d 1:%d 2:1\n" % (k % 2, k) for k in range(500))
    if form == "gzip":
        # Two members after each other make one file.
        data, name = gzip.compress(text[:100]) + gzip.compress(text[100:]), "a.libsvm.gz"
    else:
        pa = pytest.importorskip("pyarrow")
        data, name = pa.compress(text, codec="zstd", asbytes=True), "a.libsvm.zst"
    X, _, _ = read_all(write(tmp_path / name, data), n=64)
    assert X[:, 0].tolist() == list(range(500))
    with pytest.raises(DataFileError, match="damaged or unreadable"):
        read_all(write(tmp_path / name, data[:-20]))


def test_the_content_decides_without_an_extension(tmp_path, monkeypatch):
    for text, form in (
        ("1 1:2 5:3\n", "libsvm"),
        ("# note\n-1 qid:1 1:2\n", "libsvm"),
        ('{"y": 1, "a": 2}\n', "json"),
        ("a,b\n1,2\n", "csv"),
    ):
        with RowReader(write(tmp_path / "rows", text)) as rows:
            assert rows.format == form
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        with RowReader("-") as rows:
            assert (rows.format, rows.source) == (form, "standard input")
            assert len(rows.read(5)) == 1


def test_bad_files(tmp_path):
    with pytest.raises(DataFileError, match="expected a file, got a folder"):
        RowReader(tmp_path)
    with pytest.raises(DataFileError, match="cannot be read: No such file"):
        RowReader(tmp_path / "none.csv")
    with pytest.raises(DataFileError, match="the file is empty"):
        RowReader(write(tmp_path / "a.csv", "\n\n"))
    with pytest.raises(DataFileError, match="got UTF-16"):
        RowReader(write(tmp_path / "a.csv", "a,b\n".encode("utf-16")))
    with pytest.raises(DataFileError, match="leave out target="):
        RowReader(write(tmp_path / "a.libsvm", "1 1:1\n"), target="x")
    with pytest.raises(DataFileError, match="choose it with target="):
        RowReader(write(tmp_path / "a.jsonl", '{"a": 1}\n'))
    with pytest.raises(DataFileError, match="the file is empty"):
        RowReader(write(tmp_path / "b.libsvm", ""))
    with pytest.raises(DataFileError, match="expected rows of text"):
        RowReader(tmp_path / "b.npz")
    with pytest.raises(ValueError, match="format must be one of"):
        RowReader(tmp_path / "a.csv", format="xml")


def test_declared_classes(tmp_path):
    path = write(tmp_path / "a.libsvm", "2 1:1\n+1 1:1\n3 1:1\n")
    _, labels, rows = read_all(path, classes=["1", "2", "3"])
    assert (labels, rows.labels) == ([2, 1, 3], [1, 2, 3])
    with pytest.raises(DataFileError, match='row 3, column 1: the label "3" is not'):
        read_all(path, classes=["1", "2"])
    path = write(tmp_path / "b.csv", "1,2,7\n1,2,x\n")
    assert read_all(path, classes=["7", "x"])[1] == ["7", "x"]


@pytest.fixture
def small_buffers(monkeypatch):
    """Buffers and blocks so small that every batch meets their ends."""
    monkeypatch.setattr(sources, "_CAPACITY", 16)
    monkeypatch.setattr(reader, "_BLOCK", 64)


def test_small_buffers_change_nothing(tmp_path, small_buffers):
    text = "".join(f"{k % 3} 1:{k} {k + 2}:0.5 # {'x' * (k % 40)}\n\n" for k in range(200))
    X, labels, _ = read_all(write(tmp_path / "a.libsvm", "\ufeff" + text), n=10)
    assert labels == [k % 3 for k in range(200)]
    assert X[:, 0].tolist() == list(range(200))


@pytest.mark.parametrize("name", ["a.libsvm", "a.libsvm.gz", "a.jsonl", "a.csv"])
def test_a_reader_goes_on_where_another_stopped(tmp_path, name, small_buffers):
    lines = {
        "a.libsvm": [f"{k % 3} 1:{k} {k + 2}:0.5" for k in range(100)],
        "a.jsonl": [f'{{"y": {k % 3}, "f{k}": {k}}}' for k in range(100)],
        "a.csv": ["x,y", *(f"{k},c{k % 3}" for k in range(100))],
    }[name.removesuffix(".gz")]
    lines[20:20] = ["oops oops"]
    data = "\n".join(lines).encode()
    path = write(tmp_path / name, gzip.compress(data) if name.endswith("gz") else data)

    def batches(rows):
        found = []
        while (batch := rows.read(7)) is not None:
            found.append(batch)
        return found

    with RowReader(path, skip_bad=True) as whole:
        all_batches = batches(whole)
    for stop in range(len(all_batches) + 1):
        with RowReader(path, skip_bad=True) as first:
            position = None
            for _ in range(stop):
                position = first.read(7).position
            # One ahead.
            first.read(7)
            if position is None:
                continue
            state, vocabulary = first.state(position), first.vocabulary(position)
        with RowReader(path, skip_bad=True, state=state, vocabulary=vocabulary) as second:
            rest = batches(second)
        assert [b.position for b in rest] == [b.position for b in all_batches[stop:]]
        for ours, known in zip(rest, all_batches[stop:]):
            for part in ("values", "columns", "indptr", "codes"):
                np.testing.assert_array_equal(getattr(ours, part), getattr(known, part))
        assert (second.labels, second.skipped) == (whole.labels, whole.skipped)


def test_another_file_is_recognised(tmp_path):
    path = write(tmp_path / "a.libsvm", "1 1:1\n0 1:2\n1 1:3\n")
    with RowReader(path) as rows:
        state = rows.state(rows.read(2).position)
    write(path, "1 1:1\n0 1:9\n1 1:3\n")
    with pytest.raises(DataFileError, match="not the input of the checkpoint"):
        RowReader(path, state=state)
    write(path, "1 1:1\n")
    with pytest.raises(DataFileError, match="not the input of the checkpoint"):
        RowReader(path, state=state)


words = st.text("01.:-+#,;\"'eE \t\rqidnax{}[]\0é", max_size=24)


@given(
    st.lists(words, max_size=12), st.sampled_from(["libsvm", "csv", "tsv", "json"]), st.booleans()
)
@settings(max_examples=300, deadline=None)
def test_no_text_makes_a_reader_fail(tmp_path_factory, lines, form, hashed):
    path = tmp_path_factory.getbasetemp() / "fuzz"
    write(path, "\n".join(lines))
    for skip_bad in (False, True):
        try:
            X, labels, _ = read_all(
                path,
                format=form,
                skip_bad=skip_bad,
                hash_bits=5 * hashed,
                target="a" if form == "json" else None,
            )
        except DataFileError as error:
            message = str(error)
        else:
            message = ""
        assert "\n" not in message
        if not message and X is not None:
            assert np.isfinite(X).all()
            assert len(labels) == len(X) <= len(lines) + sum(line.count("\r") for line in lines)


@given(
    st.lists(
        st.tuples(
            st.integers(-2, 2),
            st.lists(st.tuples(st.integers(0, 9), st.floats(-1e9, 1e9)), max_size=6),
        ),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=100, deadline=None)
def test_compiled_and_careful_readers_agree(tmp_path_factory, rows):
    """A trailing blank that only the careful reader knows makes it read every line."""
    path = tmp_path_factory.getbasetemp() / "agree.libsvm"
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{value!r}" for j, value in sorted(dict(pairs).items()))
        for label, pairs in rows
    ]
    write(path, "\n".join(lines))
    fast = read_all(path, n_features=10)
    write(path, "\n".join(line + " \x0b" for line in lines))
    careful = read_all(path, n_features=10)
    assert fast[1] == careful[1]
    np.testing.assert_array_equal(fast[0], careful[0])
