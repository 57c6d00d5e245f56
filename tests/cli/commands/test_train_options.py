"""Training a table as it comes: which model, its score, its columns and its threshold."""

from __future__ import annotations

import json

import numpy as np
import pytest

import oblong
from oblong.cli import main
from oblong.persistence import read_manifest

QUICK = ["--model", "PassiveAggressiveClassifier", "-o", "m"]
N = 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *words, code=0):
    """What a command line printed, on both streams."""
    assert main(list(words)) == code
    return capsys.readouterr()


def table(folder, **columns):
    rows = zip(*columns.values())
    lines = [";".join(columns), *(";".join(map(str, row)) for row in rows)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")


def overlapping(n=N, rare=4):
    random = np.random.RandomState(0)
    y = np.arange(n) % rare == 0
    return random.normal(size=n) + y, random.normal(size=n), np.where(y, "yes", "no")


def test_without_a_model_a_search_decides(folder, capsys):
    a, b, y = overlapping()
    table(folder, a=a, b=b, y=y)
    out, err = run(capsys, "train", "t.csv", "-o", "m")
    assert 'the model is not clearly better than always "no"' in err
    training = read_manifest("m")["training"]
    search = training["search"]
    tried = {each["model"]: each["error"] for each in search["candidates"]}
    assert set(tried) == {"rmm", "rmm-linear", "logistic"}
    assert search["error"] == min(tried.values()) == tried[search["model"]]
    assert f"model chosen by a quick search on {N} rows: {search['model']} (" in out
    used = "on rows that were also used to choose the model"
    assert f"on held-out rows (5 folds, {used}); balanced error" in out
    # The card in the file.
    text = run(capsys, "info", "m").out
    for word in ("quick search", "held-out scores", "t.csv, 60 rows", "a, b", "no (45), yes (15)"):
        assert word in text
    assert "belong to a model" in run(capsys, "train", "t.csv", "--cv", "-o", "n", code=2).err


def test_held_out_scores_are_those_of_cross_validation(folder, capsys):
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    a, b, y = overlapping()
    table(folder, a=a, b=b, y=y)
    words = ["train", "t.csv", "--model", "svm-linear", "-o", "m", "--json", "--seed", "3"]
    found = json.loads(run(capsys, *words).out)
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    predicted = cross_val_predict(oblong.load("m"), np.column_stack([a, b]), y, cv=folds)
    assert found["scores"]["error"] == pytest.approx(np.mean(predicted != y))
    assert found["scores"]["how"] == "5 folds"
    assert found["json_version"] == 1
    found = json.loads(run(capsys, *words, "--no-score").out)
    assert found["scores"] is None


def test_class_weights(folder, capsys):
    a, b, y = overlapping(rare=10)
    table(folder, a=a, b=b, y=y)
    words = ["train", "t.csv", "--model", "svm-linear", "-o", "m", "--no-score"]
    yes = {}
    for weight in ("no=1,yes=1", "no=1,yes=9", "balanced"):
        run(capsys, *words, "--class-weight", weight)
        yes[weight] = run(capsys, "predict", "m", "t.csv").out.split().count("yes")
    assert yes["no=1,yes=1"] < yes["no=1,yes=9"]
    assert yes["balanced"] > yes["no=1,yes=1"]
    message = run(capsys, *words, "--class-weight", "ja=2", code=2).err
    assert 'no class "ja"; the classes are "no", "yes"' in message
    assert "expected balanced" in run(capsys, *words, "--class-weight", "yes", code=2).err
    message = run(capsys, "train", "t.csv", *QUICK, "--class-weight", "balanced", code=2).err
    assert "PassiveAggressiveClassifier has no weights of classes" in message


@pytest.mark.parametrize(
    ("rare", "words", "problem"),
    [
        (3, ["--threshold", "f1", "--proba"], "no fold tells the classes apart; the rarer one"),
        (2, ["--threshold", "f1", "--proba"], "needs three rows of every class"),
        (1, ["--threshold", "balanced"], "needs two rows of every class"),
    ],
)
def test_train__a_threshold_that_rare_rows_do_not_give(folder, capsys, rare, words, problem):
    X = np.random.default_rng(0).normal(size=(400, 3))
    table(folder, **dict(zip("abc", X.T)), y=["yes"] * rare + ["no"] * (400 - rare))
    error = run(capsys, "train", "t.csv", "--model", "rmm", *words, "-o", "m", code=2).err
    assert "oblong: error: --threshold: " in error
    assert problem in error


def test_thresholds_and_probabilities(folder, capsys):
    a, b, y = overlapping(rare=3)
    table(folder, a=a, b=b, y=y)
    words = ["train", "t.csv", "--model", "svm-linear", "--proba", "-o", "m", "--no-score"]
    found = {}
    for threshold in ("0.01", "0.9", "balanced"):
        run(capsys, *words, "--threshold", threshold)
        found[threshold] = run(capsys, "predict", "m", "t.csv").out.split().count("yes")
    assert found["0.01"] == N
    assert found["0.9"] < found["balanced"] < N
    header, *rows = run(capsys, "predict", "m", "t.csv", "--proba").out.split()
    assert header == "no,yes"
    second = np.array([float(row.split(",")[1]) for row in rows])
    threshold = read_manifest("m")["training"]["threshold"]
    labels = run(capsys, "predict", "m", "t.csv").out.split()
    assert labels == np.where(second >= threshold, "yes", "no").tolist()
    assert "threshold" in run(capsys, "info", "m").out
    message = run(capsys, "train", "iris", *QUICK, "--threshold", "f1", code=2).err
    assert "decides between two classes, and iris has 3" in message


def test_columns_of_every_kind(folder, capsys):
    a, _, y = overlapping()
    words = np.where(y == "yes", "a fine thing", "rather bad, really")
    table(
        folder,
        id=1000 + np.arange(N),
        price=[f"{1000 + v:.2f}".replace(".", ",") for v in a],
        when=[f"{k % 28 + 1:02d}.03.2024" for k in range(N)],
        comment=words,
        colour=np.where(a > 0, "rot", "grün"),
        y=y,
    )
    (folder / "t.csv").write_bytes((folder / "t.csv").read_text().encode("latin-1"))
    options = ["--drop", "id", "--decimal", ",", "--encoding", "latin-1", "--dates", "when"]
    options += ["--text", "comment", "--categorical", "colour"]
    out, err = run(capsys, "train", "t.csv", *QUICK, *options)
    assert err.count("\n") == err.count("alone tells the class of every row") == 2
    assert "one column per word of: colour (2)" in out
    # The model knows how its tables are written.
    assert run(capsys, "predict", "m", "t.csv").out.split() == y.tolist()
    plain = "colour;comment;when;price\nrot;a fine thing;01.03.2024;1000.5\n"
    (folder / "new.csv").write_text(plain)
    assert "1000.5" in run(capsys, "predict", "m", "new.csv", code=2).err
    new = ["predict", "m", "new.csv", "--decimal", ".", "--encoding", "utf-8"]
    assert run(capsys, *new).out == "yes\n"
    text = run(capsys, "info", "m").out
    for word in ("categories", "dates", "when (%d.%m.%Y)", "price, when, comment, colour"):
        assert word in text
    message = run(capsys, *new, "--sep", ".", code=2).err
    assert "expected different characters" in message


def test_notes_go_to_standard_error(folder, capsys):
    a, _, y = overlapping()
    table(folder, customer_id=1 + np.arange(N), a=a, y=y)
    out, err = run(capsys, "train", "t.csv", *QUICK)
    assert "counts the rows, like an identifier; if it is one, leave it out with --drop" in err
    assert err.startswith("oblong: note: t.csv: column ")
    assert "error" in out
    assert read_manifest("m")["training"]["notes"]


def test_completion(capsys):
    for shell in ("bash", "zsh", "fish"):
        text = run(capsys, "completion", shell).out
        for word in ("compare", "class-weight", "predict"):
            assert word in text


def test_online_learners_of_many_columns_have_a_diagonal_covariance(folder, capsys):
    rows = [f"{k % 2} {1 + k % 3}:{1 + k % 2} 1000000:{k % 5}.5" for k in range(24)]
    (folder / "wide.libsvm").write_text("\n".join(rows) + "\n")
    words = ["train", "wide.libsvm", "--model", "arow", "--no-score", "-o", "m"]
    run(capsys, *words)
    assert oblong.load("m")[-1].covariance_.shape == (1_000_000,)
    message = run(capsys, *words, "--param", "covariance=full", code=1).err
    assert "does not fit in memory" in message


def test_train__notes_on_data_and_model(folder, capsys):
    random = np.random.RandomState(1)
    a, y = random.normal(size=N), np.array(["ja", "nein"])[np.arange(N) % 2]
    words = ["train", "t.csv", "--model", "logistic", "-o", "m"]
    table(folder, a=a, b=a, y=y)
    err = run(capsys, *words).err
    assert err.count("\n") == 1
    assert "oblong: note: t.csv: the model is no" in err
    assert 'better than always "ja", which is wrong for 50.00 % of the rows' in err
    assert "which is wrong for 50.00 %" in run(capsys, "info", "m").out
    found = json.loads(run(capsys, *words, "--json").out)["scores"]
    assert found["majority_error"] == 0.5
    # Those who weigh the classes do not ask for few errors.
    assert run(capsys, *words, "--class-weight", "balanced").err == ""
    err = run(capsys, *words, "--cv", "3").err
    assert 'better than always "ja"' in err
    table(folder, a=a, flag=(y == "ja").astype(int), y=y)
    assert 'column "flag" alone tells the class of every row' in run(capsys, *words).err


def test_train__a_class_of_one_row(folder, capsys):
    a, b, y = overlapping()
    table(folder, a=[*a, 5], b=[*b, 7], y=[*y, "total"])
    err = run(capsys, "train", "t.csv", "--model", "logistic", "-o", "m").err.splitlines()
    assert [line.partition("t.csv: ")[2] for line in err] == [
        'class "total" has a single row, row 62, the last; if it is no class, remove the row',
        'there is no error on held-out rows, since class "total" has a single row',
    ]
    err = run(capsys, "train", "t.csv", "-o", "m", code=2).err.splitlines()[-1]
    assert 'class "total" has a single row, and a search needs two of every class' in err
    words = ["train", "t.csv", "--model", "svm", "-o", "m", "--proba"]
    err = run(capsys, *words, code=2).err.splitlines()[-1]
    assert 'needs two rows of every class, and "total" has one' in err


def test_train__amounts_are_refused(folder, capsys):
    a, b, _ = overlapping()
    table(folder, a=a, b=b, y=np.round(a + b, 4))
    err = run(capsys, "train", "t.csv", "-o", "m", code=2).err
    assert err.count("\n") == 1
    assert "expected class labels, got 60 different values in 60 rows" in err
    assert "for amounts, use MarginRegressor in Python: the commands predict classes only" in err
