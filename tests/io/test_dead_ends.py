"""Files with which there is some trouble: the message says what helps, and it does help."""

from __future__ import annotations

import io
import json
import sys
import zipfile

import numpy as np
import pytest

from oblong.cli import main
from oblong.io import DataFileError, open_rows, read_table
from oblong.io.dialect import Dialect
from oblong.io.errors import advice_for
from oblong.io.prediction import read_rows
from oblong.io.tables import read_training_table
from oblong.streams import RowReader

N = 24
KINDS = ["yes", "no"] * (N // 2)


def written(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def table(*columns, head="a,b,y", sep=",", above="", below=""):
    rows = [head.replace(",", sep) + "\n" + below]
    rows += [sep.join(map(str, row)) + "\n" for row in zip(*columns)]
    return above + "".join(rows)


def complaint(path, **options):
    with pytest.raises(DataFileError) as caught:
        read_training_table(path, **options)
    return str(caught.value)


MONEY = ["2.033", "950", "1.200", "83"] * (N // 4)
WHOLE = [2033, 950, 1200, 83] * (N // 4)


@pytest.mark.parametrize("other", [range(N), KINDS, MONEY])
def test_read_training_table__points_that_may_separate_thousands(tmp_path, other):
    path = written(tmp_path, table(MONEY, other, KINDS, sep=";"))
    how = {"categorical": "auto"} if other is KINDS else {}
    message = complaint(path, **how)
    assert 't.csv, row 2, column "a": "2.033" may be 2033 or a number with decimals' in message
    assert message.endswith("thousands= . reads groups of three digits, decimal= . reads decimals")
    X = read_training_table(path, dialect=Dialect(thousands="."), **how).X[:, [0]]
    assert X.ravel().tolist() == WHOLE
    X = read_training_table(path, dialect=Dialect(thousands=""), **how).X[:, [0]]
    assert X.ravel().tolist() == [float(text) for text in MONEY]


def test_read_table__points_are_said_to_separate(tmp_path):
    path = written(tmp_path, table(MONEY, range(N), KINDS, sep=";"))
    with pytest.raises(DataFileError, match=r"thousands= . reads groups of three digits, decimal="):
        read_table(path)
    assert read_table(path, decimal=".").X[0, 0] == 2.033
    found = read_table(path, thousands=".")
    assert found.X[:, 0].tolist() == WHOLE


@pytest.mark.parametrize(
    ("money", "other", "sep", "n_notes"),
    [
        (MONEY, [f"{k}.5" for k in range(N)], ";", 1),
        ([f"1.{k:03d}" for k in range(N)], range(5, 5 + N), ";", 1),
        (["2.033", "1.5", "950", "7"] * 6, MONEY, ";", 1),
        (["2.033", "1000", "950", "7"] * 6, range(5, 5 + N), ";", 0),
        (["0.033", "950", "12", "7"] * 6, range(5, 5 + N), ";", 0),
        (["2.033", "950", "12", "7"] * 6, range(5, 5 + N), ",", 0),
    ],
)
def test_read_training_table__points_that_separate_decimals(tmp_path, money, other, sep, n_notes):
    path = written(tmp_path, table(money, other, KINDS, sep=sep))
    found = read_training_table(path)
    assert found.X[:, 0].tolist() == [float(text) for text in money]
    notes = [note for note in found.notes if "identifier" not in note]
    assert len(notes) == n_notes
    assert all("is read as a number with decimals; if it means" in note for note in notes)


def test_read_training_table__points_beside_decimal_commas(tmp_path):
    path = written(tmp_path, table(["2,5"] * N, MONEY, KINDS, sep=";"))
    assert "decimal= , reads decimal commas" in complaint(path)
    message = complaint(path, dialect=Dialect(decimal=","))
    assert 'got "2.033"; thousands= . reads groups of three digits' in message
    found = read_training_table(path, dialect=Dialect(decimal=",", thousands="."))
    assert found.X[:2].tolist() == [[2.5, 2033], [2.5, 950]]


def test_row_reader__points_are_noted(tmp_path, capsys, monkeypatch):
    path = written(tmp_path, table(MONEY, range(N), KINDS, sep=";"))
    with RowReader(path) as reader:
        assert reader.notes == []
        assert reader.read(N).matrix(2)[0, 0] == 2.033
        note = 'column "a": 2.033 was read as a number with decimals'
        assert reader.notes == [note]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert main(["stream", "-", "--format", "csv", "--json"]) == 0
    assert f"oblong: note: standard input: {note}" in capsys.readouterr().err


TITLES = {
    "padded": "Sales report 2025,,\nCreated by: J. Doe,,\n,,\n",
    "bare": "Sales report 2025\nCreated by: J. Doe\n\n",
    "quoted": '"Sales, by ""region"""\n"of 2025"\n',
}


@pytest.mark.parametrize("kind", TITLES)
def test_read_training_table__titles_above_the_header(tmp_path, kind):
    above = TITLES[kind]
    n = above.count("\n")
    path = written(tmp_path, table(range(5, 5 + N), range(N), KINDS, above=above))
    message = complaint(path)
    assert message.startswith("t.csv, row 1: expected the names of columns, got ")
    expected = f"which looks like a title; skip_rows= {n} skips what is above row {n + 1}"
    assert message.endswith(expected)
    found = read_training_table(path, dialect=Dialect(skip_rows=n))
    assert found.schema.feature_names == ["a", "b"]
    # What is to be predicted need not have the same above it.
    assert found.schema.dialect is None
    new = written(tmp_path, "a,b\n1,2\n", "new.csv")
    assert read_rows(new, found.schema).tolist() == [[1, 2]]
    again = read_rows(path, found.schema, dialect=Dialect(skip_rows=n))
    np.testing.assert_array_equal(again, found.X)
    np.testing.assert_array_equal(read_table(path, skip_rows=n).X, found.X)


@pytest.mark.parametrize(
    "text",
    [
        '"a\nb",y\n1,p\n2,q\n',
        "x,,\n1,2,p\n2,3,q\n",
        "1,,\n1,2,p\n2,3,q\n",
        "a|b\n1|p\n2|q\n",
    ],
)
def test_read_training_table__first_rows_that_are_no_titles(tmp_path, text):
    message = ""
    try:
        read_training_table(written(tmp_path, text), gaps=True)
    except DataFileError as error:
        message = str(error)
    assert "title" not in message


def test_read_training_table__units_below_the_header(tmp_path):
    path = written(tmp_path, table(range(5, 5 + N), range(N), KINDS, below="[mm],kg,-\n"))
    message = complaint(path)
    assert message.endswith('got "[mm]"; if the first row holds units, skip_bad= skips it')
    found = read_training_table(path, dialect=Dialect(skip_bad=True))
    # A row that is skipped has no part in the labels either.
    assert found.target_names == ("no", "yes")
    assert found.notes[0].startswith("1 bad row was skipped, the first is row 2")


@pytest.mark.parametrize(
    "text", ["inf", "-Infinity", "(2033)", "18:19", "0x7f1", "2_033", "1.2D+03"]
)
def test_read_training_table__numbers_of_other_notations(tmp_path, text, capsys):
    column = [*range(N - 1), text]
    path = written(tmp_path, table(column, range(N), KINDS))
    assert main(["train", str(path), "-o", str(tmp_path / "m")]) == 2
    message = capsys.readouterr().err
    assert f'row {N + 1}, column "a": expected a number, got "{text}"; ' in message
    assert "--categorical" not in message
    assert "labels" not in message


@pytest.mark.parametrize("text", ["#N/A", "#n/a", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!"])
@pytest.mark.parametrize("column", ["numbers", "words"])
def test_read_training_table__errors_of_spreadsheets_are_gaps(tmp_path, text, column):
    rest = range(1, N) if column == "numbers" else ["red", "blue", "green"] * 8
    path = written(tmp_path, table(["1", "2"], ["1", "2"], KINDS) + f"3,{text},yes\n")
    path = written(tmp_path, table([*list(rest)[:-1], text], range(N), KINDS))
    found = read_training_table(path, gaps=True, categorical="auto")
    last = found.X[len(found.y) - 1 :, [0]].ravel()[0]
    assert last == "" or np.isnan(last)
    with RowReader(path, hash_bits=10) as reader:
        assert np.diff(reader.read(N).indptr)[len(found.y) - 1] == 1


def test_read_training_table__minus_signs_of_print(tmp_path):
    path = written(tmp_path, table([f"\u2212{k}.5" for k in range(N)], range(N), KINDS))
    assert read_training_table(path).X[:, 0].tolist() == [-k - 0.5 for k in range(N)]


def test_read_training_table__free_text(tmp_path, capsys):
    path = written(tmp_path, table(["the same four words or so"] * N, range(N), KINDS))
    assert complaint(path).endswith("text= splits it into words")
    assert main(["train", str(path), "-o", str(tmp_path / "m")]) == 2
    assert "--text splits it into words" in capsys.readouterr().err


@pytest.mark.parametrize("middle", [True, False])
def test_read_training_table__labels_that_are_not_in_the_last_column(tmp_path, middle):
    columns = (range(N), KINDS, [0.5 * k for k in range(N)])
    path = written(tmp_path, table(*(columns if middle else columns[::-1]), head="a,y,b"))
    assert 'got "yes"; if these are the labels, give target= "y"' in complaint(path)
    path = written(tmp_path, table(KINDS, range(N), KINDS))
    assert "labels" not in complaint(path)


def archive(*names):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name in names:
            file.writestr(name, "a,b\n1,2\n")
    return stream.getvalue()


OTHERS = {
    "Excel workbook": archive("[Content_Types].xml", "xl/workbook.xml"),
    "Office document": archive("[Content_Types].xml", "word/document.xml"),
    'ZIP archive of "data.csv"': archive("data.csv"),
    "HTML page": b"\n<!DOCTYPE html>\n<html><body>",
    "Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "ARFF": b"% iris\n\n@RELATION iris\n@ATTRIBUTE x NUMERIC\n",
    "XML": b"<?xml version='1.0'?>\n",
    "HDF5": b"\x89HDF\r\n\x1a\n",
    "SQLite": b"SQLite format 3\0",
    "PDF": b"%PDF-1.4\n",
    "pickle": b"\x80\x04\x95\x00\x00",
    "Parquet": b"PAR1\x15",
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", ["t", "t.csv", "t.jsonl", "t.xlsx"])
def test_read_table__other_kinds_of_files(tmp_path, kind, name):
    if name in ("t.csv", "t.jsonl"):
        kind_there = "ZIP archive" if OTHERS[kind][:2] == b"PK" else kind
    else:
        kind_there = "damaged Parquet" if kind == "Parquet" else kind
    with pytest.raises(DataFileError) as caught:
        read_table(written(tmp_path, OTHERS[kind], name))
    assert kind_there in str(caught.value)


def test_read_table__addresses(capsys):
    with pytest.raises(DataFileError, match="are not opened; download the file"):
        read_table("https://example.org/data.csv")
    assert main(["train", "https://example.org/data.csv", "-o", "m"]) == 2
    assert "addresses are not opened" in capsys.readouterr().err


WRONG = {
    "text": "1,2,p\nx,3,q\n",
    "comma": "1;2;p\n1,5;3;q\n",
    "width": "1,2,p\n3,q\n",
    "date": "2024-01-01,2,p\n2024-01-02,3,q\n",
    "dash": "1,2,p\n-,3,q\n",
    "encoding": b"1,2,p\n\xe9,3,q\n",
    "word label": "1,2,1\n1,3,q\n",
    "prose": "one two three four five,2,p\n1,2,q\n",
    "title": "A title\nand more\n1,2,p\n1,3,q\n",
}
PARAMETERS = {
    read_table: "target zero_based delimiter decimal thousands encoding missing skip_rows skip_bad",
    open_rows: "target columns weight format",
    RowReader: "format target weight classes hash_bits text n_features zero_based header skip_bad",
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("read", PARAMETERS)
def test_errors_advise_what_the_function_has(tmp_path, case, read):
    path = written(tmp_path, WRONG[case])
    try:
        found = read(path, target="3") if case != "title" else read(path)
        None if read is read_table else list(found)
    except DataFileError as error:
        words = [word[:-1] for word in str(error).split() if word.endswith("=")]
        assert set(words) <= set(PARAMETERS[read].split())


def test_read_table__unknown_parameters(tmp_path):
    path = written(tmp_path, "1,2,p\n1,3,q\n")
    with pytest.raises(TypeError, match="unexpected keyword argument 'sep'"):
        read_table(path, sep=",")
    for how in ({"decimal": ""}, {"missing": [1]}, {"skip_rows": -1}, {"thousands": ",,"}):
        with pytest.raises(ValueError, match=f"{next(iter(how))} must be"):
            read_table(path, **how)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["train", "t.csv", "-o", "m"], "--skip-bad"),
        (["stream", "t.csv"], "--skip-bad"),
        (["predict", "m", "t.csv"], None),
    ],
)
def test_commands_advise_options_that_they_have(tmp_path, monkeypatch, capsys, words, option):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, table(range(N), range(N), KINDS))
    assert main(["train", "t.csv", "--model", "AROWClassifier", "--no-score", "-o", "m"]) == 0
    written(tmp_path, path.read_text() + "1,2\n")
    capsys.readouterr()
    assert main(words) == 2
    message = capsys.readouterr().err
    assert f"row {N + 2}: expected 3 fields, got 2" in message
    assert (f"; {option} skips such rows" if option else "got 2\n") in message


def test_advice_for__keeps_parts():
    with pytest.raises(DataFileError) as caught, advice_for("b"):
        raise DataFileError("x", "wrong", advice="a= helps; b= helps too; try again")
    assert str(caught.value) == "x: wrong; b= helps too; try again"


def test_train__words_of_json_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [{"n": k, "user": {"city": "xyz"[k % 3]}, "y": KINDS[k]} for k in range(N)]
    written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "n.jsonl")
    words = ["train", "n.jsonl", "--model", "AROWClassifier", "--no-score", "-o", "m"]
    assert main(words) == 2
    assert "--categorical auto encodes text" in capsys.readouterr().err
    for columns in ("auto", "user.city"):
        assert main([*words, "--categorical", columns]) == 0
    assert main(["predict", "m", "n.jsonl", "-o", "p.txt"]) == 0
    assert set((tmp_path / "p.txt").read_text().split()) <= {"yes", "no"}


def test_train__notes_name_options(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, table(MONEY, [f"{k}.5" for k in range(N)], KINDS, sep=";"))
    assert main(["train", "t.csv", "--model", "AROWClassifier", "--no-score", "-o", "m"]) == 0
    note = 't.csv: column "a": 2.033 is read as a number with decimals; if it means 2033, give '
    assert f"{note}--thousands ." in capsys.readouterr().err
