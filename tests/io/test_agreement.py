"""Thousands of odd files, read by all readers and by the commands: rows, classes, names, errors."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import pytest
import scipy.sparse as sp

from oblong import load
from oblong._core.text import quote
from oblong.cli import main
from oblong.io import DataFileError, RowReader, read_table, sources
from oblong.io.prediction import read_rows
from oblong.io.tables import read_training_table
from oblong.persistence import load_with_manifest

NUMBERS = ["1", "-2.5", "+.5", "3e2", "007", "0.1234567890123456789", " 4 ", '"5"', "1E-3", "6."]
ODD = ["", "NA", "n/a", "?", "NaN", "x", "1,5", "inf", "1e999", '"a ""b"""', "1 2", "é", "0x1", "-"]
LABELS = [
    ["a", "b"],
    ["1", "-1"],
    ["+1", "1", "2"],
    ["1.0", "0.0"],
    ["1", "1.0", "2"],
    ["01", "1"],
    ["1", "2", "x"],
    ["x", "1"],
    ["only"],
    ['"a,b"', "c"],
    ['"two\nlines"', "one"],
    [" a", "a ", "b"],
    ["NA", "a"],
    ["", "b"],
    ["1e3", "1000", "3"],
    ["2.5", "1.5"],
    ["True", "False"],
    ["9007199254740993", "9007199254740992"],
    ["été", "hiver"],
]
NAMES = [
    "u",
    "v",
    "w",
    "long name",
    '"a, b"',
    "x y",
    "",
    "0",
    "1",
    "u",
    "1990",
    '"q""q"',
    "é",
    "NA",
]


def table(rng):
    """Delimited text, right in most respects."""
    width, n = int(rng.integers(1, 5)), int(rng.integers(0, 9))
    delimiter = str(rng.choice([",", ",", ",", ";", "\t", "|", " "]))
    end = str(rng.choice(["\n", "\n", "\r\n", "\r"]))
    labels = LABELS[rng.integers(len(LABELS))]
    place = int(rng.choice([width, width, width, rng.integers(0, width + 1)]))
    dirt = rng.choice([0.0, 0.0, 0.0, 0.05, 0.4])

    def cell():
        return str(rng.choice(ODD if rng.random() < dirt else NUMBERS))

    rows = []
    for k in range(n):
        cells = [cell() for _ in range(width)]
        cells.insert(place, labels[k % len(labels)])
        rows.append(cells)
    kind = rng.integers(6)
    if kind < 3:
        rows.insert(0, [str(name) for name in rng.choice(NAMES, width + 1)])
    elif kind == 3:
        rows.insert(0, [*map(str, range(width)), "class"])
    if rng.random() < 0.15:
        begin = int(rng.integers(0, 3))
        rows = [["" if k == 0 else str(k - 1 + begin), *row] for k, row in enumerate(rows)]
    if rows and rng.random() < 0.15:
        row = rows[rng.integers(len(rows))]
        row.append("7") if rng.random() < 0.5 else row.pop()
    lines = [delimiter.join(row) for row in rows]
    extra = ["", "   ", "# note", '"open', "\t", '""', ",", "a\0b"]
    while rng.random() < 0.2:
        lines.insert(int(rng.integers(len(lines) + 1)), str(rng.choice(extra)))
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    data = text.encode("utf-8" if rng.random() < 0.95 else "latin-1", "replace")
    return (b"\xef\xbb\xbf" if rng.random() < 0.1 else b"") + data


def libsvm(rng):
    first, lines = int(rng.integers(0, 2)), []
    labels = [label for label in LABELS[rng.integers(len(LABELS))] if " " not in label]
    for k in range(int(rng.integers(0, 8))):
        columns = np.flatnonzero(rng.random(5) < 0.6) + first
        pairs = [f"{j}:{rng.choice(NUMBERS).strip()}" for j in columns]
        if rng.random() < 0.05:
            pairs.insert(
                0, str(rng.choice(["x:1", "2:", "1:nan", "3:1e999", "qid:4", "5", "#", "0:1"]))
            )
        lines.append(" ".join([labels[k % len(labels)] if labels else "1", *pairs]))
    while rng.random() < 0.2:
        lines.insert(int(rng.integers(len(lines) + 1)), str(rng.choice(["", " ", "# note", "1 1"])))
    return str(rng.choice(["\n", "\r\n"])).join(lines).encode()


def objects(rng):
    lines, whole = [], rng.random() < 0.9
    for k in range(int(rng.integers(0, 8))):
        row = {name: float(rng.integers(9)) for name in "abc" if whole or rng.random() < 0.7}
        row["y"] = [["u", "v"], [1, 2], [1, "w"], [1.5, 2], ["1.0", 1, 2]][int(rng.integers(5))][
            k % 2
        ]
        if rng.random() < 0.05:
            row["a"] = [None, "word", True, [1, 2], {"d": 3}, float("nan")][int(rng.integers(6))]
        lines.append(json.dumps(row))
    while rng.random() < 0.1:
        lines.insert(
            int(rng.integers(len(lines) + 1)), str(rng.choice(["", "{", "[]", '{"a": 1}']))
        )
    return "\n".join(lines).encode()


def files(n, seed=0):
    """Names and contents; a part has no extension, and a part is compressed."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        make, names = [
            (table, ["t.csv", "t.csv", "t.txt", "t", "t.tsv"]),
            (libsvm, ["t.libsvm", "t.svm", "t"]),
            (objects, ["t.jsonl", "t"]),
        ][int(rng.choice([0, 0, 0, 0, 0, 0, 0, 1, 1, 2]))]
        name, data = str(rng.choice(names)), make(rng)
        if k % 20 == 0:
            name, data = name + ".gz", gzip.compress(data)
        yield name, data


def dense(X):
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def outcome(read, path, *more):
    """What a reader makes of a file: rows, labels, names, spellings; or what it complains about."""
    caught = None
    try:
        X, y, names, spellings = read(path, *more)
    except DataFileError as error:
        caught = error
    if caught is not None:
        assert str(caught).isprintable()
        assert "--" not in (caught.advice or "")
        return caught.problem, caught.row, caught.column
    return dense(X).tolist(), list(y), names, sorted(spellings)


def as_table(path):
    found = read_table(path)
    names = None if found.feature_names is None else list(found.feature_names)
    return found.X, found.y.tolist(), names, found.target_names


def as_training_table(path):
    found = read_training_table(path)
    return found.X, found.y.tolist(), found.schema.feature_names, found.target_names


def as_rows(path, n=10**6):
    with RowReader(path) as reader:
        batches = []
        while (batch := reader.read(n)) is not None:
            batches.append(batch)
        labels = reader.labels
    width = reader.n_columns
    if width is None:
        width = max((int(b.columns.max()) + 1 for b in batches if b.columns.size), default=0)
    if not width:
        raise DataFileError(reader.source, "expected features after the labels, got none")
    if len(labels) < 2:
        problem = f"expected two or more classes, got only {quote(reader.spellings[0])}"
        raise DataFileError(reader.source, problem)
    X = np.vstack([dense(batch.matrix(width)) for batch in batches])
    y = [labels[code] for batch in batches for code in batch.codes]
    return X, y, reader.names, reader.spellings


def is_json(name, data):
    text = gzip.decompress(data) if name.endswith(".gz") else data
    return "json" in name or text.lstrip().startswith(b"{")


@pytest.mark.parametrize("part", range(3))
@pytest.mark.large
def test_all_readers_agree(tmp_path, monkeypatch, part):
    counts = {"read": 0, "refused": 0}
    for name, data in files(1000, seed=part):
        path = tmp_path / name
        path.write_bytes(data)
        known = outcome(as_table, path)
        message = f"{name}: {data!r}"
        assert outcome(as_training_table, path) == known, message
        # A stream cannot know that a name is absent before it comes.
        absent = is_json(name, data) and "missing" in str(known[0])
        assert absent or outcome(as_rows, path) == known, message
        with monkeypatch.context() as patch:
            patch.setattr(sources, "_CAPACITY", 32)
            assert absent or outcome(as_rows, path, 3) == known, message
            assert outcome(as_table, path) == known, message
        if len(known) == 3:
            counts["refused"] += 1
            continue
        counts["read"] += 1
        schema = read_training_table(path).schema
        np.testing.assert_array_equal(dense(read_rows(path, schema)), known[0], message)
    # Both happen often enough to mean something.
    assert min(counts.values()) > 200


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaint(capsys, *words):
    """The line with which a command ends, without what may help; nothing if it does well."""
    code = main(list(words))
    err = capsys.readouterr().err.splitlines()
    return re.split(r" \(--|; --|; name all|; save|; choose|; if ", err[-1])[0] if code == 2 else ""


@pytest.mark.large
def test_compare_reads_as_the_others(folder, capsys):
    rows = "5.1,3.5,1.4,setosa\n6.3,3.3,6.0,virginica\n" * 6
    (folder / "t.csv").write_text("0,1,2,class\n" + rows)
    words = ["compare", "t.csv", "--models", "svm-linear", "--cv", "2", "--no-nested", "--json"]
    assert main([*words, "--jobs", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["features"]) == (12, 3)
    assert found["classes"] == ["setosa", "virginica"]


@pytest.mark.large
def test_commands_agree(folder, capsys):
    """Train, compare, predict and stream, on a sample."""
    read = refused = 0
    for name, data in files(36, seed=7):
        (folder / name).write_bytes(data)
        stream = ["stream", name, "--learner", "pa", "--json", "-o", "s.oblong"]
        try:
            known = read_table(name)
        except DataFileError as error:
            # Without what may help, which is said in the words of each.
            expected = re.split(r"; (?:[a-z_]+= |choose|save|if )", f"oblong: error: {error}")[0]
            train = ["train", name, "--model", "PassiveAggressiveClassifier", "-o", "m.oblong"]
            assert complaint(capsys, *train) == expected
            absent = is_json(name, data) and "missing" in expected
            assert absent or complaint(capsys, *stream) == expected
            refused += 1
            if refused < 4:
                assert complaint(capsys, "compare", name, "--models", "svm-linear") == expected
            continue
        whole = isinstance(known.y[0], np.integer)
        steady = whole or not known.target_names[0][0].isdigit()
        if not steady or len(known.y) < 2:
            continue
        assert main(stream) == 0
        final = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert final["rows"] == len(known.y)
        model, manifest = load_with_manifest("s.oblong")
        assert model.classes_.tolist() == np.unique(known.y).tolist()
        assert tuple(manifest["training"]["target_names"]) == known.target_names
        words = ["train", name, "--model", "PassiveAggressiveClassifier", "-o", "m.oblong"]
        if main(words) == 0:
            assert load("m.oblong").classes_.tolist() == model.classes_.tolist()
            capsys.readouterr()
            assert main(["predict", "m.oblong", name, "-o", "p.txt"]) == 0
            predicted = (folder / "p.txt").read_text()
            assert set(predicted.split("\n")) <= {"", *known.target_names} or '"' in predicted
        read += 1
    assert min(read, refused) > 4
