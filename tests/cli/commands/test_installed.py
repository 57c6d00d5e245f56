"""The command as a process of its own: as installed, and interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands.test_train_predict import ONLINE, folder, iris_csv

__all__ = ["folder"]


def installed(*words, **options):
    """Run the command as it is installed, or its module where it is not."""
    script = Path(sys.executable).parent / "oblong"
    command = [str(script)] if script.exists() else [sys.executable, "-m", "oblong.cli"]
    return subprocess.run([*command, *words], capture_output=True, timeout=120, **options)


def test_the_installed_command(folder):
    (folder / "iris.csv").write_text(iris_csv())
    trained = installed("train", "iris.csv", *ONLINE, "-o", "m", cwd=folder)
    assert (trained.returncode, trained.stderr) == (0, b"")
    predicted = installed("predict", "m", "-", cwd=folder, input=iris_csv(labels=False).encode())
    assert (predicted.returncode, predicted.stderr) == (0, b"")
    assert len(predicted.stdout.splitlines()) == 150
    bad = installed("train", "-", *ONLINE, "-o", "n", cwd=folder, input=b"a,b\n1,x\nq,y\n")
    assert (bad.returncode, bad.stdout) == (2, b"")
    assert bad.stderr.decode().splitlines() == [
        'oblong: error: standard input, row 3, column "a": expected a number, got "q" '
        "(--categorical auto encodes text)"
    ]
    assert sorted(p.name for p in folder.iterdir()) == ["iris.csv", "m"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("moment", ["reading", "training"])
def test_ctrl_c_ends_cleanly(folder, moment):
    # Opening a pipe waits for the other side: then the command is at work.
    os.mkfifo(folder / "slow.csv")
    words = ["train", "slow.csv", "--model", "rmm", "--cv", "-o", "m"]
    process = subprocess.Popen(
        [sys.executable, "-m", "oblong.cli", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    X = np.random.default_rng(0).normal(size=(4000, 20)).round(3)
    with open(folder / "slow.csv", "w") as pipe:
        for k, row in enumerate(X):
            pipe.write(",".join(map(str, row)) + f",{k % 2}\n")
        pipe.flush()
        if moment == "reading":
            process.send_signal(signal.SIGINT)
            process.wait(300)
    if moment == "training":
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, b"", b"oblong: interrupted\n")
    assert [p.name for p in folder.iterdir()] == ["slow.csv"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_in_the_first_second(folder):
    """While modules load, too, there is no traceback, and nothing is left."""
    script = (
        "import sys, oblong.cli\n"
        # The interpreter has started, and nothing is loaded yet.
        "assert 'sklearn' not in sys.modules and 'numpy' not in sys.modules\n"
        "print('ready', flush=True)\n"
        "sys.exit(oblong.cli.main(sys.argv[1:]))"
    )
    commands = {
        "train": ["train", "iris", "--model", "rmm", "--cv", "-o", "m"],
        "stream": ["stream", "-"],
        "compare": ["compare", "--repeats", "50"],
    }
    for moment, words in zip((0.0, 0.1, 0.6), commands.values()):
        process = subprocess.Popen(
            [sys.executable, "-c", script, *words],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.02 + moment)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (130, b"", b"oblong: interrupted\n")
    assert {p.name for p in folder.iterdir()} <= {"oblong-report.html.state"}
