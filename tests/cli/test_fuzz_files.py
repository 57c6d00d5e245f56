"""Files of every format, right at first and then damaged: one line, and never half a file."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oblong
from oblong.cli import main

from .test_fuzz import EDITS, edited, inside_a_folder, run

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).round(2)
Y = np.tile([0, 1], 12)


def zstd(data):
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as compressed:
        compressed.write(data)
    return stream.getvalue().to_pybytes()


def binary(write):
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def columns():
    return {"a": X[:, 0], "b": X[:, 1], "c": ["red", "blue"] * 12, "y": Y}


CSV = ("a,b,c,y\n" + "".join(f"{a},{b},{c},{y}\n" for (a, b, c), y in zip(X, Y))).encode()
LIBSVM = "".join(f"{y} 1:{a} 2:{b} 3:{c}\n" for (a, b, c), y in zip(X, Y)).encode()
JSON = "".join(
    json.dumps({"a": a, "b": {"c": [b, c]}, "y": int(y)}) + "\n"
    for (a, b, c), y in zip(X.tolist(), Y)
).encode()
PARQUET = binary(lambda stream: pq.write_table(pa.table(columns()), stream))
NPZ = binary(lambda stream: np.savez(stream, X=X, y=Y, target_names=["p", "q"]))
PACKED = binary(lambda stream: np.savez_compressed(stream, X=X, y=Y))
OBJECTS = binary(lambda stream: np.savez(stream, X=X.astype(object), y=Y))

TABLES = {
    "t.csv": CSV,
    "t.tsv": CSV.replace(b",", b"\t"),
    "t.libsvm": LIBSVM,
    "t.parquet": PARQUET,
    "t.npz": NPZ,
    "p.npz": PACKED,
    "o.npz": OBJECTS,
    "t.csv.gz": gzip.compress(CSV),
    "t.libsvm.gz": gzip.compress(LIBSVM),
    "t.csv.zst": zstd(CSV),
    "t.libsvm.zst": zstd(LIBSVM),
}
STREAMS = {
    "t.csv": CSV,
    "t.libsvm": LIBSVM,
    "t.jsonl": JSON,
    "t.csv.gz": gzip.compress(CSV),
    "t.jsonl.zst": zstd(JSON),
    "t.libsvm.zst": zstd(LIBSVM),
}
TEXTS = [name for name in TABLES if name in ("t.csv", "t.tsv", "t.libsvm")]
INSIDE = st.sampled_from([lambda data: data, gzip.compress, zstd])


@pytest.mark.parametrize("name", TABLES)
def test_the_files_are_right_at_first(name):
    with inside_a_folder():
        Path(name).write_bytes(TABLES[name])
        code, _ = run("train", name, "--categorical", "auto", "--model", "rmm", "-o", "m")
        # Objects are pickles, and pickles are programs.
        assert code == (2 if name == "o.npz" else 0)


@pytest.mark.parametrize("name", STREAMS)
def test_the_streams_are_right_at_first(name):
    with inside_a_folder():
        Path(name).write_bytes(STREAMS[name])
        assert run("stream", name, "-o", "m", "--json")[0] == 0


@given(name=st.sampled_from(list(TABLES)), edits=EDITS, impute=st.booleans())
@settings(max_examples=250)
def test_damaged_tables(name, edits, impute):
    with inside_a_folder() as folder:
        Path(name).write_bytes(edited(TABLES[name], edits))
        words = ["train", name, "--model", "PassiveAggressiveClassifier", "-o", "model"]
        words += ["--impute", "--categorical", "auto"] if impute else []
        code, _ = run(*words)
        expected = {name, "model"} if code == 0 else {name}
        assert {p.name for p in folder.iterdir()} == expected


@given(name=st.sampled_from(TEXTS), edits=EDITS, pack=INSIDE)
@settings(max_examples=100)
def test_damage_inside_compressed_tables(name, edits, pack):
    with inside_a_folder() as folder:
        Path(name).write_bytes(pack(edited(TABLES[name], edits)))
        code, _ = run("train", name, "--model", "PassiveAggressiveClassifier", "-o", "model")
        assert (folder / "model").exists() == (code == 0)
        assert len(list(folder.iterdir())) == 1 + (code == 0)


OPTIONS = st.sampled_from(
    [
        [],
        ["--skip-bad"],
        ["--hash-bits", "6"],
        ["--skip-bad", "--hash-bits", "6"],
        ["--weight", "a"],
    ]
)


@given(name=st.sampled_from(list(STREAMS)), edits=EDITS, options=OPTIONS, pack=INSIDE)
@settings(max_examples=250)
def test_damaged_streams(name, edits, options, pack):
    with inside_a_folder() as folder:
        Path(name).write_bytes(pack(edited(STREAMS[name], edits)))
        words = ["stream", name, *options, "-o", "model", "--window", "5"]
        # Windows are printed as they come, so there may be some before an error.
        code = main(words)
        assert code in (0, 1, 2)
        expected = {name, "model"} if code == 0 else {name}
        assert {p.name for p in folder.iterdir()} == expected
        if code == 0:
            assert len(oblong.load("model").classes_) >= 2


@given(edits=EDITS)
@settings(max_examples=60)
def test_damaged_checkpoints(edits):
    with inside_a_folder() as folder:
        Path("t.csv").write_bytes(CSV.replace(b"red", b"1").replace(b"blue", b"2"))
        words = ["stream", "t.csv", "--checkpoint", "c", "--every", "10", "--json"]
        assert run(*words)[0] == 0
        damaged = edited(Path("c").read_bytes(), edits)
        Path("c").write_bytes(damaged)
        code, _ = run(*words, "--resume", "-o", "model")
        assert {p.name for p in folder.iterdir()} == {"t.csv", "c"} | (
            {"model"} if code == 0 else set()
        )
        if code:
            assert Path("c").read_bytes() == damaged
