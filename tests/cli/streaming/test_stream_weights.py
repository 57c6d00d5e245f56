"""Rows with weights: a row of weight k is k rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

import oblong
from oblong.cli import main

NAMES = "abc"


def rows(n=240, seed=0):
    """Features, words for labels and whole weights, a third of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(3)
    y = np.array(["low", "mid", "high"])[np.digitize(X @ [1.0, -2.0, 0.5], [-1.0, 1.0])]
    return X, y, rng.integers(0, 4, n) * (rng.random(n) < 0.7)


def table(X, y, w=None):
    """A table; the weights are in its second column."""
    lines = ["a,b,c,kind" if w is None else "a,w,b,c,kind"]
    for i, (a, b, c) in enumerate(X.tolist()):
        weight = "" if w is None else f"{w[i]},"
        lines.append(f"{a},{weight}{b},{c},{y[i]}")
    return "\n".join(lines) + "\n"


def objects(X, y, w=None):
    lines = []
    for i, x in enumerate(X.tolist()):
        row = dict(zip(NAMES, x)) | {"y": y[i]} | ({} if w is None else {"w": int(w[i])})
        lines.append(json.dumps(row) + "\n")
    return "".join(lines)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def end_of(capsys, *words):
    assert main(["stream", *words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert all(line.startswith("oblong: warning: ") for line in err.splitlines())
    return json.loads(out.splitlines()[-1])


LEARNERS = {
    "arow": [],
    "cw": ["--param", "covariance=full"],
    "scw": ["--param", "covariance=sketch", "--param", "sketch_size=2"],
    "pa": [],
    "iellip": [],
    "kernel-cw": ["--param", "gamma=0.3", "--classes", "low,mid,high"],
    "online-esvm": ["--classes", "low,mid,high", "--param", "batch_size=7"],
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", LEARNERS)
def test_a_weight_stands_for_copies(folder, capsys, name):
    X, y, w = rows()
    (folder / "w.csv").write_text(table(X, y, w))
    (folder / "c.csv").write_text(table(X.repeat(w, axis=0), y.repeat(w)))
    options = ["--learner", name, *LEARNERS[name]]
    ours = end_of(capsys, "w.csv", "--weight", "w", "-o", "w.oblong", *options)
    theirs = end_of(capsys, "c.csv", "-o", "c.oblong", *options)
    assert (ours["rows"], ours["examples"]) == (len(y), w.sum())
    for key in ("examples", "mistakes", "error", "majority_error", "classes"):
        assert ours[key] == theirs[key]
    first, second = oblong.load("w.oblong"), oblong.load("c.oblong")
    assert first.t_ == second.t_ == w.sum()
    assert first.feature_names_in_.tolist() == list(NAMES)
    np.testing.assert_allclose(first.decision_function(X), second.decision_function(X), rtol=1e-7)


@pytest.mark.parametrize("bits", [[], ["--hash-bits", "8"]])
def test_every_format_with_weights(folder, capsys, bits):
    X, y, w = rows()
    (folder / "t.csv").write_text(table(X, y, w))
    (folder / "t.jsonl").write_text(objects(X, y, w))
    # The label is in the last column that does not hold weights.
    lines = (folder / "t.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines]
    swapped = "\n".join("\t".join([a, b, c, kind, v]) for a, v, b, c, kind in cells)
    (folder / "t.tsv").write_text(swapped)
    known = [*bits, "--weight", "w", "--param", "covariance=diag"]
    found = [end_of(capsys, name, *known) for name in ("t.csv", "t.tsv", "t.jsonl")]
    assert len({end["mistakes"] for end in found}) == 1
    assert len({end["features"] for end in found}) == 1
    assert end_of(capsys, "t.jsonl", *bits, "--param", "covariance=diag")["examples"] == len(y)


def test_without_a_header(folder, capsys):
    X, y, w = rows()
    (folder / "t.csv").write_text(table(X, y, w))
    expected = end_of(capsys, "t.csv", "--weight", "w")
    (folder / "t.csv").write_text(table(X, y, w).partition("\n")[2])
    assert end_of(capsys, "t.csv", "--weight", "2")["mistakes"] == expected["mistakes"]


def test_fractions_scale_the_cost(folder, capsys):
    X, y, _ = rows()
    (folder / "t.csv").write_text(table(X, y, np.full(len(y), 0.5)))
    end = end_of(capsys, "t.csv", "--weight", "w", "-o", "m.oblong")
    assert end["examples"] == end["rows"] == len(y)
    model = oblong.AROWClassifier(allow_new_classes=True, normalize=True)
    for x, label in zip(X, y):
        model.learn_one(x, label, sample_weight=0.5)
    np.testing.assert_allclose(oblong.load("m.oblong").coef_, model.coef_, rtol=1e-9)


def test_the_reports_count_examples(folder, capsys):
    X, y, w = rows()
    (folder / "t.csv").write_text(table(X, y, w))
    words = ["t.csv", "--weight", "w", "--window", "50"]
    end_of(capsys, *words, "--report", "r.html")
    page = (folder / "r.html").read_text()
    assert f"Of {w.sum():,} examples (rows times their weights)" in page
    assert "--weight w" in page
    end_of(capsys, *words, "--report", "r.jsonl")
    *windows, end = map(json.loads, (folder / "r.jsonl").read_text().splitlines())
    assert windows[-1]["rows"] == len(y)
    assert windows[-1]["error"] == end["error"]


def test_resuming_with_weights(folder, capsys):
    X, y, w = rows()
    lines = table(X, y, w).splitlines(keepends=True)
    words = ["t.csv", "--weight", "w", "--window", "40", "--every", "60", "--checkpoint", "c"]
    (folder / "t.csv").write_text("".join(lines[:121]))
    end_of(capsys, *words)
    (folder / "t.csv").write_text("".join(lines))
    resumed = end_of(capsys, *words, "--resume", "-o", "m.oblong")
    whole = end_of(capsys, *words[:-2], "--checkpoint", "d", "-o", "whole.oblong")
    for key in ("rows", "examples", "mistakes", "classes"):
        assert resumed[key] == whole[key]
    assert (folder / "m.oblong").read_bytes() == (folder / "whole.oblong").read_bytes()


BAD = "a,w,kind\n1,1,u\n2,{},v\n3,1,u\n4,1,v\n"


@pytest.mark.parametrize(
    ("name", "text", "weight", "message"),
    [
        ("t.csv", BAD.format(-1), "w", 't.csv, row 3, column "w": expected a weight of at least 0'),
        ("t.csv", BAD.format("x"), "w", 'row 3, column "w": expected a number, got "x"'),
        ("t.csv", BAD.format('"-2"'), "w", 'row 3, column "w": expected a weight of at least 0'),
        ("t.csv", BAD.format(""), "w", 'row 3, column "w": expected a number, got a missing value'),
        ("t.csv", BAD.format(1), "ww", 'no column "ww" (did you mean "w"?)'),
        ("t.csv", BAD.format(1), "kind", "expected a number, got"),
        ("t.csv", "w,kind\n1,u\n1,v\n", "w", "expected features beside the label and the weight"),
        ("t.csv", BAD.replace(",1,", ",0,").format(0), "w", "rows with a weight above 0, got none"),
        ("t.libsvm", "1 1:1\n2 2:1\n", "w", "this format has no weights; leave out --weight"),
        (
            "t.jsonl",
            '{"y": 1, "a": 1}\n',
            "w",
            'row 1, column "w": expected a weight that',
        ),
        ("t.jsonl", '{"y": 1, "a": 1, "w": true}\n', "w", "expected a weight that is a number"),
        ("t.jsonl", '{"y": 1, "a": 1, "w": -1}\n', "w", "expected a weight of at least 0, got -1"),
        ("t.jsonl", '{"y": 1, "a": 1, "w": 1e999}\n', "w", "expected a weight of at most"),
        ("t.jsonl", '{"y": 1, "a": 1}\n', "y", "the label and the weight are the same column"),
    ],
)
def test_wrong_weights(folder, capsys, name, text, weight, message):
    (folder / name).write_text(text)
    assert main(["stream", name, "--weight", weight, "-o", "m.oblong"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert [p.name for p in folder.iterdir()] == [name]


def test_rows_of_wrong_weight_can_be_skipped(folder, capsys):
    (folder / "t.csv").write_text(BAD.format(-1))
    assert end_of(capsys, "t.csv", "--weight", "w", "--skip-bad")["skipped"] == 1


def test_hard_learners_take_whole_weights_only(folder, capsys):
    (folder / "t.csv").write_text(BAD.format(0.5))
    assert main(["stream", "t.csv", "--weight", "w", "--learner", "cw"]) == 1
    err = capsys.readouterr().err
    assert "whole" in err
    assert err.count("\n") == 1
