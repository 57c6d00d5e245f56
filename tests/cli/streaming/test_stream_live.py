"""Rows that arrive through a pipe, signals, and two processes on one checkpoint."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import oblong
from oblong.cli import main
from oblong.cli.streaming import run

# Far above what it takes; a run that waits for a buffer to be full waits for ever.
PATIENCE = 120.0

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and signals of POSIX")


@pytest.fixture
def start():
    """Start the command with a pipe as its input."""
    started = []

    def run(*words, **environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "oblong.cli", "stream", "-", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


def line_of(process):
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    assert ready, "no report of the rows so far"
    return json.loads(process.stdout.readline())


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return [f"{'ab'[int(x[0] > 0)]}," + ",".join(f"{v:.6f}" for v in x) for x in X]


def send(process, lines):
    process.stdin.write("".join(f"{line}\n" for line in lines).encode())
    process.stdin.flush()


FORMATS = {
    "csv": (["label,x,y,z"], rows(12), ["--target", "label"]),
    "libsvm": ([], [f"{i % 2} 1:{i - 5}.5 2:1" for i in range(12)], []),
    "json": ([], [json.dumps({"label": i % 2, "x": i - 5.5}) for i in range(12)], []),
}


@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_learned_from_as_they_arrive(start, format):
    head, lines, words = FORMATS[format]
    process = start("--format", format, "--window", 1, "--json", *words)
    send(process, head)
    for i, line in enumerate(lines):
        send(process, [line])
        assert line_of(process)["rows"] == i + 1
    process.stdin.close()
    assert line_of(process)["final"]
    assert process.wait(PATIENCE) == 0


def test_terminated_it_says_where_and_goes_on_from_there(start, tmp_path, capsys):
    lines, words = rows(60), ["--format", "csv", "--target", "label", "--window", 5]
    head, checkpoint = "label,x,y,z", tmp_path / "run.ckpt"
    process = start("--json", "--checkpoint", checkpoint, *words)
    send(process, [head, *lines[:20]])
    while line_of(process)["rows"] < 20:
        pass
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143
    error = process.stderr.read().decode()
    assert "stopped after 20 rows" in error
    assert str(checkpoint) in error
    assert oblong.load(checkpoint).t_ == 20
    assert not list(tmp_path.glob(".*"))

    # The rest, from a file or from a pipe.
    path = tmp_path / "all.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    model, other = tmp_path / "model.oblong", tmp_path / "other.oblong"
    words = [str(word) for word in words]
    arguments = ["stream", str(path), *words, "--resume", "--checkpoint", str(checkpoint)]
    assert main([*arguments, "-o", str(model)]) == 0
    assert main(["stream", str(path), *words, "-o", str(other)]) == 0
    capsys.readouterr()
    np.testing.assert_array_equal(oblong.load(model).coef_, oblong.load(other).coef_)
    assert oblong.load(model).t_ == 60


def test_terminated_without_a_checkpoint_it_says_so(start):
    process = start("--format", "csv", "--target", "label", "--window", 1, "--json")
    send(process, ["label,x,y,z", *rows(3)])
    line_of(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143
    assert "nothing is kept without --checkpoint" in process.stderr.read().decode()


def test_two_processes_on_one_checkpoint(start, tmp_path, capsys):
    checkpoint = tmp_path / "run.ckpt"
    process = start("--format", "csv", "--window", 1, "--json", "--checkpoint", checkpoint)
    send(process, ["x,y,z,label", "1,2,3,a"])
    line_of(process)
    path = tmp_path / "rows.csv"
    path.write_text("x,label\n1,a\n2,b\n")
    words = ["stream", str(path), "--checkpoint", str(checkpoint)]
    assert main(words) == 2
    assert "another process" in capsys.readouterr().err
    # However that ends, the next one may start.
    process.kill()
    process.wait(PATIENCE)
    assert main(words) == 0


def test_a_checkpoint_of_a_file_is_resumed_from_standard_input(start, tmp_path, capsys):
    lines = rows(40)
    path, checkpoint = tmp_path / "rows.csv", tmp_path / "run.ckpt"
    path.write_text("\n".join(["label,x,y,z", *lines[:20]]) + "\n")
    assert main(["stream", str(path), "--target", "label", "--checkpoint", str(checkpoint)]) == 0
    words = ["--resume", "--checkpoint", str(checkpoint), "--target", "label"]
    process = start("--format", "csv", "--json", *words)
    out, err = process.communicate("\n".join(["label,x,y,z", *lines]).encode() + b"\n", PATIENCE)
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["rows"] == 40
    # Options that differ are named in words.
    capsys.readouterr()
    assert main(["stream", str(path), "--format", "tsv", *words]) == 2
    assert "with --format csv, not with --format tsv" in capsys.readouterr().err
    assert main(["stream", str(path), *words[:-2]]) == 2
    assert "with --target label, not without --target" in capsys.readouterr().err


def test_rows_are_kept_when_no_more_arrive(tmp_path, monkeypatch, capsys):
    checkpoint, seen = tmp_path / "run.ckpt", []
    source, sink = os.pipe()

    def feed():
        with os.fdopen(sink, "w") as pipe:
            pipe.write("\n".join(["label,x,y,z", *rows(20)]) + "\n")
            pipe.flush()
            end = time.monotonic() + PATIENCE
            while not seen and time.monotonic() < end:
                time.sleep(0.02)
                if checkpoint.exists() and getattr(oblong.load(checkpoint), "t_", 0) == 20:
                    seen.append(20)

    monkeypatch.setattr(run, "_SECONDS", 0.5)
    feeding = threading.Thread(target=feed)
    with os.fdopen(source) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        feeding.start()
        words = ["--format", "csv", "--target", "label", "--checkpoint", str(checkpoint)]
        assert main(["stream", "-", *words]) == 0
        feeding.join()
    assert seen == [20]


def test_checkpoints_without_compiled_code(start, tmp_path):
    process = start("--checkpoint", tmp_path / "run.ckpt", OBLONG_DISABLE_JIT="1")
    _, err = process.communicate(b"1 1:2\n0 1:1\n1 2:3\n", PATIENCE)
    assert process.returncode == 0, err
    assert oblong.load(tmp_path / "run.ckpt").t_ == 3


def test_predictions_are_made_before_learning(tmp_path, capsys):
    lines = rows(200)
    path, found = tmp_path / "rows.csv", tmp_path / "predicted.txt"
    path.write_text("\n".join(["label,x,y,z", *lines]) + "\n")
    words = ["stream", str(path), "--target", "label", "--json"]
    assert main(words) == 0
    end = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main([*words, "--predictions", str(found)]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert again["mistakes"] == end["mistakes"]
    predicted = found.read_text().split("\n")[:-1]
    assert len(predicted) == 200
    assert predicted[0] == ""
    wrong = sum(line[0] != label for line, label in zip(lines, predicted))
    # The row of a new class counts as a mistake, and so does a draw.
    assert 0 <= end["mistakes"] - wrong <= 2


def test_streams_do_not_depend_on_units(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=300) > 0
    mistakes = {}
    for name, units in {"plain": 1.0, "units": np.array([1e-5, 1e6, 3.0])}.items():
        path = tmp_path / f"{name}.csv"
        text = [",".join(repr(float(v)) for v in x) + f",{int(t)}" for x, t in zip(X * units, y)]
        path.write_text("a,b,c,label\n" + "\n".join(text) + "\n")
        for flag in ([], ["--no-normalize"]):
            assert main(["stream", str(path), "--json", *flag]) == 0
            end = json.loads(capsys.readouterr().out.splitlines()[-1])
            mistakes[name, bool(flag)] = end["mistakes"]
    assert mistakes["plain", False] == mistakes["units", False]
    assert mistakes["units", True] > mistakes["units", False] + 20
