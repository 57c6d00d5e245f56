"""Malformed files of all kinds: one line, an exit code, and never half a file."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oblong
from oblong.cli import main

CELLS = st.one_of(
    st.sampled_from(
        ["", "1", "-2.5", "+3", "1e5", "1e999", "nan", "inf", "?", "NA", "x", "a b", '"', '""']
    ),
    st.sampled_from(
        ['"q', 'q"', '"a,b"', '"a\nb"', "1,5", "#", "é", "\x00", "\ufeff", "0x1F", "1_0"]
    ),
    st.text(max_size=4),
    st.floats(width=32).map(repr),
)
TABLES = st.builds(
    lambda rows, comma, end: end.join(comma.join(row) for row in rows),
    st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=8),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
SQUARE = (
    st.integers(2, 4)
    .flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=9))
    .map(lambda rows: "\n".join(",".join(row) for row in rows))
)
FIELDS = ["1", "-1", "+1", "1:2", "2:0.5", "3:x", "qid:1", "#", ":", "1:", "0:1", "99999999999:1"]
FIELDS += ["1:inf", "é", "\x00", "1:1e999", "x", "1,2"]
PAIRS = st.lists(st.sampled_from(FIELDS), max_size=6)
LIBSVM = st.lists(PAIRS.map(" ".join), max_size=6).map("\n".join)
TEXTS = st.one_of(TABLES, SQUARE, LIBSVM).map(lambda text: text.encode("utf-8", "surrogatepass"))
CONTENTS = st.one_of(
    TEXTS,
    st.binary(max_size=80),
    TEXTS.map(gzip.compress),
    TEXTS.map(lambda data: gzip.compress(data)[:-5]),
    st.binary(max_size=40).map(lambda data: b"\x28\xb5\x2f\xfd" + data),
    st.binary(max_size=40).map(lambda data: b"PAR1" + data + b"PAR1"),
    st.binary(max_size=40).map(lambda data: b"PK\x03\x04" + data),
)
NAMES = st.sampled_from(["t.csv", "t.tsv", "t.libsvm", "t.parquet", "t.npz", "t.txt", "t.csv.zst"])
OPTIONS = st.sampled_from(
    [[], ["--impute"], ["--categorical", "auto"], ["--impute", "mean", "--categorical", "auto"]]
)


@contextlib.contextmanager
def inside_a_folder():
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def run(*words):
    """Exit code and both outputs of a command line; an exception is a traceback to the user."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    assert code in (0, 1, 2)
    lines = err.getvalue().splitlines()
    assert all(line.startswith("oblong: ") for line in lines)
    if code:
        assert out.getvalue() == ""
        assert sum("error:" in line for line in lines) == 1
        assert lines[-1].isprintable()
    return code, out.getvalue()


@given(content=CONTENTS, name=NAMES, options=OPTIONS)
@example(content=b"a,y\n1,p\n2,q\n", name="t.csv", options=[])
@example(content=b'x,y\n"1\n",p\n2,q\n', name="t.csv", options=["--categorical", "auto"])
@settings(max_examples=250)
def test_any_data_file(content, name, options):
    with inside_a_folder() as folder:
        Path(name).write_bytes(content)
        code, _ = run(
            "train", name, *options, "--model", "PassiveAggressiveClassifier", "-o", "model"
        )
        expected = [name, "model"] if code == 0 else [name]
        assert sorted(p.name for p in folder.iterdir()) == sorted(expected)
        if code == 0:
            # What could be trained on can be predicted.
            code, out = run("predict", "model", name)
            assert code == 0
            assert out


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small model with text and gaps, as bytes."""
    with inside_a_folder():
        Path("t.csv").write_text("x,c,y\n1,red,p\n,blue,q\n3,,p\n4,blue,q\n")
        code, _ = run(
            *["train", "t.csv", "--impute", "--categorical", "auto", "-o", "model"],
            *["--model", "PassiveAggressiveClassifier"],
        )
        assert code == 0
        return Path("model").read_bytes()


@given(content=CONTENTS, name=NAMES)
@settings(max_examples=150)
def test_any_rows_to_predict(model, content, name):
    with inside_a_folder() as folder:
        Path("model").write_bytes(model)
        Path(name).write_bytes(content)
        code, out = run("predict", "model", name, "-o", "out")
        assert out == ""
        expected = {name, "model", "out"} if code == 0 else {name, "model"}
        assert {p.name for p in folder.iterdir()} == expected


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "drop", "insert", "repeat"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(1, 255),
    ),
    min_size=1,
    max_size=3,
)


def edited(content, edits):
    content = bytearray(content)
    for kind, share, value in edits:
        place = int(share * len(content))
        if kind == "flip" and content:
            content[place] ^= value
        elif kind == "cut":
            del content[place:]
        elif kind == "drop":
            del content[place : place + value]
        elif kind == "insert":
            content[place:place] = bytes([value]) * (value % 7 + 1)
        else:
            content[place:place] = content[place : place + value]
    return bytes(content)


@given(edits=EDITS, command=st.sampled_from(["predict", "info", "export"]))
@settings(max_examples=200)
def test_any_model_file(model, edits, command):
    with inside_a_folder() as folder:
        Path("m").write_bytes(edited(model, edits))
        Path("new.csv").write_text("x,c\n1,red\n")
        words = {
            "predict": ["predict", "m", "new.csv", "-o", "out"],
            "info": ["info", "m"],
            "export": ["export", "--onnx", "m", "-o", "out"],
        }[command]
        code, _ = run(*words)
        allowed = {"m", "new.csv"} | ({"out"} if code == 0 and command != "info" else set())
        assert {p.name for p in folder.iterdir()} == allowed


@given(words=st.lists(st.text(max_size=6), max_size=4))
@settings(max_examples=100)
def test_any_words_after_a_command(words):
    with inside_a_folder():
        for command in ("train", "predict", "info", "export"):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                assert main([command, *words]) in (0, 2)


def test_the_fuzz_tests_reach_the_models():
    """What they write can be right, too."""
    with inside_a_folder():
        np.savez("t.npz", X=np.eye(4), y=[0, 1, 0, 1])
        assert run("train", "t.npz", "--model", "rmm", "-o", "m")[0] == 0
        assert oblong.load("m").predict(np.eye(4)).tolist() == [0, 1, 0, 1]
