"""What the command loads before it does anything."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from oblong.cli import _COMMANDS, _ELSEWHERE, main

HEAVY = {"numpy", "scipy", "numba", "sklearn", "pandas", "pyarrow", "matplotlib", "rich"}


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["nonsense"]])
def test_without_a_command_no_library_is_loaded(words):
    code = (
        "import sys\nfrom oblong.cli import main\nmain(sys.argv[1:])\n"
        f"sys.exit(', '.join({HEAVY} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--help"], ""),
        (["compare", "--help"], ""),
        (["predict", "--help"], ""),
        (["train", "empty.csv", "-o", "m"], "empty.csv: the file is empty"),
        (["train", "empty.csv", "--model", "svm", "-o", "m"], "empty.csv: the file is empty"),
        (["train", "none.csv", "-o", "m"], '"none.csv": no such file or data set'),
        (["train", "text.csv", "-o", "m"], "text.csv, row 2"),
        (["train", "text.csv", "-o", "m", "--threshold", "3"], "--threshold: a number is"),
        (["compare", "empty.csv"], "empty.csv: the file is empty"),
        (["predict", "none", "text.csv"], "none: cannot be read: No such file or directory"),
        (["info", "none"], "none: cannot be read: No such file or directory"),
        (["export", "--onnx", "none", "-o", "m"], "none: cannot be read: No such file"),
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_said_before_scikit_learn_is_loaded(words, message, tmp_path):
    if words[0] == "compare":
        pytest.importorskip("rich")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "text.csv").write_text("a,y\nword,p\n1,q\n")
    code = (
        "import sys\nfrom oblong.cli import main\nmain(sys.argv[1:])\n"
        "sys.exit(sum(name.startswith('sklearn') for name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path
    )
    assert message in done.stderr
    assert done.returncode == 0


def test_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, about in _COMMANDS.items():
        assert re.search(rf"^    {name}\b", out, re.M)
        assert about in out


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_has_a_parser(name, capsys):
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: oblong {name} ")


class Point:
    """An entry point of another distribution."""

    value = "another.package:add_parser"

    def __init__(self, name):
        self.name = name

    def load(self):
        def add_parser(subparsers):
            subparsers.add_parser(self.name).set_defaults(run=lambda args: 7)

        return add_parser


def test_commands_of_other_distributions_are_found(monkeypatch, capsys):
    points = {"oblong.commands": [Point("reproduce"), Point("other")]}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points[group])
    assert main(["other"]) == 7
    assert main(["reproduce"]) == 7
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert _ELSEWHERE["reproduce"][0] in out
    assert "a command of another.package" in out


def test_a_command_that_is_not_installed_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [])
    assert main(["reproduce", "rmm-fig1"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("oblong: error: 'oblong reproduce' needs another package: ")
    assert "pip install oblong-reproduction" in err
    assert "pip install -e reproduction" in err
    assert main(["--help"]) == 0
    assert "reproduce" not in capsys.readouterr().out


@pytest.mark.parametrize(("word", "code"), [("--version", 0), ("nonsense", 2)])
@pytest.mark.parametrize("threads", [0, 1])
def test_the_process_ends_at_once_and_loses_nothing(word, code, threads):
    program = (
        "import atexit, threading, time\nfrom oblong.cli import program\n"
        "atexit.register(print, 'the end', end='')\n"
        f"for _ in range({threads}): threading.Thread(target=time.sleep, args=(0.2,)).start()\n"
        "program()"
    )
    done = subprocess.run([sys.executable, "-c", program, word], capture_output=True, text=True)
    assert (done.returncode, done.stdout[-7:]) == (code, "the end")
    assert (done.stdout if word == "--version" else done.stderr).startswith("oblong")
