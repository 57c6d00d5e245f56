from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import oblong
from oblong.cli import main
from oblong.cli.streaming.learners import LEARNERS
from oblong.online import incremental
from tests.cli.streaming.test_stream import libsvm_text

TIMES = ("seconds", "rows_per_second")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.libsvm").write_text(libsvm_text(1000, 40, classes=3))
    return tmp_path


def timeless(text):
    """JSON lines without times."""
    lines = [json.loads(line) for line in text.splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMES} for line in lines]


class Crash(BaseException):
    """Stands for the end of the process."""


def crash_after(monkeypatch, batches):
    """Let the process end in front of a batch."""
    left, learn = [batches], incremental.IncrementalLearner.learn

    def counted(self, *arguments):
        if left[0] == 0:
            raise Crash
        left[0] -= 1
        learn(self, *arguments)

    monkeypatch.setattr(incremental.IncrementalLearner, "learn", counted)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_run_that_crashed_again_and_again_ends_the_same(folder, capsys, monkeypatch, name):
    words = ["stream", "a.libsvm", "--learner", name, "--window", "90", "--every", "130", "--json"]
    if name in ("kernel-cw", "online-esvm"):
        words += ["--features", "40"]
    assert main([*words, "-o", "whole.oblong", "--report", "whole.jsonl"]) == 0
    whole = timeless(capsys.readouterr().out)
    words += ["--checkpoint", "c.ckpt", "--resume", "-o", "m.oblong", "--report", "m.jsonl"]
    seen = {}
    for batches in (1, 4, 3, 5, 1000):
        with monkeypatch.context() as patch:
            crash_after(patch, batches)
            try:
                assert main(words) == 0
            except Crash:
                assert not (folder / "m.oblong").exists()
        for line in timeless(capsys.readouterr().out):
            key = line["rows"], "final" in line
            # What was computed twice came out the same.
            assert seen.setdefault(key, line) == line
    assert [seen[key] for key in sorted(seen)] == whole
    assert timeless((folder / "m.jsonl").read_text()) == timeless(
        (folder / "whole.jsonl").read_text()
    )
    with_checkpoints, without = oblong.load("m.oblong"), oblong.load("whole.oblong")
    X = np.eye(40)
    if name in ("kernel-cw", "online-esvm"):
        # Batches end at checkpoints as well, and products of other shapes round otherwise.
        np.testing.assert_allclose(
            with_checkpoints.decision_function(X), without.decision_function(X), atol=1e-8
        )
    else:
        np.testing.assert_array_equal(
            with_checkpoints.decision_function(X), without.decision_function(X)
        )


def run(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "oblong.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_kill_9_at_random_points(folder):
    (folder / "big.libsvm").write_text(libsvm_text(2000, 300) * 20)
    words = ["stream", "big.libsvm", "--json", "--window", "100", "--every", "300"]
    words += ["--param", "covariance=diag", "--checkpoint"]
    whole = run(*words, "w.ckpt", "-o", "whole.oblong").communicate()[0].decode()
    rng, pieces = np.random.default_rng(0), []
    for _ in range(3):
        process = run(*words, "c.ckpt", "--resume", "-o", "m.oblong")
        text = b""
        for _ in range(rng.integers(5, 120)):
            text += process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        rest, _ = process.communicate()
        pieces.append((text + rest).decode().rsplit("\n", 1)[0])
        assert process.returncode == -signal.SIGKILL
        assert not (folder / "m.oblong").exists()
    end = run(*words, "c.ckpt", "--resume", "-o", "m.oblong")
    pieces.append(end.communicate()[0].decode())
    assert end.returncode == 0
    assert (folder / "m.oblong").read_bytes() == (folder / "whole.oblong").read_bytes()
    known = {line["rows"]: line for line in timeless(whole) if "final" not in line}
    for piece in pieces:
        for line in timeless(piece):
            if "final" not in line:
                assert known[line["rows"]] == line
    assert timeless(pieces[-1])[-1] == timeless(whole)[-1]
    assert {p.name for p in folder.iterdir()} == {
        *("a.libsvm", "big.libsvm", "c.ckpt", "m.oblong", "w.ckpt", "whole.oblong")
    }


@pytest.mark.parametrize("compressed", [False, True])
def test_standard_input_skips_what_was_learned(folder, capsys, monkeypatch, compressed):
    data = (folder / "a.libsvm").read_bytes()
    data = gzip.compress(data) if compressed else data
    words = ["stream", "-", "--json", "--window", "100", "--checkpoint", "c.ckpt", "--every", "100"]

    def feed(data, *more):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return main([*words, *more])

    # Nothing but the start arrives, and a broken file is an error.
    start = data[: len(data) // 2]
    assert feed(start if compressed else start[: start.rindex(b"\n") + 1]) == 2 * compressed
    assert ("damaged or unreadable" in capsys.readouterr().err) == compressed
    assert feed(data, "--resume") == 0
    ours = timeless(capsys.readouterr().out)
    # Rows in front of the damage were learned from.
    assert ours[0]["rows"] > 100
    assert main(["stream", "a.libsvm", "--json", "--window", "100"]) == 0
    theirs = timeless(capsys.readouterr().out)
    assert ours[-1] | {"source": ""} == theirs[-1] | {"source": ""}


def test_a_checkpoint_is_a_model(folder, capsys):
    assert main(["stream", "a.libsvm", "--checkpoint", "c.ckpt", "-o", "m.oblong"]) == 0
    first, second = oblong.load("c.ckpt"), oblong.load("m.oblong")
    np.testing.assert_array_equal(first.coef_, second.coef_)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learner", "pa"], "the checkpoint was made with --learner arow, not with --learner pa"),
        (["--param", "r=2"], "the checkpoint was made without --param, not with --param r=2"),
        (["--window", "7"], "the checkpoint was made with --window 10000, not with --window 7"),
    ],
)
def test_a_checkpoint_belongs_to_its_command(folder, capsys, words, message):
    assert main(["stream", "a.libsvm", "--checkpoint", "c.ckpt"]) == 0
    capsys.readouterr()
    assert main(["stream", "a.libsvm", "--checkpoint", "c.ckpt", "--resume", *words]) == 2
    assert message in capsys.readouterr().err


def test_files_that_are_no_checkpoints(folder, capsys):
    words = ["stream", "a.libsvm", "--checkpoint", "c.ckpt", "--resume"]
    (folder / "c.ckpt").write_bytes(b"\x80\x04 anything")
    assert main(words) == 2
    assert "c.ckpt: no checkpoint" in capsys.readouterr().err
    oblong.save(oblong.AROWClassifier().fit(np.eye(2), [0, 1]), "c.ckpt")
    assert main(words) == 2
    assert "a model, not a checkpoint of a stream" in capsys.readouterr().err
    (folder / "c.ckpt").unlink()
    assert main(words) == 0
    assert "no checkpoint yet" in capsys.readouterr().err
    (folder / "c.ckpt").write_bytes((folder / "c.ckpt").read_bytes()[:-50])
    assert main(words) == 2
    capsys.readouterr()


def test_another_input_is_noticed(folder, capsys):
    assert main(["stream", "a.libsvm", "--checkpoint", "c.ckpt"]) == 0
    (folder / "a.libsvm").write_text(libsvm_text(2000, 40, seed=9))
    capsys.readouterr()
    assert main(["stream", "a.libsvm", "--checkpoint", "c.ckpt", "--resume"]) == 2
    assert "not the input of the checkpoint" in capsys.readouterr().err


def test_labels_keep_their_spelling(folder, capsys, monkeypatch):
    text = "".join(f"{'+1' if k % 3 else '-1'} 1:{k % 7} 2:{k % 3}\n" for k in range(60))
    (folder / "s.libsvm").write_text(text + "1 1:2 2:1\n")
    words = ["stream", "s.libsvm", "--checkpoint", "c.ckpt", "--every", "20", "-o", "m.oblong"]
    crash_after(monkeypatch, 2)
    with pytest.raises(Crash):
        main(words)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert main([*words, "--resume"]) == 0
    capsys.readouterr()
    assert main(["predict", "m.oblong", "s.libsvm"]) == 0
    assert set(capsys.readouterr().out.split()) == {"+1", "-1"}


def forged(path, edit):
    """A checkpoint with another description."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    edit(manifest["training"])
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("stream",), 5),
        (("stream", "options"), [3]),
        (("stream", "reader"), None),
        (("stream", "reader", "offset"), -1),
        (("stream", "reader", "offset"), 10**30),
        (("stream", "reader", "rows"), "many"),
        (("stream", "reader", "format"), "other"),
        (("stream", "reader", "labels"), [[1]]),
        (("stream", "reader", "spellings"), []),
        (("stream", "learner"), {}),
        (("stream", "learner", "classes"), 5),
        (("stream", "metrics", "windows"), [["a"] * 7]),
        (("stream", "metrics", "counts"), None),
    ],
)
def test_forged_checkpoints_get_one_line(folder, capsys, place, value):
    words = ["stream", "a.libsvm", "--checkpoint", "c.ckpt", "--every", "500"]
    assert main(words) == 0

    def edit(node):
        for name in place[:-1]:
            node = node[name]
        node[place[-1]] = value

    forged(folder / "c.ckpt", edit)
    capsys.readouterr()
    assert main([*words, "--resume"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "checkpoint" in err
