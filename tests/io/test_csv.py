"""The tokenizer of delimited text next to Python's own, and what a table's opening tells."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.io import DataFileError, read_table, sources
from oblong.io.layout import _is_header
from oblong.io.numbers import is_missing, is_number
from oblong.io.tables import read_training_table


def read(folder, data, target=None):
    """Features, labels and names."""
    path = folder / "t.csv"
    path.write_bytes(data)
    table = read_table(path, target)
    return table.X, table.y, table.feature_names


X_EXPECTED = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "data",
    [
        b"a,b,y\n1,2,x\n3,4,z\n",
        b"\xef\xbb\xbfa,b,y\r\n1,2,x\r\n\r\n3,4,z\r\n",
        b"a,b,y\r1,2,x\r3,4,z\r",
        b"# a comment\n#another\n\na;b;y\n1;2;x\n3;4;z",
        b"a\tb\ty\n+1.\t.2e1\tx\n 3 \t4\t z \n",
        b'"a, or A","b","y"\n1,2,"x"\n3,4,"z"\n',
        b"a,b,y\n1,2,x\n   \n3,4,z\n",
        b"1,2,x\n3,4,z\n",
        b",b,y\n1,2,x\n3,4,z\n",
        b",a,b,y\n0,1,2,x\n1,3,4,z\n",
        b"0,1,target\n1,2,x\n3,4,z\n",
    ],
    ids=[
        "plain",
        "bom-crlf-blank",
        "old-mac",
        "comments-semicolon",
        "tabs-odd-numbers",
        "quoted",
        "spaces-only-line",
        "no-header",
        "unnamed-feature",
        "pandas-index",
        "pandas-numbered-columns",
    ],
)
def test_reads_the_same_table_in_many_dresses(tmp_path, data):
    X, y, _ = read(tmp_path, data)
    assert X.tolist() == X_EXPECTED
    assert y.tolist() == ["x", "z"]


def test_quoted_line_breaks(tmp_path):
    X, y, names = read(tmp_path, b'"a\nb",y\n1,"x\nx"\n2,"q""q"\n')
    assert (X.ravel().tolist(), y.tolist(), names) == ([1.0, 2.0], ["x\nx", 'q"q'], ("a\nb",))


def test_line_numbers_count_quoted_line_breaks_blank_lines_and_comments(tmp_path):
    data = b'# comment\n\na,y\n1,"x\nx\nx"\n\nbad,z\n'
    with pytest.raises(DataFileError) as error:
        read(tmp_path, data)
    assert error.value.row == 8
    assert error.value.column == '"a"'


@pytest.mark.parametrize(
    ("first", "second", "header"),
    [
        ("a,b,y", "1,2,x", True),
        ("5.1,3.5,setosa", "4.9,3.0,setosa", False),
        ("5.1,3.5,1", "4.9,3.0,0", False),
        ("1990,1991,label", "4.9,3.0,3", True),
        ("?,3.5,a", "4.9,3.0,b", False),
        ("0,1,2", "0.5,3.0,1", True),
    ],
)
def test_header_detection(first, second, header):
    assert _is_header(first.split(","), [second.split(",")]) is header


def test_target_by_name_and_by_number(tmp_path):
    X, y, names = read(tmp_path, b"y,a,b\nx,1,2\nz,3,4\n", "y")
    assert (X.tolist(), y.tolist(), names) == (X_EXPECTED, ["x", "z"], ("a", "b"))
    X, y, names = read(tmp_path, b"x,1,2\nz,3,4\n", "1")
    assert (X.tolist(), y.tolist(), names) == (X_EXPECTED, ["x", "z"], None)


@pytest.mark.parametrize(
    ("spellings", "expected"),
    [
        (["1", "-1", "+1"], [1, -1, 1]),
        (["1", "b"], ["1", "b"]),
        (["01", "1"], ["01", "1"]),
        (["1.0", "2.0", "1"], [1, 2, 1]),
        (["1.0", "2.5"], ["1", "2.5"]),
        (["1.000000e+00", "-2"], [1, -2]),
        (["9" * 30, "1"], ["9" * 30, "1"]),
    ],
)
def test_labels_are_integers_only_if_all_are(tmp_path, spellings, expected):
    rows = "".join(f"0,{s}\n" for s in spellings)
    _, y, _ = read(tmp_path, f"a,y\n{rows}".encode())
    assert y.tolist() == expected


def test_pyarrow_is_not_needed(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert read(tmp_path, b"a,y\n1,x\n2,z\n")[0].tolist() == [[1.0], [2.0]]


def test_old_ends_of_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_CAPACITY", 8)
    rows = [f"{k},{'xz'[k % 2]}" for k in range(40)]
    for end in ("\n", "\r\n", "\r"):
        X, y, _ = read(tmp_path, end.join(["a,y", *rows]).encode())
        assert X.ravel().tolist() == list(range(40))
        assert y.tolist() == ["x", "z"] * 20


NUMBERS = st.one_of(
    st.floats(-1e150, 1e150).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["", " 7 ", "NA", "1e23", "+7", "-0.0", ".5", "5.", "0.0000000000000000000012"]
    ),
    st.sampled_from(["٣", "1_0", "0x1", "1e999", "-inf", "1e", "1.2.3", "x", "1e5.", "00012"]),
)
WORDS = st.one_of(
    st.sampled_from(["", "red", " red ", "NA", 'say "no"', "a, b", "two\nlines", 'a"b', "ä\r\n"]),
    st.text(max_size=5).filter(lambda word: "\0" not in word),
)


def number_of(cell):
    """What Python makes of a cell; None if it is not a number that is taken."""
    cell = cell.strip()
    if is_missing(cell):
        return np.nan
    value = float(cell) if is_number(cell) else np.inf
    return value if abs(value) <= 1e150 else None


@given(
    rows=st.lists(st.tuples(NUMBERS, WORDS, NUMBERS), min_size=1, max_size=30),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
    capacity=st.sampled_from([8, 64, 1 << 20]),
    ended=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_it_reads_what_python_reads(tmp_path_factory, rows, quoting, end, capacity, ended):
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=quoting, lineterminator=end)
    rows = [(*row, "pq"[k % 2]) for k, row in enumerate([*rows, ("1", "w", "2")])]
    writer.writerows([["a", "b", "c", "y"], *rows])
    text = stream.getvalue() if ended else stream.getvalue()[: -len(end)]
    path = tmp_path_factory.getbasetemp() / "t.csv"
    path.write_bytes(text.encode())
    expected = [[number_of(cell) for cell in (row[0], row[2])] for row in rows]
    words = ["" if is_missing(row[1]) else row[1].strip() for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_CAPACITY", capacity)
        if any(None in values for values in expected):
            with pytest.raises(DataFileError, match=r'column "[ac]": expected a number'):
                read_training_table(path, categorical=["b"], gaps=True)
            return
        table = read_training_table(path, categorical=["b"], gaps=True)
    np.testing.assert_array_equal(table.X[:, [0, 2]].astype(float), expected)
    assert table.X[:, 1].tolist() == words
    assert table.y.tolist() == [row[3] for row in rows]


def test_quotes_inside_cells_do_not_mislead(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + '1,5" pipe,p\n2,flat,q\n3,7" by 8" plate,p\n' * 50)
    table = read_training_table(path, categorical="auto")
    assert table.X[:3, 1].tolist() == ['5" pipe', "flat", '7" by 8" plate']


def test_tables_of_words_grow(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in rng.integers(900, size=2000)]
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + "".join(f"{k},{w},{k % 2}\n" for k, w in enumerate(words)))
    assert read_training_table(path, categorical="auto").X[:, 1].tolist() == words


@given(st.integers(1, 10**18), st.integers(-45, 45))
@settings(max_examples=200, deadline=None)
def test_long_numbers_are_rounded_correctly(tmp_path_factory, mantissa, exponent):
    spelled = f"{mantissa}e{exponent}"
    X, _, _ = read(tmp_path_factory.getbasetemp(), f"{spelled},-{spelled},0\n1,1,1\n".encode())
    assert X[0, 0] == float(spelled) == -X[0, 1]
