"""Mistakes of users and of machines: one line, the right exit code, and nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import oblong
from oblong._core.atomic import atomic_write
from oblong.cli import main
from oblong.cli.commands import info
from oblong.persistence import ModelFileError

TABLE = "a,b,y\n" + "".join(f"{k % 7},{k / 2},{'pq'[k % 2]}\n" for k in range(20))
ROWS = "".join(f"{'+1' if k % 2 else '-1'} 1:{k % 7} 3:{k / 2}\n" for k in range(20))
LINEAR = ["--model", "svm-linear"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of a table, and one of a stream."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "t.csv").write_text(TABLE)
    assert main(["train", str(folder / "t.csv"), *LINEAR, "-o", str(folder / "m")]) == 0
    return folder / "m"


@pytest.fixture
def folder(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "t.libsvm").write_text(ROWS)
    (tmp_path / "m").write_bytes(trained.read_bytes())
    return tmp_path


def complaint(capsys, *words, code=2):
    """The one line that a command ends with."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == code
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    "words",
    [
        ["train", "t.csv", *LINEAR, "-o", "t.csv"],
        ["train", "t.csv", *LINEAR, "-o", "link"],
        ["predict", "m", "t.csv", "-o", "t.csv"],
        ["predict", "m", "t.csv", "-o", "m"],
        ["export", "--onnx", "m", "-o", "m"],
        ["stream", "t.csv", "-o", "t.csv"],
        ["stream", "t.csv", "--checkpoint", "t.csv"],
        ["stream", "t.csv", "--report", "t.csv"],
        ["compare", "t.csv", "--report", "t.csv"],
        ["compare", "t.csv", "--state", "t.csv"],
    ],
    ids=" ".join,
)
def test_what_is_read_is_not_replaced(folder, capsys, words):
    if words[0] in ("compare", "export"):
        pytest.importorskip("onnx" if words[0] == "export" else "rich")
    (folder / "link").symlink_to("t.csv")
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert "is what is read; choose another file" in complaint(capsys, *words)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_two_outputs_are_two_files(folder, capsys):
    words = ["stream", "t.csv", "-o", "out", "--report", "./out"]
    assert "would be written twice" in complaint(capsys, *words)


def test_the_state_of_a_comparison_replaces_no_other_file(folder, capsys):
    pytest.importorskip("rich")
    (folder / "notes.txt").write_text("of years\n")
    words = ["compare", "t.csv", "--models", "svm-linear", "--cv", "2", "--jobs", "1"]
    message = complaint(capsys, *words, "--state", "notes.txt")
    assert "notes.txt: not a file of oblong compare" in message
    assert (folder / "notes.txt").read_text() == "of years\n"
    assert not (folder / "oblong-report.html").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs files that are none")
def test_devices_are_not_replaced(folder, capsys):
    """Put in the place of /dev/null, a file would harm every program of the machine."""
    os.mkfifo("device")
    for words in (
        ["train", "t.csv", *LINEAR, "-o", "device"],
        ["predict", "m", "t.csv", "-o", "device"],
    ):
        assert "expected a file, got the device" in complaint(capsys, *words)
    with pytest.raises(ModelFileError, match="device: cannot be written: not a regular file"):
        oblong.save(oblong.AROWClassifier(), "device")
    assert (folder / "device").is_fifo()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "t.csv", *LINEAR, "-o", "x", "--seed", 2**32], "argument --seed: expected a"),
        (["train", "t.csv", *LINEAR, "-o", "x", "--jobs", "9" * 5000], "argument --jobs: expected"),
        (["train", "t.csv", *LINEAR, "-o", "x", "--jobs", 10**6], "a whole number of at most 1024"),
        (["compare", "t.csv", "--jobs", 10**6], "a whole number of at most 1024"),
        (["train", "t.csv", *LINEAR, "-o", "x", "--param", "C=-1"], "The 'C' parameter of SVC"),
        (["train", "t.csv", *LINEAR, "-o", "x", "--class-weight", "p=inf"], "expected balanced"),
        (["compare", "t.csv", "--seed", 2**32], "--seed: expected a whole number of at most 4"),
        (["predict", "m", "iris"], "iris: expected 2 features as in training, got 4"),
        (["predict", "m", "t.libsvm"], "t.libsvm: expected a table, as in training, got LIBSVM"),
        (["predict", "m", "t.csv", "--proba"], "m: SVC has no probabilities"),
        (["info", "."], "error: .: cannot be read: Is a directory"),
        (["train", "t.csv", *LINEAR, "-o", "x", "--target", "Y"], '(did you mean "y"?)'),
        (["train", "t.csv", "-o", "x", "--verbose"], "--verbose (see oblong train --help)"),
        (["train", "t.csv", *LINEAR, "-o", "x", "--memory", "xMB"], "a size such as 256MB"),
        (["train", "t.csv", *LINEAR, "-o", "x", "--memory", "nan"], "a size such as 256MB"),
        (["stream", "t.csv", "--features", 2**31], "a whole number of at most 2147483647"),
        (["compare", "t.csv", "--time", "9" * 400], "expected a time such as 90s or 5m"),
        (["compare", "t.csv", "--time", "99999999999h"], "expected a time such as 90s or 5m"),
        (["info", ""], 'error: "": cannot be read: No such file or directory'),
        (["stream", "t.csv", "--foo", "bar"], "--foo bar (see oblong stream --help)"),
        (["stream", "."], "error: .: expected a file, got a folder"),
        (["train", ".", *LINEAR, "-o", "x"], "error: --model: folders and several files need"),
    ],
)
def test_bad_input_gets_one_line(folder, capsys, words, message):
    before = sorted(p.name for p in folder.iterdir())
    assert message in complaint(capsys, *words)
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--threshold", "7"], "a number is a probability or a decision value, depending on"),
        (["--proba", "--threshold", "7"], "expected a probability between 0 and 1, got 7"),
        (["--proba", "--threshold", "0"], "expected a probability between 0 and 1, got 0"),
        ([*LINEAR, "--proba", "--threshold", "-0.1"], "expected a probability between 0 and 1"),
        (["--model", "logistic", "--threshold", "1.5"], "expected a probability between 0 and 1"),
        (["--model", "svm", "--param", "C=-1"], "The 'C' parameter of SVC must be a float"),
    ],
)
def test_numbers_that_are_none_are_refused_before_anything_is_read(
    folder, capsys, words, message, monkeypatch
):
    monkeypatch.setattr("oblong.io.tables.read_training_table", None)
    assert message in complaint(capsys, "train", "t.csv", "-o", "x", *words)


def test_a_threshold_of_decision_values_is_any_number(folder, capsys):
    assert main(["train", "t.csv", *LINEAR, "--threshold", "7", "-o", "x"]) == 0
    assert "threshold 7" in capsys.readouterr().out


def test_seeds_that_numpy_takes(folder, capsys):
    assert main(["train", "t.csv", *LINEAR, "-o", "x", "--seed", str(2**32 - 1), "--cv", "2"]) == 0


def test_columns_that_share_a_name_are_taken_in_their_order(folder, capsys):
    (folder / "twice.csv").write_text(TABLE.replace("a,b,y", "a,a,y"))
    assert main(["train", "twice.csv", *LINEAR, "-o", "twice"]) == 0
    capsys.readouterr()
    assert main(["predict", "twice", "twice.csv"]) == 0
    same = capsys.readouterr().out
    assert main(["predict", "m", "t.csv"]) == 0
    assert capsys.readouterr().out == same
    assert 'expected 2 columns named "a", got 1' in complaint(capsys, "predict", "twice", "t.csv")


def test_large_numbers_give_no_warnings_of_numpy(folder, capsys):
    (folder / "huge.csv").write_text("a,b,y\n" + "1e308,1,p\n-1.5e308,2,q\n" * 10)
    message = complaint(capsys, "train", "huge.csv", *LINEAR, "-o", "x")
    assert 'row 2, column "a": expected a number of at most 1e+150, got "1e308"' in message


def test_memory_that_is_not_there(folder, capsys, monkeypatch):
    def greedy(path):
        return np.empty(1 << 55)

    monkeypatch.setattr("oblong.persistence.read_manifest", greedy)
    message = complaint(capsys, "info", "m", code=1)
    assert message.startswith("oblong: error: out of memory: Unable to allocate")


def test_errors_of_the_system_are_one_line(folder, capsys, monkeypatch):
    def full(lines):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(info, "_lines", full)
    message = complaint(capsys, "info", "m", code=1)
    assert message == "oblong: error: No space left on device\n"


def test_a_request_to_end_is_answered(folder, capsys, monkeypatch):
    def ask(lines):
        os.kill(os.getpid(), signal.SIGTERM)
        return [("never", "reached")]

    monkeypatch.setattr(info, "_lines", ask)
    assert complaint(capsys, "info", "m", code=143) == "oblong: terminated\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


LIMITED = """
import resource, sys
from oblong.cli import program
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
program()
"""


@pytest.mark.skipif(os.name == "nt", reason="needs limits of the system")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_main__output_that_is_cut_is_an_error(folder, unbuffered):
    """Without a buffer of its own, Python drops what the system leaves of a text."""
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", LIMITED, "train", "--help"]
    with open("out", "wb") as out:
        done = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (1, b"oblong: error: File too large\n")
    assert os.path.getsize("out") == 1000


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_main__exit_code_without_a_place_for_messages(folder):
    command = f'"{sys.executable}" -m oblong.cli info none 2>/dev/full'
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 2


def test_check_apart__drafts_of_killed_runs_are_removed(folder, capsys):
    """Whatever the command writes; what another process writes just now stays."""
    killed, other = folder / ".k.jsonl.0123abcd.tmp", folder / ".k.jsonl.notes.tmp"
    for path in (killed, other, folder / ".k.jsonl2.0123abcd.tmp"):
        path.write_text("half")
    with atomic_write(folder / "k.jsonl") as file:
        file.write(b"written just now")
        assert main(["stream", "t.csv", "--report", "k.jsonl"]) == 0
        drafts = sorted(path.name for path in folder.glob(".*"))
        assert drafts[1:] == sorted([other.name, ".k.jsonl2.0123abcd.tmp"])
        assert drafts[0].startswith(".k.jsonl.")
        assert not killed.exists()
    assert (folder / "k.jsonl").read_text() == "written just now"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize(
    ("words", "streams", "code", "message"),
    [
        ("info m", ">/dev/full", 1, "oblong: error: No space left on device\n"),
        ("--help", ">/dev/full", 1, "oblong: error: No space left on device\n"),
        ("info m", ">&-", 0, ""),
        ("info none", "2>&-", 2, ""),
        ("predict m -", "<&-", 2, "oblong: error: standard input: the file is empty\n"),
        ("stream -", "<&-", 2, "oblong: error: standard input: the file is empty\n"),
    ],
)
def test_streams_that_are_full_or_closed(folder, words, streams, code, message):
    command = f'"{sys.executable}" -m oblong.cli {words} {streams}'
    # Without a buffer the first line fails, and with one the end.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1" if words == "--help" else ""}
    found = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (found.returncode, found.stderr) == (code, message)
