"""Timing of classifiers, end to end in a temporary folder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_iris

from oblong.cli import main
from oblong.cli.timing import contenders
from oblong.cli.timing.contenders import Contender, choose
from oblong.cli.timing.measure import Times, measure

QUICK = ["--models", "rmm-linear,linear-svc,pa", "--repeats", "2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OBLONG_DATA", raising=False)
    return tmp_path


def record_of(capsys, *words):
    assert main(["bench", *words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_the_table(folder, capsys):
    assert main(["bench", *QUICK]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert "breast_cancer  455 rows to fit, 114 to predict of 569, 30 features, 2 classes" in out
    assert [m.split("  ")[0] for m in re.findall(r"^ *(\S.*\d ms.*|\S.*\d µs.*)$", out, re.M)] == [
        *("LinearSVC", "RMM, linear", "SGDClassifier", "PA")
    ]
    reference = re.search(r"LinearSVC +\S+ [mµ]s +(\S+)", out)
    assert reference
    assert float(reference[1]) == 1.0
    assert "Medians of 2 rounds" in out
    assert list(folder.iterdir()) == []


def test_the_record(folder, capsys):
    record = record_of(capsys, "iris", "--models", "pa", "--repeats", "1")
    models = {model["name"]: model for model in record["models"]}
    assert list(models) == ["sgd", "pa"]
    for model in models.values():
        assert model["group"] == "online"
        assert model["failure"] is None
        assert 0.0 <= model["error"] <= 1.0
        assert model["fit_ratio"] == model["fit_seconds"] / models["sgd"]["fit_seconds"]
        assert model["predict_ratio"] == model["predict_seconds"] / models["sgd"]["predict_seconds"]
    assert (record["rows"], record["fit_rows"], record["predict_rows"]) == (150, 120, 30)
    assert (record["features"], record["classes"], record["repeats"]) == (4, 3, 1)


def test_files_with_text_and_gaps(folder, capsys):
    lines = [f"{k % 7},{'red' if k % 3 else ''},{'+1' if k % 2 else '-1'}" for k in range(60)]
    (folder / "t.csv").write_text("\n".join(["x,colour,kind", *lines, ",blue,+1"]))
    words = ["t.csv", *QUICK, "--target", "kind", "--impute", "--categorical", "auto"]
    record = record_of(capsys, *words)
    assert (record["rows"], record["features"], record["classes"]) == (61, 4, 2)


def test_rows_are_drawn_from_every_class(folder, capsys):
    X, y = load_iris(return_X_y=True)
    sparse = "\n".join(
        f"{k} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for row, k in zip(X, y)
    )
    (folder / "t.libsvm").write_text(sparse)
    words = ["t.libsvm", "--models", "online", "--repeats", "1", "--rows", "60"]
    record = record_of(capsys, *words)
    assert (record["rows"], record["fit_rows"], record["predict_rows"]) == (150, 48, 12)
    assert all(model["failure"] is None for model in record["models"])
    assert main(["bench", "t.libsvm", *QUICK, "--rows", "60"]) == 0
    assert "48 rows to fit, 12 to predict of 150" in capsys.readouterr().out


def test_the_seed_decides_which_rows_are_held_out(folder, capsys):
    words = ["breast_cancer", "--models", "pa,rmm-linear", "--repeats", "1", "--rows", "200"]
    errors = [
        [model["error"] for model in record_of(capsys, *words, "--seed", seed)["models"]]
        for seed in ("0", "0", "1")
    ]
    assert errors[0] == errors[1] != errors[2]


def failing(name, reference=False):
    class Broken:
        def fit(self, X, y):
            raise ValueError("cannot\nbe fitted")

    return Contender(name, name, "linear", "oblong", Broken, reference)


def test_a_model_that_fails_does_not_stop_the_others(folder, capsys, monkeypatch):
    known = contenders.contenders()
    monkeypatch.setattr(contenders, "contenders", lambda: [*known, failing("broken")])
    words = ["iris", "--models", "broken,rmm-linear", "--repeats", "1"]
    record = record_of(capsys, *words)
    broken = next(model for model in record["models"] if model["name"] == "broken")
    assert broken["failure"] == "cannot"
    assert broken["fit_seconds"] is None
    assert broken["fit_ratio"] is None
    assert main(["bench", *words]) == 0
    assert "broken failed: cannot" in capsys.readouterr().out
    assert main(["bench", "iris", "--models", "broken"]) == 1
    err = capsys.readouterr().err
    assert err == "oblong: error: no model could be fitted to iris: cannot\n"


def test_limits_of_iterations_are_marked():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)) * [1.0, 1e3, 1e-3], rng.integers(0, 2, 300)
    make = contenders._lazy("sklearn.svm", "LinearSVC", max_iter=1)
    model = Contender("hasty", "hasty", "linear", "sklearn", make, True)
    found = measure([model], (X, X, y, np.zeros(300)), 1)
    assert not found["hasty"].converged


def test_turns_are_interleaved_and_medians_taken():
    X, y = load_iris(return_X_y=True)
    steps = []

    class Dummy:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return y

    dummies = [Contender(name, name, "linear", "sklearn", Dummy) for name in "ab"]
    found = measure([*dummies, failing("broken")], (X, X, y, y), 2, steps.append)
    assert steps == ["a", "b", "broken"] * 3
    assert found["a"].error == 0.0
    assert 0.0 < found["a"].fit_seconds < 1.0
    assert found["broken"] == Times(failure="cannot")


def test_models_are_chosen_by_name_and_group():
    everyone = contenders.contenders()
    assert len({contender.name for contender in everyone}) == len(everyone)
    for names in (["all"], contenders.GROUPS):
        assert [c.name for c in choose(names)] == [c.name for c in everyone]
    for group in contenders.GROUPS:
        chosen = choose([group])
        assert {c.group for c in chosen} == {group}
        assert [c.reference for c in chosen] == [True] + [False] * (len(chosen) - 1)
    assert [c.name for c in choose(["rmm"])] == ["svc", "rmm"]
    assert {c.group for c in choose()} == set(contenders.GROUPS)


def test_peers_that_are_not_installed(monkeypatch):
    monkeypatch.setattr(
        contenders, "find_spec", lambda name: find_spec(name) if name == "sklearn" else None
    )
    assert {contender.package for contender in contenders._peers()} == {"sklearn"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["iris", "--models", "rmn"], 'no model "rmn" (did you mean "rmm"?)'),
        (["irises"], "no such file or data set"),
        (["iris", "--rows", "5"], "expected a whole number of at least 10"),
        (["iris", "--rows", "10"], "fewer than 4 among those drawn; raise --rows"),
        (["iris", "--target", "x"], "omit --target"),
        (["few.csv"], 'few.csv: class "b" has 2 rows, fewer than 4'),
        (["rare.csv", "--rows", "20"], 'class "b" has 0 rows, fewer than 4 among those drawn'),
        (["text.csv"], "(--categorical auto encodes text)"),
    ],
)
def test_bad_input_gets_one_line(folder, capsys, words, message):
    (folder / "few.csv").write_text("x,y\n" + "1,a\n" * 6 + "2,b\n3,b\n")
    (folder / "rare.csv").write_text("x,y\n" + "1,a\n" * 1000 + "2,b\n" * 5)
    (folder / "text.csv").write_text("x,y\n" + "red,a\nblue,b\n" * 6)
    assert main(["bench", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("oblong: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_help_teaches(capsys):
    assert main(["bench", "--help"]) == 0
    text = capsys.readouterr().out
    assert "examples:\n  oblong bench" in text
    assert "rmm-linear" in text


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_the_run(folder):
    words = ["bench", "--models", "kernel", "--repeats", "100"]
    process = subprocess.Popen(
        [sys.executable, "-m", "oblong.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(4)
    # A terminal tells all processes of the group.
    os.killpg(process.pid, signal.SIGINT)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, b"", b"oblong: interrupted\n")
