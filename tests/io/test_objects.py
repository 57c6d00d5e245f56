"""JSON lines are tables: the same as the same table of delimited text."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.io import DataFileError, read_table
from oblong.io.dataset import Schema
from oblong.io.dialect import Dialect
from oblong.io.prediction import read_rows
from oblong.io.tables import read_training_table

N = 12
ROWS = [
    {"size": 1000 + 0.5 * k, "colour": ["red", "blue"][k % 2], "y": ["p", "q"][k // 3 % 2]}
    for k in range(N)
]


def written(folder, rows, name="t.jsonl"):
    path = folder / name
    text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def as_csv(folder, rows, names):
    def cell(value):
        return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else str(value)

    lines = [",".join(names)]
    lines += [
        ",".join("" if row.get(name) is None else cell(row[name]) for name in names) for row in rows
    ]
    path = folder / "t.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def complaint(path, *arguments, **options):
    with pytest.raises(DataFileError) as caught:
        read_training_table(path, *arguments, **options)
    return str(caught.value)


def test_read_training_table__objects_are_as_delimited_text(tmp_path):
    rows = [dict(row) for row in ROWS]
    rows[2]["size"] = rows[5]["colour"] = None
    del rows[7]["size"], rows[9]["colour"]
    rows[3]["colour"] = 'two\nlines, "quoted"'
    text = as_csv(tmp_path, rows, ["size", "colour", "y"])
    how = {"categorical": "auto", "gaps": True}
    known, found = (read_training_table(p, **how) for p in (text, written(tmp_path, rows)))
    assert found.schema == known.schema
    assert found.y.tolist() == known.y.tolist()
    assert (found.facts, found.notes) == (known.facts, known.notes)
    assert np.asarray(found.X).tolist()[:2] == np.asarray(known.X).tolist()[:2]
    np.testing.assert_array_equal(found.X[:, [0]], known.X[:, [0]])
    assert found.X[:, 1].tolist() == known.X[:, 1].tolist()
    for path in (text, tmp_path / "t.jsonl"):
        again = read_rows(path, Schema.from_json(found.schema.to_json()), gaps=True)
        np.testing.assert_array_equal(again[:, [0]], known.X[:, [0]])
        assert again[:, 1].tolist() == known.X[:, 1].tolist()


@pytest.mark.parametrize("gap", [{"size": None}, {}, {"size": float("nan")}, {"size": "NA"}])
def test_read_training_table__gaps_of_objects_are_errors(tmp_path, gap):
    rows = [{"a": "x\ny" if k == 1 else "x", "size": k, "y": k % 2} for k in range(N)]
    rows[6] = {"a": "z", **gap, "y": 0}
    path = written(tmp_path, rows)
    message = 't.jsonl, row 7, column "size": expected a number, got a missing value'
    assert complaint(path, categorical="auto") == message
    table = read_training_table(path, categorical="auto", gaps=True)
    assert np.isnan(table.X[:, [1]]).ravel().tolist() == [k == 6 for k in range(N)]
    with pytest.raises(DataFileError, match=r'row 7, column "size": .* a missing value'):
        read_rows(path, table.schema)
    for row in rows:
        row["a"] = 1
    with pytest.raises(DataFileError, match=r'row 7, column "size": .* a missing value'):
        read_table(written(tmp_path, rows))


def test_read_rows__single_columns_keep_their_gaps(tmp_path):
    table = read_training_table(written(tmp_path, [{"a": k, "y": k % 2} for k in range(N)]))
    path = written(tmp_path, [{"a": 1}, {}, {"a": None, "b": "new"}], "n.jsonl")
    rows = read_rows(path, table.schema, gaps=True)
    np.testing.assert_array_equal(rows, [[1], [np.nan], [np.nan]])
    with pytest.raises(DataFileError, match='row 2, column "a"'):
        read_rows(path, table.schema)


def test_read_rows__tables_of_all_formats_for_one_model(tmp_path):
    schema = read_training_table(as_csv(tmp_path, ROWS, ["size", "y"])).schema
    rows = read_rows(written(tmp_path, [{"size": 2, "new": [1]}, {"size": 3.5}]), schema)
    assert rows.tolist() == [[2], [3.5]]


def sparse_rows():
    rng = np.random.default_rng(0)
    rows = [{f"w{j}": 1 + int(j) for j in rng.choice(40, 5, False)} for _ in range(30)]
    return [row | {"y": k % 2} for k, row in enumerate(rows)]


def test_read_training_table__most_names_absent(tmp_path):
    rows = sparse_rows()
    path = written(tmp_path, rows)
    for how in ({}, {"gaps": True}, {"categorical": "auto"}):
        table = read_training_table(path, **how)
        assert sp.issparse(table.X)
        assert table.schema.sparse
        assert table.notes[0].startswith("most names are absent from most objects, so rows are sp")
    names = table.schema.feature_names
    expected = [[row.get(name, 0) for name in names] for row in rows]
    assert table.X.toarray().tolist() == expected
    schema = Schema.from_json(table.schema.to_json())
    assert read_rows(path, schema).toarray().tolist() == expected
    assert names[3] not in read_training_table(path, drop=[names[3]]).schema.feature_names
    assert "no column" in complaint(path, drop=["zzz"])
    del rows[4][next(iter(rows[4]))]
    rows[4][names[0]] = None
    path = written(tmp_path, rows)
    assert f'row 5, column "{names[0]}": expected a number, got a missing' in complaint(path)
    with pytest.raises(DataFileError, match="row 5, column"):
        read_rows(path, schema)
    # Whoever says what a column is has a table.
    assert 'row 1, column "' in complaint(path, categorical=[names[0]])


def test_read_training_table__columns_of_objects_are_in_order(tmp_path):
    rows = [{"b": 1, "y": 0}, {"a": 2, "b": 1, "c": 3, "d": 4, "y": 1}] * 4
    rows += [{"a": 2, "b": 1, "c": 3, "d": 4, "y": 1}] * 9
    found = read_training_table(written(tmp_path, rows), gaps=True)
    assert found.schema.feature_names == ["a", "b", "c", "d"]


def test_read_training_table__options_of_columns_of_objects(tmp_path):
    rows = [
        {"id": k, "when": f"2024-01-{k + 1:02d}", "note": f"cheap pills {k}", "plz": f"0{k}", **row}
        for k, row in enumerate(ROWS)
    ]
    path = written(tmp_path, rows)
    how = {"drop": ["id"], "dates": ["when"], "text": ["note"], "categorical": ["colour"]}
    table = read_training_table(path, "y", **how)
    assert table.schema.feature_names == ["when", "note", "plz", "size", "colour"]
    assert (table.schema.text, table.schema.hashed) == ([1, 4], [1])
    assert table.facts.padded[0][1:] == ("00", 1)
    again = read_rows(path, table.schema)
    assert np.asarray(again).tolist() == np.asarray(table.X).tolist()
    assert "the label column cannot be left out" in complaint(path, "y", drop=["y"])
    assert 'no column "Y" (did you mean "y"?)' in complaint(path, "Y")


def test_read_training_table__bad_lines_of_objects(tmp_path):
    lines = [json.dumps({"a": "two\nlines", "b": k, "y": k % 2}) for k in range(N)]
    lines[4:4] = ["", "{", '{"a": 1, "b": {"c": 1}, "b.c": 2, "y": 1}', "[1]"]
    path = written(tmp_path, "\n".join(lines) + "\n")
    how = {"categorical": ["a"], "gaps": True}
    assert complaint(path, **how).startswith("t.jsonl, row 6: expected a JSON object on every line")
    table = read_training_table(path, **how, dialect=Dialect(skip_bad=True))
    assert len(table.y) == N
    assert table.notes[0].startswith("3 bad rows were skipped, the first is row 6: expected a JSON")
    del lines[5]
    path = written(tmp_path, "\n".join(lines) + "\n")
    assert 'row 6, column "b.c": expected every name once' in complaint(path, **how)


@pytest.mark.parametrize(
    "text", ['[{"a": 1, "y": 0},\n {"a": 2, "y": 1}]\n', "[\n{\n"], ids=["one line", "pretty"]
)
def test_read_table__arrays_of_objects(tmp_path, monkeypatch, text):
    expected = r'every line, got an array; pandas writes .* to_json\(orient="records", lines=True\)'
    with pytest.raises(DataFileError, match=expected):
        read_table(written(tmp_path, text, "t.json"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with pytest.raises(DataFileError, match=expected):
        read_table("-")


def test_read_training_table__truth_values_and_large_labels_of_objects(tmp_path):
    rows = [{"a": k % 3 == 0, "y": 9007199254740993 + k % 2} for k in range(N)]
    table = read_training_table(written(tmp_path, rows))
    assert table.X.ravel().tolist() == [float(k % 3 == 0) for k in range(N)]
    assert set(table.y) == {9007199254740993, 9007199254740994}


def test_read_table__standard_input_of_objects(monkeypatch, tmp_path):
    text = "".join(json.dumps(row | {"colour": 1}) + "\r\n" for row in ROWS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + text.encode())))
    assert read_table("-").X[:, 0].tolist() == [row["size"] for row in ROWS]
