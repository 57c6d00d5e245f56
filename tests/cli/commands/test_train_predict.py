"""Training, prediction, export and what files tell, end to end in a temporary folder."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

import oblong
from oblong.cli import main
from oblong.persistence import read_manifest

ONLINE = ["--model", "PassiveAggressiveClassifier"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OBLONG_DATA", raising=False)
    return tmp_path


def run(capsys, *words, code=0):
    """Run a command line; returns what it printed."""
    assert main([str(word) for word in words]) == code
    out, err = capsys.readouterr()
    if code:
        assert out == ""
        assert err.startswith("oblong: ")
        assert err.count("\n") == 1
        return err.strip()
    # Notes on tables of a few rows.
    assert all(line.startswith("oblong: note: ") for line in err.splitlines())
    return out


def iris_csv(order=(0, 1, 2, 3), labels=True):
    X, y = load_iris(return_X_y=True)
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    lines = [",".join([names[j] for j in order] + ["kind"] * labels)]
    for row, k in zip(X, y):
        cells = [repr(float(row[j])) for j in order] + [f"class {k}"] * labels
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


PATIENTS = """\
age,colour,city,outcome
31,red,"New York, NY",+1
45,blue,Paris,-1
,red,Paris,+1
52,green,,-1
28,red,Rome,+1
61,blue,"Rome
(north)",-1
39,red,?,+1
58,green,Oslo,-1
"""


def test_train_predict_info(folder, capsys):
    (folder / "iris.csv").write_text(iris_csv())
    out = run(capsys, "train", "iris.csv", "--model", "rmm", "-o", "iris.oblong")
    assert out.startswith("iris.oblong: RelativeMarginClassifier, 150 rows, 4 features, 3 classes")
    assert "\x1b" not in out
    assert sorted(p.name for p in folder.iterdir()) == ["iris.csv", "iris.oblong"]

    labels = run(capsys, "predict", "iris.oblong", "iris.csv").splitlines()
    X, y = load_iris(return_X_y=True)
    assert np.mean(np.array(labels) == [f"class {k}" for k in y]) > 0.95
    model = oblong.load("iris.oblong")
    assert labels == model.predict(X).tolist()

    text = run(capsys, "info", "iris.oblong")
    for word in ("StandardScaler → RelativeMarginClassifier", "iris.csv, 150 rows", "class 0 (50)"):
        assert word in text
    assert "dual_gap=" in text
    assert "\x1b" not in text
    manifest = json.loads(run(capsys, "info", "iris.oblong", "--json"))
    assert manifest == {"json_version": 1} | read_manifest("iris.oblong")
    assert manifest["training"]["schema"]["target"] == "kind"


def test_columns_are_found_by_name_in_any_order_and_without_labels(folder, capsys):
    (folder / "iris.csv").write_text(iris_csv())
    (folder / "new.csv").write_text(iris_csv(order=(3, 1, 0, 2), labels=False))
    run(capsys, "train", "iris.csv", "--model", "rmm-linear", "-o", "m")
    assert run(capsys, "predict", "m", "new.csv") == run(capsys, "predict", "m", "iris.csv")
    (folder / "less.csv").write_text("sepal length,sepal width\n1,2\n")
    message = run(capsys, "predict", "m", "less.csv", code=2)
    assert 'less.csv: no column "petal length"' in message


def test_tables_without_a_header(folder, capsys):
    rows = [f"{k % 2},{k % 2 + 0.1 * (k % 3)},{k}" for k in range(20)]
    (folder / "t.csv").write_text("\n".join(rows))
    run(capsys, "train", "t.csv", "--target", "1", *ONLINE, "-o", "m")
    with_labels = run(capsys, "predict", "m", "t.csv").split()
    (folder / "new.csv").write_text("\n".join(row.partition(",")[2] for row in rows))
    assert run(capsys, "predict", "m", "new.csv").split() == with_labels
    (folder / "wide.csv").write_text("1,2,3,4\n")
    assert "expected 2 columns as in training" in run(capsys, "predict", "m", "wide.csv", code=2)


def test_text_gaps_and_spellings(folder, capsys):
    (folder / "p.csv").write_text(PATIENTS)
    words = ["train", "p.csv", "--model", "rmm", "-o", "m"]
    message = run(capsys, *words, code=2)
    assert message == (
        'oblong: error: p.csv, row 2, column "colour": expected a number, got "red" '
        "(--categorical auto encodes text)"
    )
    message = run(capsys, *words, "--categorical", "auto", code=2)
    assert 'row 4, column "age": expected a number, got a missing value' in message
    assert "(--impute fills gaps)" in message
    message = run(capsys, *words, "--impute", code=2)
    assert 'row 2, column "colour"' in message
    assert not (folder / "m").exists()

    run(capsys, *words, "--impute", "--categorical", "auto")
    labels = run(capsys, "predict", "m", "p.csv").splitlines()
    assert labels == ["+1", "-1"] * 4
    # A word that training has not seen, a gap, and columns in another order.
    (folder / "new.csv").write_text('city,colour,age\n"Oslo ",blue,\nLima,red,33\n')
    assert run(capsys, "predict", "m", "new.csv").splitlines() == ["-1", "+1"]
    model = oblong.load("m")
    assert model.predict(np.array([[33.0, "red", "Lima"]], dtype=object)).tolist() == [1]


def test_gaps_in_prediction_need_a_model_that_fills_them(folder, capsys):
    (folder / "iris.csv").write_text(iris_csv())
    run(capsys, "train", "iris.csv", *ONLINE, "-o", "m")
    (folder / "new.csv").write_text("sepal length,sepal width,petal length,petal width\n1,2,,3\n")
    message = run(capsys, "predict", "m", "new.csv", code=2)
    assert 'new.csv, row 2, column "petal length": expected a number, got a missing' in message


def test_named_columns_of_categories(folder, capsys):
    (folder / "t.csv").write_text("zone,x,y\n" + "1,0.5,a\n2,0.4,b\n3,0.3,a\n" * 5)
    run(capsys, "train", "t.csv", "--categorical", "zone", "--model", "rmm", "-o", "m")
    assert read_manifest("m")["training"]["schema"]["text"] == [0]
    assert run(capsys, "predict", "m", "t.csv").split() == ["a", "b", "a"] * 5
    message = run(capsys, "train", "t.csv", "--categorical", "zon", *ONLINE, "-o", "n", code=2)
    assert 'no column "zon" (did you mean "zone"?)' in message
    message = run(capsys, "train", "t.csv", "--categorical", "y", *ONLINE, "-o", "n", code=2)
    assert "the label column is not a feature" in message


def test_a_column_of_names_is_no_category(folder, capsys):
    rows = [f"person {k},{k},{'ab'[k % 2]}" for k in range(1200)]
    (folder / "t.csv").write_text("name,x,y\n" + "\n".join(rows))
    words = ["train", "t.csv", "--categorical", "auto", *ONLINE, "-o", "m"]
    message = run(capsys, *words, code=2)
    assert 'column "name": 1200 different texts in 1200 rows are names' in message


def test_a_slip_in_a_column_of_numbers_is_no_category(folder, capsys):
    (folder / "t.csv").write_text("x,y\n" + "1.5,a\n2.5,b\n" * 9 + "2..5,b\n")
    words = ["train", "t.csv", "--categorical", "auto", *ONLINE, "-o", "m"]
    assert 'row 20, column "x": expected a number, got "2..5"' in run(capsys, *words, code=2)


LIBSVM = "# head\n+1 qid:1 1:0.5 3:1 # note\n-1 qid:1 2:1\n\n+1 qid:2 1:0.7\n-1 2:0.4 3:0.1\n" * 3


@pytest.mark.parametrize("compression", ["plain", "gz", "zst"])
@pytest.mark.parametrize("kind", ["csv", "libsvm"])
def test_compressed_files(folder, capsys, kind, compression):
    data = (iris_csv() if kind == "csv" else LIBSVM).encode()
    name = f"t.{kind}" if compression == "plain" else f"t.{kind}.{compression}"
    if compression == "gz":
        data = gzip.compress(data)
    elif compression == "zst":
        pa = pytest.importorskip("pyarrow")
        stream = pa.BufferOutputStream()
        with pa.CompressedOutputStream(stream, "zstd") as compressed:
            compressed.write(data)
        data = stream.getvalue().to_pybytes()
    (folder / name).write_bytes(data)
    run(capsys, "train", name, *ONLINE, "-o", "m")
    labels = run(capsys, "predict", "m", name).split("\n")
    if kind == "libsvm":
        assert labels[:4] == ["+1", "-1", "+1", "-1"]


def test_libsvm_files_of_other_widths(folder, capsys):
    (folder / "t.libsvm").write_text(LIBSVM)
    run(capsys, "train", "t.libsvm", *ONLINE, "-o", "m")
    (folder / "n.libsvm").write_text("0 1:0.5\n0 2:0.9 900:5\n")
    assert run(capsys, "predict", "m", "n.libsvm").split() == ["+1", "-1"]


def test_parquet(folder, capsys):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "kind": ["a", "b", "a", "b"] * 3,
            "x": [1.0, None, 3.0, 4.0] * 3,
            "colour": pa.array(["red", "blue", None, "blue"] * 3).dictionary_encode(),
            "flag": [True, False, True, False] * 3,
        }
    )
    pq.write_table(table, "t.parquet")
    words = ["train", "t.parquet", "--target", "kind", "--model", "rmm", "-o", "m"]
    assert 'row 2, column "x"' in run(capsys, *words, "--categorical", "auto", code=2)
    run(capsys, *words, "--categorical", "auto", "--impute")
    pq.write_table(table.select(["flag", "colour", "x"]), "n.parquet")
    assert run(capsys, "predict", "m", "n.parquet").split() == ["a", "b", "a", "b"] * 3
    # A model does not care which format its rows come in.
    (folder / "n.csv").write_text("x,colour,flag\n1,red,1\n")
    assert run(capsys, "predict", "m", "n.csv").split() == ["a"]


def test_npz_and_sets_by_name(folder, capsys):
    X, y = load_iris(return_X_y=True)
    np.savez("t.npz", X=X, y=y, target_names=["s", "e", "i"])
    run(capsys, "train", "t.npz", *ONLINE, "-o", "m")
    np.savez("n.npz", X=X[:3])
    assert run(capsys, "predict", "m", "n.npz").split() == ["s"] * 3
    run(capsys, "train", "iris", *ONLINE, "-o", "i")
    assert set(run(capsys, "predict", "i", "iris").split()) == {"setosa", "versicolor", "virginica"}
    np.savez("wide.npz", X=np.ones((2, 9)))
    assert "expected 4 features" in run(capsys, "predict", "m", "wide.npz", code=2)


def test_standard_input(folder, capsys, monkeypatch):
    def feed(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    feed(iris_csv())
    run(capsys, "train", "-", *ONLINE, "-o", "m")
    feed(iris_csv())
    assert len(run(capsys, "predict", "m", "-").splitlines()) == 150


def test_probabilities(folder, capsys):
    run(capsys, "train", "iris", "--model", "bayes", "-o", "m")
    out = run(capsys, "predict", "m", "iris", "--proba", "-o", "p.csv")
    assert out == ""
    with open("p.csv", newline="") as stream:
        header, *values = csv.reader(stream)
    assert header == ["setosa", "versicolor", "virginica"]
    found = np.array(values, dtype=float)
    X, _ = load_iris(return_X_y=True)
    np.testing.assert_array_equal(found, oblong.load("m").predict_proba(X))
    run(capsys, "train", "iris", "--model", "rmm", "-o", "r")
    assert "drop --proba" in run(capsys, "predict", "r", "iris", "--proba", code=2)


def test_cross_validation_chooses_the_parameters(folder, capsys):
    words = ["train", "iris", "--model", "rmm", "--cv", "3", "--jobs", "2", "-o", "m"]
    out = run(capsys, *words, "--param", "C=10", "--param", "gamma=0.1")
    assert "chosen by 3-fold cross-validation: spread=" in out
    assert "% on held-out rows" in out
    assert oblong.load("m")[-1].C == 10
    chosen = read_manifest("m")["training"]["cross_validation"]
    assert chosen["folds"] == 3
    assert 0 <= chosen["error"] < 0.2
    assert "held-out error" in run(capsys, "info", "m")


def test_json(folder, capsys):
    words = ["train", "iris", "--model", "rmm", "--cv", "2", "--param", "C=1", "-o", "m", "--json"]
    found = json.loads(run(capsys, *words))
    assert (found["file"], found["model"], found["rows"]) == ("m", "RelativeMarginClassifier", 150)
    assert found["target_names"] == ["setosa", "versicolor", "virginica"]
    assert found["cross_validation"]["folds"] == 2
    assert 0 <= found["training_error"] < 0.2
    pytest.importorskip("onnx")
    graph = json.loads(run(capsys, "export", "--onnx", "m", "-o", "m.onnx", "--json"))
    assert graph["outputs"] == ["label", "scores"]
    assert len(graph["inputs"]["X"]) == 4


def test_parameters_are_read_as_what_they_are(folder, capsys):
    words = ["C=2", "kernel=poly", "coef0=1.5", "class_weight=none", "verbose=0"]
    given = [part for word in words for part in ("--param", word)]
    run(capsys, "train", "iris", "--model", "rmm", *given, "-o", "m")
    model = oblong.load("m")[-1]
    assert (model.C, model.kernel, model.coef0, model.class_weight) == (2, "poly", 1.5, None)


def test_models_saved_from_python(folder, capsys):
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    oblong.save(oblong.AROWClassifier(random_state=0).fit(frame, y), "m")
    frame[list("dcba")].to_csv("new.csv", index=False)
    assert run(capsys, "predict", "m", "new.csv").split() == [
        str(k) for k in oblong.load("m").predict(frame)
    ]
    assert "features" in run(capsys, "info", "m")
    oblong.save(oblong.MinimumVolumeEllipsoid(coverage=0.9).fit(X), "e")
    assert set(run(capsys, "predict", "e", "iris").split()) == {"1", "-1"}
    oblong.save(oblong.AROWClassifier(), "u")
    assert "not fitted" in run(capsys, "predict", "u", "iris", code=2)


def test_labels_with_line_breaks_stay_on_their_line(folder, capsys):
    (folder / "t.csv").write_text("x,y\n" + '1,"a\nb"\n2,c\n' * 5)
    run(capsys, "train", "t.csv", "--model", "rmm", "-o", "m")
    assert run(capsys, "predict", "m", "t.csv").startswith('"a\nb"\nc\n')


def test_export(folder, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    run(capsys, "train", "iris", "--model", "rmm", "-o", "m")
    assert "operators" in run(capsys, "export", "--onnx", "m", "-o", "m.onnx")
    X, _ = load_iris(return_X_y=True)
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    labels, scores = session.run(None, {"X": X})
    model = oblong.load("m")
    assert labels.tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-5)
    words = ["--model", "rmm", "--param", "break_ties=random"]
    run(capsys, "train", "iris", *words, "-o", "t")
    message = run(capsys, "export", "--onnx", "t", "-o", "t.onnx", code=2)
    assert "cannot be exported to ONNX" in message
    assert not (folder / "t.onnx").exists()
    assert "--onnx" in run(capsys, "export", "m", "-o", "n.onnx", code=2)


def test_export_with_text_and_gaps(folder, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    (folder / "p.csv").write_text(PATIENTS)
    words = ["--impute", "--categorical", "auto", "--model", "AROWClassifier"]
    run(capsys, "train", "p.csv", *words, "-o", "m")
    out = run(capsys, "export", "--onnx", "m", "-o", "m.onnx")
    assert "inputs: X (age), text (colour, city); outputs: label, scores, probabilities" in out
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    numbers = np.array([[31.0], [np.nan], [61.0]])
    text = np.array([["red", "Paris"], ["green", ""], ["black", "Lima"]], dtype=object)
    labels, scores, chances = session.run(None, {"X": numbers, "text": text})
    model, table = oblong.load("m"), np.column_stack([numbers.astype(object), text])
    assert labels.tolist() == model.predict(table).tolist()
    np.testing.assert_allclose(scores, model.decision_function(table), atol=1e-5)
    np.testing.assert_allclose(chances, model.predict_proba(table), atol=1e-5)


def test_datasets_list(folder, capsys, monkeypatch):
    X, y = load_iris(return_X_y=True)
    np.savez(folder / "mine.npz", X=X, y=y)
    (folder / "broken.npz").write_bytes(b"PK")
    monkeypatch.setenv("OBLONG_DATA", str(folder))
    text = run(capsys, "datasets", "list")
    assert "breast_cancer" in text
    listed = json.loads(run(capsys, "datasets", "list", "--json"))
    found = {each["name"]: each for each in listed["sets"]}
    assert (found["mine"]["rows"], found["mine"]["features"]) == (150, 4)
    assert found["broken"]["rows"] is None
    assert found["wine"]["rows"] == 178
    assert "list" in run(capsys, "datasets")


@pytest.mark.parametrize("command", ["train", "predict", "info", "export", "datasets"])
def test_help_teaches(capsys, command):
    assert f"  oblong {command}" in run(capsys, command, "--help").partition("examples:")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "iris", "--model", "rmn", "-o", "m"], 'no model "rmn" (did you mean "rmm"?)'),
        (["train", "iris", "--model", "RelativeMarginPath", "-o", "m"], "no model"),
        (["train", "iris", *ONLINE, "--param", "D=1", "-o", "m"], 'no parameter "D"'),
        (["train", "iris", *ONLINE, "--param", "C", "-o", "m"], "expected name=value"),
        (["train", "iris", "--model", "rmm", "--param", "C=-1", "-o", "m"], "'C' parameter"),
        (["train", "iris", "--model", "rmm", "--param", "C=[1", "-o", "m"], "expected JSON"),
        (["train", "iris", *ONLINE, "--cv", "-o", "m"], "--cv needs a model with values to try"),
        (["train", "iris", *ONLINE, "--target", "x", "-o", "m"], "omit --target"),
        (["train", "irises", *ONLINE, "-o", "m"], "no such file or data set"),
        (["train", "iris", *ONLINE, "-o", "no/m"], 'the folder "no" does not exist'),
        (["train", "iris", *ONLINE, "-o", "."], "expected a file, got the folder"),
        (["train", "iris", *ONLINE], "-o/--output"),
        (["train", "iris"], "-o/--output"),
        (["train", "few.csv", "--model", "rmm", "--cv", "-o", "m"], 'class "b" has 2 rows'),
        (["train", "real.csv", *ONLINE, "-o", "m"], "expected class labels, got 8 different"),
        (["train", "one.csv", *ONLINE, "-o", "m"], 'two or more classes, got only "a"'),
        (["predict", "none", "iris"], "none: cannot be read: No such file"),
        (["predict", "few.csv", "iris"], "few.csv: not a model file"),
        (["info", "few.csv"], "few.csv: not a model file"),
        (["info", "pickle.oblong"], "a pickle, which runs code"),
        (["export", "--onnx", "few.csv", "-o", "m"], "few.csv: not a model file"),
        (["datasets", "lost"], "invalid choice"),
    ],
)
def test_bad_input_gets_one_line(folder, capsys, words, message):
    (folder / "few.csv").write_text("x,y\n" + "1,a\n" * 6 + "2,b\n3,b\n")
    (folder / "real.csv").write_text("x,y\n" + "".join(f"{k},{k}.5\n" for k in range(8)))
    (folder / "one.csv").write_text("x,y\n1,a\n2,a\n")
    (folder / "pickle.oblong").write_bytes(b"\x80\x05.")
    before = sorted(p.name for p in folder.iterdir())
    assert message in run(capsys, *words, code=2)
    assert sorted(p.name for p in folder.iterdir()) == before


def test_failures_end_with_code_1_and_leave_nothing(folder, capsys, monkeypatch):
    run(capsys, "train", "iris", *ONLINE, "-o", "m")
    before = (folder / "m").read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    message = run(capsys, "train", "iris", "--model", "rmm", "-o", "m", code=1)
    assert message == "oblong: error: m: cannot be written: No space left on device"
    message = run(capsys, "predict", "m", "iris", "-o", "out.txt", code=1)
    assert message == "oblong: error: out.txt cannot be written: No space left on device"
    assert [p.name for p in folder.iterdir()] == ["m"]
    assert (folder / "m").read_bytes() == before


def test_warnings_are_one_line_each(folder, capsys):
    words = ["train", "iris", "--model", "rmm", "--param", "max_iter=2", "-o", "m"]
    assert main(words) == 0
    err = capsys.readouterr().err
    assert err.startswith("oblong: warning: RelativeMarginClassifier did not converge")
    assert err.count("\n") == 1
    assert "converged=False" in run(capsys, "info", "m")
