"""Runs that end anywhere, of learners of all shapes: resumed, they write the same bytes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from oblong.cli import main
from oblong.online import incremental
from oblong.persistence import models

TIMES = ("seconds", "rows_per_second")
KNOWN = ["--classes", "0,1,2"]
CASES = {
    "cw-full": ["--learner", "cw", "--param", "covariance=full"],
    "scw-sketch": ["--learner", "scw", "--param", "covariance=sketch", "--param", "sketch_size=4"],
    "arow-average": ["--learner", "arow", "--param", "average=true"],
    "nherd-full": ["--learner", "nherd", "--param", "covariance=full"],
    "sop-sketch": ["--learner", "sop", "--param", "covariance=sketch", "--param", "sketch_size=3"],
    "pa": ["--learner", "pa", "--param", "variant=2"],
    "pa-ovr": ["--learner", "pa", "--param", "multi_class=ovr", "--param", "average=true"],
    "iellip-full": ["--learner", "iellip", "--param", "covariance=full"],
    "cellip": ["--learner", "cellip"],
    "esvm": ["--learner", "online-esvm", *KNOWN, "--param", "batch_size=32"],
    "esvm-single": ["--learner", "online-esvm", *KNOWN, "--param", "batch_size=1"],
    "kernel-cw": ["--learner", "kernel-cw", *KNOWN, "--param", "budget=20"],
}


def write_rows(folder, n=700, d=9):
    """The same rows as a table and, with gaps, as LIBSVM text; a class comes late."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).round(3)
    y = np.digitize(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=n), [-1.0, 1.0])
    y[:150] %= 2
    rows = [",".join(map(str, x)) + f",{k}" for x, k in zip(X.tolist(), y)]
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    kept = rng.random((n, d)) < 0.5
    # Columns appear one after the other.
    kept &= np.arange(n)[:, None] >= 40 * np.arange(d)
    lines = [
        " ".join([str(k), *(f"{j + 1}:{x[j]}" for j in np.flatnonzero(some))])
        for x, k, some in zip(X.tolist(), y, kept)
    ]
    (folder / "t.libsvm").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    return tmp_path


def timeless(text):
    lines = [json.loads(line) for line in text.splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMES} for line in lines]


class Crash(BaseException):
    """Stands for the end of the process."""


def crash(patch, rng):
    """Let the process end at some moment: while it learns, or while a checkpoint is written."""
    learn, replace = incremental.IncrementalLearner.learn, os.replace
    left = {"learn": int(rng.integers(0, 12)), "replace": int(rng.integers(0, 4))}

    def counted(what, function):
        def call(*arguments):
            if left[what] == 0:
                raise Crash
            left[what] -= 1
            return function(*arguments)

        return call

    patch.setattr(incremental.IncrementalLearner, "learn", counted("learn", learn))
    patch.setattr(models.os, "replace", counted("replace", replace))


@pytest.mark.parametrize("data", ["t.csv", "t.libsvm"])
@pytest.mark.parametrize("case", CASES)
def test_crashes_at_random_moments(folder, capsys, monkeypatch, case, data):
    words = ["stream", data, *CASES[case], "--window", "70", "--every", "110", "--json"]
    if "libsvm" in data and ("kernel" in case or "esvm" in case):
        words += ["--features", "9"]
    assert main([*words, "--checkpoint", "w.ckpt", "-o", "whole.oblong"]) == 0
    whole = timeless(capsys.readouterr().out)
    words += ["--checkpoint", "c.ckpt", "--resume", "-o", "m.oblong"]
    rng = np.random.default_rng(sum(map(ord, case + data)))
    crashes, code = 0, None
    while code is None:
        with monkeypatch.context() as patch:
            if crashes < 6:
                crash(patch, rng)
            try:
                code = main(words)
            except Crash:
                crashes += 1
                assert not (folder / "m.oblong").exists()
        lines = timeless(capsys.readouterr().out)
        # What was computed twice came out the same.
        assert all(line in whole for line in lines)
    assert (code, lines[-1]) == (0, whole[-1])
    assert crashes
    assert (folder / "m.oblong").read_bytes() == (folder / "whole.oblong").read_bytes()
    assert {p.name for p in folder.iterdir()} == {
        *("t.csv", "t.libsvm", "w.ckpt", "c.ckpt", "m.oblong", "whole.oblong")
    }


def work(folder, words, output):
    """Run a command in a process of its own, with its lines in a file."""
    os.chdir(folder)
    with open(output, "w", buffering=1) as stream:
        sys.stdout = stream
        os._exit(main(words))


def lines_of(path):
    return path.read_text().count("\n") if path.exists() else 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
@pytest.mark.parametrize("case", ["cw-full", "kernel-cw"])
def test_kill_9_at_random_moments(folder, case):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["oblong.cli.streaming.command", "tests.cli.streaming.test_stream_kill"]
    )
    table = folder / "t.csv"
    table.write_text(table.read_text() * 3)
    words = ["stream", "t.csv", *CASES[case], "--window", "50", "--every", "50", "--json"]

    def start(name, *more):
        process = context.Process(target=work, args=(folder, [*words, *more], name))
        process.start()
        return process

    whole = start("whole.txt", "--checkpoint", "w.ckpt", "-o", "whole.oblong")
    whole.join(120)
    assert whole.exitcode == 0
    rng, resume = np.random.default_rng(0), ["--checkpoint", "c.ckpt", "--resume", "-o", "m.oblong"]
    known, killed = timeless(Path("whole.txt").read_text()), 0
    for turn in range(3):
        output = folder / f"{turn}.txt"
        process = start(output.name, *resume)
        until = int(rng.integers(1, 15))
        while lines_of(output) < until and process.is_alive():
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0.0, 0.01)))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.join(60)
        text = output.read_text() if output.exists() else ""
        assert all(line in known for line in timeless(text.rpartition("\n")[0]))
    end = start("end.txt", *resume)
    end.join(120)
    assert (end.exitcode, killed > 0) == (0, True)
    assert timeless(Path("end.txt").read_text())[-1] == known[-1]
    assert (folder / "m.oblong").read_bytes() == (folder / "whole.oblong").read_bytes()
    assert not list(folder.glob(".*"))
