"""Streams that are tested, late, repeated or adrift; texts; metrics; Parquet."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn import metrics as reference

import oblong
from oblong import AROWClassifier
from oblong.cli import main
from oblong.cli.streaming import run as run_of_a_stream
from oblong.cli.streaming.metrics import Metrics, Scores
from oblong.online import progressive_validation
from oblong.online.predicted import Predicted
from oblong.solvers.online.drift import Adwin
from oblong.streams import ArrowReader, RowReader


def table(n=400, seed=0, turn=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(3)
    y = X[:, 0] + 0.3 * rng.normal(size=n) > 0
    if turn is not None:
        y[turn:] = ~y[turn:]
    return X, np.where(y, "yes", "no")


def write(path, X, y):
    lines = ["a,b,c,bought"]
    lines += [",".join([*(f"{v:.3f}" for v in x), label]) for x, label in zip(X, y)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_libsvm(path, X, y):
    rows = (" ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x)) for x in X)
    path.write_text("".join(f"{label} {row}\n" for label, row in zip(y, rows)))
    return str(path)


def run(capsys, *words):
    assert main(["stream", *map(str, words)]) == 0
    return capsys.readouterr().out


def final(capsys, *words):
    return json.loads(run(capsys, *words, "--json").splitlines()[-1])


@pytest.mark.parametrize("classes", [2, 4])
def test_metrics_are_those_of_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    n = 300
    codes, guesses = rng.integers(0, classes, (2, n))
    values = rng.normal(size=n).round(1)
    chances, weights = rng.random(n), rng.integers(0, 3, n).astype(float)
    second = 1 if classes == 2 else -1
    scores = Scores(["auc", "f1", "balanced-error", "log-loss"])
    for part in (slice(0, 100), slice(100, n)):
        parts = (a[part] for a in (codes, guesses, values, chances, weights))
        scores.add(Predicted(*parts, second))
        scores = Scores(scores.names, state=json.loads(json.dumps(scores.state())))
    found = scores.end_window()
    kept = {"sample_weight": weights}
    average = "binary" if classes == 2 else "macro"
    assert found["f1"] == pytest.approx(reference.f1_score(codes, guesses, average=average, **kept))
    right = reference.balanced_accuracy_score(codes, guesses, **kept)
    assert found["balanced-error"] == pytest.approx(1.0 - right)
    loss = np.average(-np.log(chances), weights=weights)
    assert found["log-loss"] == pytest.approx(loss)
    if classes == 2:
        assert found["auc"] == pytest.approx(reference.roc_auc_score(codes, values, **kept))
    else:
        assert np.isnan(found["auc"])


def test_metrics_of_a_stream(tmp_path, capsys):
    X, y = table()
    path = write(tmp_path / "rows.csv", X, y)
    lines = run(capsys, path, "--metrics", "auc,log_loss", "--window", 200, "--json").splitlines()
    windows = [json.loads(line) for line in lines]
    assert len(windows) == 3
    assert windows[1]["window_auc"] > 0.95
    assert windows[1]["window_log_loss"] < windows[0]["window_log_loss"] < 0.7
    assert windows[2]["auc"] == pytest.approx(
        np.mean([window["window_auc"] for window in windows[:2]])
    )
    assert main(["stream", path, "--metrics", "accuracy"]) == 2
    assert "no metric" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "libsvm"])
@pytest.mark.parametrize(
    "options",
    [
        ["--metrics", "auc,balanced-error", "--drift", "adwin"],
        ["--delay", 70, "--metrics", "log-loss"],
        ["--delay", 500],
        ["--test-only", "--metrics", "f1"],
    ],
)
def test_a_stopped_run_ends_with_the_same_metrics(tmp_path, capsys, monkeypatch, options, form):
    X, y = table(turn=300)
    make = write if form == "csv" else write_libsvm
    whole, first = make(tmp_path / f"rows.{form}", X, y), make(tmp_path / f"a.{form}", X[:180], y)
    options = [*options, "--window", 250, "--every", 100]
    if "--test-only" in options:
        run(capsys, first, "-o", tmp_path / "model.oblong")
        options += ["-i", tmp_path / "model.oblong"]
    guesses, again = tmp_path / "whole.txt", tmp_path / "again.txt"
    expected = final(capsys, whole, *options, "--predictions", guesses)
    # What is known when the rows end is kept before the last window ends.
    options += ["--checkpoint", tmp_path / "run.ckpt", "--predictions", again]
    run(capsys, first, *options)
    with again.open("a") as file:
        file.write("predicted after the last checkpoint\n")
    counted, count = [], Metrics.count

    def counting(self, codes, weights=None):
        counted.append(len(codes))
        count(self, codes, weights)

    monkeypatch.setattr(Metrics, "count", counting)
    found = final(capsys, whole, *options, "--resume")
    # It went on, and did not start anew.
    assert sum(counted) == len(X) - 180
    assert again.read_text() == guesses.read_text()
    again.write_text("")
    assert main(["stream", whole, *map(str, options), "--resume"]) == 2
    assert "shorter than it was" in capsys.readouterr().err
    for name in ("seconds", "rows_per_second"):
        del expected[name], found[name]
    assert found == expected
    assert found["json_version"] == 1


def test_a_model_is_tested_and_learns_nothing(tmp_path, capsys):
    X, y = table()
    path, model = write(tmp_path / "rows.csv", X, y), tmp_path / "model.oblong"
    run(capsys, path, "-o", model)
    guesses = tmp_path / "guesses.txt"
    tested = final(
        capsys, path, "-i", model, "--test-only", "--predictions", guesses, "--metrics", "auc"
    )
    loaded = oblong.load(model)
    assert tested["error"] == pytest.approx(1.0 - loaded.score(X, y))
    assert guesses.read_text().split() == loaded.predict(X).tolist()
    assert tested["auc"] == pytest.approx(
        reference.roc_auc_score(y == "yes", X @ loaded.coef_[0]), abs=1e-12
    )
    # And goes on learning without the flag.
    run(capsys, path, "-i", model, "-o", tmp_path / "more.oblong")
    assert oblong.load(tmp_path / "more.oblong").t_ == 2 * loaded.t_
    assert main(["stream", path, "--test-only"]) == 2
    assert "needs a model" in capsys.readouterr().err


def test_labels_that_come_late(tmp_path, capsys):
    X, y = table()
    path = write(tmp_path / "rows.csv", X, y)
    found = final(capsys, path, "--delay", 50)
    model = AROWClassifier(normalize=True, allow_new_classes=True)
    expected = progressive_validation(model, zip(X, y), delay=50)
    assert found["mistakes"] == expected.mistakes
    # Counted once, also by a learner whose probabilities decide.
    found = final(capsys, path, "--delay", 50, "--metrics", "log-loss")
    assert abs(found["mistakes"] - expected.mistakes) < 10
    assert main(["stream", path, "--passes", "2", "--delay", "5"]) == 2
    assert "cannot be combined with" in capsys.readouterr().err


@pytest.mark.parametrize("sparse", [False, True])
def test_several_passes_are_several_streams(tmp_path, capsys, sparse):
    X, y = table(n=150)
    path = write(tmp_path / "rows.csv", X, y)
    if sparse:
        path = write_libsvm(tmp_path / "rows.libsvm", X, y)
    single = final(capsys, path)
    several = final(capsys, path, "--passes", 3, "-o", tmp_path / "model.oblong")
    assert several["mistakes"] == single["mistakes"]
    found = oblong.load(tmp_path / "model.oblong")
    # One row waits for the second class.
    wait = int(np.argmax(y != y[0]))
    model = AROWClassifier(normalize=True)
    model.partial_fit(X[wait:], y[wait:], classes=["no", "yes"])
    for _ in range(2):
        model.partial_fit(X, y)
    np.testing.assert_allclose(found.coef_, model.coef_, rtol=1e-9)


@pytest.mark.parametrize("form", ["csv", "libsvm"])
def test_passes_go_on_from_a_checkpoint(tmp_path, capsys, monkeypatch, form):
    X, y = table(n=150)
    path = (write if form == "csv" else write_libsvm)(tmp_path / f"rows.{form}", X, y)
    options = ["--passes", 3, "--window", 60, "--metrics", "f1", "--every", 50]
    expected = final(capsys, path, *options, "-o", tmp_path / "whole.oblong")
    save = run_of_a_stream.write_checkpoint
    for last in (1, 3, 4, 8):
        checkpoint, calls = tmp_path / f"{last}.ckpt", []

        def stop_after(*words, last=last, calls=calls):
            save(*words)
            calls.append(words)
            if len(calls) == last:
                raise KeyboardInterrupt

        words = ["stream", path, *options, "--checkpoint", checkpoint]
        with monkeypatch.context() as patch:
            patch.setattr(run_of_a_stream, "write_checkpoint", stop_after)
            assert main(list(map(str, words))) == 130
        found = final(capsys, *words[1:], "--resume", "-o", tmp_path / "again.oblong")
        for name in ("seconds", "rows_per_second"):
            found[name] = expected[name]
        assert found == expected
        models = [oblong.load(tmp_path / f"{name}.oblong") for name in ("whole", "again")]
        assert (models[0].coef_ == models[1].coef_).all()
    X[0] += 1.0
    other = (write if form == "csv" else write_libsvm)(tmp_path / f"other.{form}", X, y)
    assert main(list(map(str, ["stream", other, *words[2:], "--resume"]))) == 2
    assert "not the input of the checkpoint" in capsys.readouterr().err


def test_drift_is_found_and_nothing_else(tmp_path, capsys):
    X, y = table(n=3000, turn=2000)
    out = run(capsys, write(tmp_path / "rows.csv", X, y), "--drift", "adwin", "--json")
    rows = [json.loads(line)["row"] for line in out.splitlines() if 'drift": true' in line]
    assert rows
    assert 2000 < rows[0] < 2200
    assert (
        final(capsys, write(tmp_path / "calm.csv", X[:2000], y[:2000]), "--drift", "adwin").get(
            "drifts"
        )
        is None
    )


def test_the_detector_is_that_of_river():
    river = pytest.importorskip("river.drift")
    rng = np.random.default_rng(0)
    errors = np.concatenate([rng.random(700) < p for p in (0.1, 0.3, 0.05, 0.5)]).astype(float)
    own, theirs = Adwin(), river.ADWIN()
    widths = []
    for value in errors:
        own.feed(np.array([value]))
        theirs.update(value)
        widths.append((own.width, int(theirs.width)))
    own_widths, their_widths = np.array(widths).T
    assert (own_widths == their_widths).mean() > 0.99
    assert own_widths.max() < len(errors) // 2


def test_parquet_is_read_as_text_is(tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    X, y = table()
    path = tmp_path / "rows.parquet"
    columns = {"bought": y, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
    pq.write_table(pa.table(columns), path, row_group_size=90)
    text = write(tmp_path / "rows.csv", X, y)
    found = final(capsys, path, "--target", "bought")
    assert found["mistakes"] == final(capsys, text)["mistakes"]
    # With a checkpoint, too.
    checkpoint = tmp_path / "run.ckpt"
    words = [path, "--target", "bought", "--checkpoint", checkpoint, "--every", 100]
    run(capsys, *words)
    assert final(capsys, *words, "--resume")["mistakes"] == found["mistakes"]
    # And whatever speaks Arrow, in Python.
    model = AROWClassifier(normalize=True)
    stream = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "bought": y})
    assert progressive_validation(model, stream).mistakes == found["mistakes"]
    assert main(["stream", str(path), "--target", "nothing"]) == 2
    path.write_bytes(path.read_bytes()[:300])
    assert main(["stream", str(path)]) == 2
    assert "damaged" in capsys.readouterr().err


def test_texts_become_words(tmp_path, capsys):
    X, y = table()
    titles = np.where(y == "yes", "Cheap PILLS, cheap!", "A meeting; on Monday")
    path = tmp_path / "mails.csv"
    rows = [f'"{t}",{x[1]},{label}' for t, x, label in zip(titles, X, y)]
    path.write_text("title,size,label\n" + "\n".join(rows) + "\n")
    lines = [json.dumps({"title": t, "size": x[1], "label": k}) for t, x, k in zip(titles, X, y)]
    (tmp_path / "mails.jsonl").write_text("\n".join(lines) + "\n")
    options = ["--hash-bits", 10, "--text", "title"]
    model = tmp_path / "mails.oblong"
    found = final(capsys, path, *options, "-o", model)
    assert found["mistakes"] <= 3
    assert final(capsys, tmp_path / "mails.jsonl", *options)["mistakes"] == found["mistakes"]
    batches = [
        RowReader(path, hash_bits=10, text=["title"]).read(5),
        RowReader(tmp_path / "mails.jsonl", hash_bits=10, text=["title"]).read(5),
    ]
    assert 2.0 in batches[0].values
    np.testing.assert_array_equal(batches[0].columns, batches[1].columns)
    # The model knows how its rows were read.
    for data in (path, tmp_path / "mails.jsonl"):
        assert main(["predict", str(model), str(data)]) == 0
        assert capsys.readouterr().out.split() == y.tolist()
    unlabelled = tmp_path / "new.csv"
    unlabelled.write_text("title\ncheap pills\nmonday meeting\n")
    assert main(["predict", str(model), str(unlabelled)]) == 0
    assert capsys.readouterr().out.split() == ["yes", "no"]
    assert main(["stream", str(path), "--text", "title"]) == 2
    assert main(["stream", str(path), "--hash-bits", "8", "--text", "subject"]) == 2


def test_arrow_readers_hash_as_others_do():
    pa = pytest.importorskip("pyarrow")
    columns = {"size": [1.5, None], "title": ["Big, big", "small"], "kind": ["x", "y"]}
    source = pa.table({**columns, "label": [1, 2]})
    with ArrowReader(source, hash_bits=12, text=["title"]) as reader:
        found = reader.read(10)
    assert reader.labels == [1, 2]
    assert found.matrix(1 << 12).sum(axis=1).ravel().tolist() == [[1.5 + 2 + 1, 2.0]]


def test_a_stream_loads_little(tmp_path):
    path = write(tmp_path / "rows.csv", *table(n=50))
    code = (
        "import sys\nfrom oblong.cli import main\ncode = main(['stream', sys.argv[1]])\n"
        "heavy = {'sklearn', 'pandas', 'pyarrow', 'scipy.sparse'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or code)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_estimators_are_imported_without_numba():
    code = (
        "import sys\nfrom oblong import AROWClassifier, RelativeMarginClassifier\n"
        "sys.exit('numba' in sys.modules or 'oblong.batch.bayes_point' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
