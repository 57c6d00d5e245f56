from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.datasets import DataFileError
from oblong.datasets import _delimited as delimited

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
def test_reads_the_same_table_in_many_dresses(data):
    X, y, _ = delimited.read_delimited(data, "t.csv", None)
    assert X.tolist() == X_EXPECTED
    assert y.tolist() == ["x", "z"]


@pytest.mark.parametrize("reader", ["fast", "careful"])
def test_quoted_line_breaks(reader):
    data = b'"a\nb",y\n1,"x\nx"\n2,"q""q"\n'
    layout = delimited.find_layout(data, "t.csv", None, None)
    if reader == "fast":
        X, y = delimited._read_fast(data, layout)
    else:
        X, y = delimited._read_carefully(data, "t.csv", layout)
    assert X.ravel().tolist() == [1.0, 2.0]
    assert y.tolist() == ["x\nx", 'q"q']


def test_line_numbers_count_quoted_line_breaks_blank_lines_and_comments():
    data = b'# comment\n\na,y\n1,"x\nx\nx"\n\nbad,z\n'
    with pytest.raises(DataFileError) as error:
        delimited.read_delimited(data, "t.csv", None)
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
    assert delimited._is_header(first.split(","), second.split(",")) is header


def test_target_by_name_and_by_number():
    named = b"y,a,b\nx,1,2\nz,3,4\n"
    X, y, names = delimited.read_delimited(named, "t.csv", "y")
    assert (X.tolist(), y.tolist(), names) == (X_EXPECTED, ["x", "z"], ("a", "b"))
    bare = b"x,1,2\nz,3,4\n"
    X, y, names = delimited.read_delimited(bare, "t.csv", "1")
    assert (X.tolist(), y.tolist(), names) == (X_EXPECTED, ["x", "z"], None)


@pytest.mark.parametrize(
    ("spellings", "expected"),
    [
        (["1", "-1", "+1"], [1, -1, 1]),
        (["1", "b"], ["1", "b"]),
        (["01", "1"], ["01", "1"]),
        (["1.0", "2.0"], ["1.0", "2.0"]),
        (["9" * 30, "1"], ["9" * 30, "1"]),
    ],
)
def test_labels_are_integers_only_if_all_are(spellings, expected):
    rows = "".join(f"0,{s}\n" for s in spellings)
    _, y, _ = delimited.read_delimited(f"a,y\n{rows}".encode(), "t.csv", None)
    assert y.tolist() == expected


def test_without_pyarrow_the_careful_reader_serves(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    layout = delimited.find_layout(b"a,y\n1,x\n", "t.csv", None, None)
    assert delimited._read_fast(b"a,y\n1,x\n", layout) is None
    X, _, _ = delimited.read_delimited(b"a,y\n1,x\n", "t.csv", None)
    assert X.tolist() == [[1.0]]


CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["", " 7 ", "NA", "1e999", "-inf", "nan", "0x1", "1_0", "+.5", "5.", "٣", "é"]),
)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(
        st.tuples(CELLS, CELLS, st.sampled_from(["a", " b", 'c"c', "d\ne", "1", "", "f,g"])),
        min_size=1,
        max_size=6,
    )
)
def test_the_fast_reader_never_disagrees_with_the_careful_one(rows):
    text = io.StringIO()
    csv.writer(text).writerows([("u", "v", "w"), *rows])
    data = text.getvalue().encode()
    layout = delimited.find_layout(data, "t.csv", None, None)
    fast = delimited._read_fast(data, layout)
    try:
        careful = delimited._read_carefully(data, "t.csv", layout)
    except DataFileError:
        assert fast is None
        return
    if fast is not None:
        np.testing.assert_array_equal(fast[0], careful[0])
        np.testing.assert_array_equal(fast[1], careful[1])
