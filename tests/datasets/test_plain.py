"""The compiled reader of large tables, on small ones cut into many pieces."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from oblong.datasets import DataFileError
from oblong.datasets import _columns as columns
from oblong.datasets import _plain as plain
from oblong.datasets._delimited import find_layout
from oblong.datasets._mixed import MixedArray
from oblong.datasets.tables import read_training_table


def small(patch, piece=1 << 22, window=1 << 16, few=1 << 8, odd=1 << 14):
    """Let the reader take small text, in small pieces."""
    patch.setattr(plain, "_SMALL", 0)
    patch.setattr(plain, "_PIECE", piece)
    patch.setattr(plain, "_WINDOW", window)
    patch.setattr(plain, "_FEW", few)
    patch.setattr(plain, "_ODD", odd)
    patch.setattr(plain, "available_threads", lambda: 3)


def read(text, words, **sizes):
    """Columns as the compiled reader and as the careful one have them."""
    data = text.encode()
    layout = find_layout(data, "t.csv", "y", None)
    wanted = list(range(len(layout.names)))
    with pytest.MonkeyPatch.context() as patch:
        small(patch, **sizes)
        found = columns._read_plain(data, layout, wanted, set(words))
    return found, columns._read_csv(data, "t.csv", layout, wanted)


def check_equal(found, careful):
    for j, column in found.items():
        if isinstance(column, columns.Words):
            spelled = [[*c.words, None] for c in (column, careful[j])]
            one, other = (np.array(s)[c.codes] for s, c in zip(spelled, (column, careful[j])))
            assert one.tolist() == other.tolist()
        else:
            values, numeric = columns.numbers_of(careful[j])
            assert numeric.all()
            np.testing.assert_array_equal(column, values)


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**19), 10**19).map(str),
    st.sampled_from(["", "NA", "1e23", "+7", "-0.0", ".5", "5.", "0.0000000000000000000012", "?"]),
)
WORDS = st.one_of(
    st.sampled_from(["", "red", " red ", "NA", 'say "no"', "a, b", "two\nlines", 'a"b', "ä\r\n"]),
    st.text(max_size=5).filter(lambda word: "\0" not in word),
)


@given(
    rows=st.lists(st.tuples(NUMBERS, WORDS, NUMBERS, WORDS), min_size=1, max_size=30),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
    piece=st.sampled_from([1, 20, 100, 1 << 20]),
    ended=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_it_agrees_with_the_careful_reader(rows, quoting, end, piece, ended):
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=quoting, lineterminator=end)
    writer.writerows([["a", "b", "c", "y"], *rows])
    text = stream.getvalue() if ended else stream.getvalue().rstrip("\r\n")
    try:
        found, careful = read(text, {1, 3}, piece=piece, window=7, few=2, odd=2)
    except DataFileError:
        return
    if found is not None:
        check_equal(found, careful)


def test_it_reads_what_is_regular():
    """Quotes, ends of lines in cells, blank lines, gaps, and no end of the last line."""
    lines = ['"1.5","New York, NY",2,p', "", ',"two\nlines",NA,q', '+3,"say ""no""",-4e-3,p']
    text = "a,b,c,y\n" + "\n".join(lines * 40)
    for piece in (8, 64, 1 << 20):
        found, careful = read(text, {1, 3}, piece=piece)
        assert found is not None
        assert len(found[0]) == 120
        check_equal(found, careful)


def test_quotes_inside_cells_do_not_mislead():
    text = "a,b,y\n" + '1,5" pipe,p\n2,flat,q\n3,7" by 8" plate,p\n' * 50
    found, careful = read(text, {1, 2}, piece=64)
    assert found is not None
    check_equal(found, careful)


def test_tables_of_words_grow():
    rng = np.random.default_rng(0)
    text = "a,b,y\n" + "".join(f"{k},w{rng.integers(900)},p\n" for k in range(2000))
    found, careful = read(text, {1, 2}, few=2)
    check_equal(found, careful)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_MOST", 64)
        assert read(text, {1, 2}, few=2)[0] is None


@pytest.mark.parametrize(
    "row", ["1,x,2,3,p", "1,x,p", 'x,"a"b,2,p', "1,x,y,p", "1,x,1e999x,p", '1,"x,2,p']
)
def test_it_steps_aside(row):
    data = ("a,b,c,y\n" + "1,x,2,p\n" * 20 + row + "\n").encode()
    layout = find_layout(data, "t.csv", "y", None)
    with pytest.MonkeyPatch.context() as patch:
        small(patch, piece=32)
        assert columns._read_plain(data, layout, [0, 1, 2, 3], {1, 3}) is None


@given(st.integers(1, 10**18), st.integers(-45, 45))
@settings(max_examples=500, deadline=None)
def test_long_numbers_are_rounded_correctly(mantissa, exponent):
    spelled = f"{mantissa}e{exponent}"
    found, _ = read(f"a,b,y\n{spelled},-{spelled},p\n", {2})
    assert found[0][0] == float(spelled) == -found[1][0]


def test_numbers_halfway_between_doubles():
    """Those whose rounding is a tie are left to Python, and come back right."""
    values = [2**53 + 1 + 2 * k for k in range(50)] + [10**23, 5 * 10**22 + 1]
    found, _ = read("a,b,y\n" + "".join(f"{v},{v}.0,p\n" for v in values), {2})
    np.testing.assert_array_equal(found[0], [float(v) for v in values])
    np.testing.assert_array_equal(found[1], [float(v) for v in values])


TABLE = 'a,b,y\n1.5,"red, dark",p\n,blue,q\n2.5,,p\n' + "3,blue,q\n4,red,p\n" * 40


def test_files_are_read_in_pieces(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    expected = read_training_table(path, categorical="auto", gaps=True)
    small(monkeypatch, piece=32)
    monkeypatch.setattr("oblong.datasets.tables.fetch", None)
    table = read_training_table(path, categorical="auto", gaps=True)
    np.testing.assert_array_equal(table.X[:, [0]], expected.X[:, [0]])
    assert table.X[:, 1].tolist() == expected.X[:, 1].tolist()
    assert table.y.tolist() == expected.y.tolist()
    assert table.schema == expected.schema


def test_errors_in_large_files_name_the_line(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    small(monkeypatch, piece=32)
    with pytest.raises(DataFileError, match=r't.csv, row 3, column "a": expected a number'):
        read_training_table(path, categorical="auto")
    path.write_text("a,b,y\n1,2,p\n" * 20)
    with pytest.raises(DataFileError, match="row 3"):
        read_training_table(path)
    path.write_bytes(TABLE.encode() + b"3,re\0d,q\n")
    with pytest.raises(DataFileError, match="got binary data"):
        read_training_table(path, categorical="auto", gaps=True)
    path.write_text("a,y\n1,p\n2,p\n")
    with pytest.raises(DataFileError, match="two or more classes"):
        read_training_table(path)


def test_files_that_shrink_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("1,2\n" * 10)
    with plain.LargeFile(path) as file:
        assert len(file) == 40
        assert file[-4:] == b"1,2\n"
        path.write_text("1,2\n")
        small(monkeypatch)
        assert plain.read_plain(file, 0, ",", 2, [0, 1], []) is None


def mixed(n=60):
    rng = np.random.default_rng(0)
    words = ["red", "green", "blue"]
    codes = [rng.integers(-1, 3, n), rng.integers(0, 3, n)]
    return MixedArray(rng.normal(size=(n, 2)), codes, [words, words], [1, 3])


@pytest.mark.parametrize(
    "key",
    [
        (slice(None), 0),
        (slice(None), 3),
        (slice(None), [0, 2]),
        (slice(None), [2, 0]),
        (slice(None), [1, 3]),
        (slice(None), slice(1, 3)),
        (slice(None), np.array([True, False, True, True])),
        (slice(3, 9), [3, 0]),
        (5, [0, 1]),
        5,
        slice(2, 7),
        np.array([4, 1]),
        (np.array([4, 1]), Ellipsis),
    ],
)
def test_mixed_arrays_are_indexed_as_arrays(key):
    X = mixed()
    whole = np.asarray(X)
    assert whole.dtype == object
    assert whole.shape == X.shape == (len(X), 4)
    assert np.asarray(X[key]).tolist() == whole[key].tolist()


def test_mixed_arrays_give_floats_without_a_copy():
    X = mixed()
    assert X[:, [0, 2]].dtype == np.float64
    assert np.shares_memory(X[:, [0, 2]], X[:, 0])
    with pytest.raises(ValueError, match="a copy is needed"):
        X.__array__(copy=False)


def test_mixed_arrays_in_pipelines():
    X = mixed()
    y = (X[:, 0] + (X[:, 1] == "red") > 0).astype(int)
    encoder = OneHotEncoder(handle_unknown="ignore")
    parts = [("numbers", StandardScaler(), [0, 2]), ("text", encoder, [1, 3])]
    pipeline = make_pipeline(ColumnTransformer(parts), LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1.0]}
    one = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    other = GridSearchCV(pipeline, grid, cv=3).fit(np.asarray(X), y)
    assert one.best_score_ == other.best_score_
    found, expected = one.decision_function(X), other.decision_function(np.asarray(X))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
