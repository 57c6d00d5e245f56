from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oblong
from oblong.cli import main
from oblong.cli.streaming.learners import LEARNERS
from oblong.cli.streaming.metrics import Metrics


def libsvm_text(n=600, d=30, seed=0, classes=2):
    """Rows with a few of many columns, and classes that a linear model can learn."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((classes, d))
    lines = []
    for _ in range(n):
        columns = np.sort(rng.choice(d, 6, replace=False))
        values = rng.standard_normal(6).round(4)
        label = int(np.argmax(W[:, columns] @ values))
        lines.append(f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in zip(columns, values)))
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.libsvm").write_text(libsvm_text())
    return tmp_path


def run_json(capsys, *words):
    """Run a stream and return the JSON lines it printed."""
    assert main(["stream", *words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert all(line.startswith("oblong: warning: ") for line in err.splitlines())
    return [json.loads(line) for line in out.splitlines()]


def test_the_numbers_and_the_files(folder, capsys):
    words = ["stream", "a.libsvm", "--window", "100", "-o", "m.oblong", "--report", "r.html"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    rows = [line.split() for line in out.splitlines() if re.match(r" +\d", line)]
    assert [row[0] for row in rows] == ["100", "200", "400"]
    assert "a.libsvm  600 rows, 30 features, 2 classes" in out
    assert re.search(r"arow: error \d+\.\d\d %; always the most frequent class: \d", out)
    model = oblong.load("m.oblong")
    assert (model.t_, model.n_features_in_, model.classes_.tolist()) == (600, 30, [0, 1])
    page = (folder / "r.html").read_text()
    assert "oblong stream a.libsvm --learner arow --window 100" in page
    assert "<svg" in page
    assert sorted(p.name for p in folder.iterdir()) == ["a.libsvm", "m.oblong", "r.html"]


@pytest.mark.parametrize("name", [n for n in LEARNERS if n not in ("kernel-cw", "online-esvm")])
def test_every_row_is_predicted_before_it_is_learned_from(folder, capsys, name):
    *windows, end = run_json(capsys, "a.libsvm", "--learner", name, "--window", "100", "-o", "m")
    X, y, known = np.zeros((600, 30)), [], {}
    for i, line in enumerate((folder / "a.libsvm").read_text().splitlines()):
        label, *pairs = line.split()
        y.append(int(label))
        for pair in pairs:
            column, value = pair.split(":")
            X[i, int(column) - 1] = float(value)
    kind = getattr(oblong, LEARNERS[name][0])
    if name == "cellip":
        # Its step depends on the number of features, so these have to be found one by one.
        return
    model, wrong = kind(normalize=True), []
    for i in range(600):
        before = model.n_mistakes_ if "state" in known else 0
        first = len(set(y[: i + 1])) > len(set(y[:i]))
        model.learn_one(X[i], y[i])
        if hasattr(model, "classes_"):
            known["state"] = True
            wrong.append(True if first else model.n_mistakes_ > before)
        else:
            wrong.append(first)
    assert end["mistakes"] == sum(wrong)
    assert [w["window_error"] for w in windows] == [
        np.mean(wrong[k : k + 100]) for k in range(0, 600, 100)
    ]
    np.testing.assert_allclose(oblong.load("m").coef_, model.coef_, rtol=1e-12, atol=1e-14)


SHAPES = [
    *((name, shape) for name in ("arow", "cw", "iellip") for shape in ("diag", "full", "sketch")),
    *((name, "diag") for name in ("scw", "nherd", "sop", "cellip")),
    *((name, None) for name in ("pa", "kernel-cw", "online-esvm")),
]


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_batches_of_any_size_give_the_same(folder, capsys, monkeypatch, name, shape):
    from oblong.cli.streaming import run

    (folder / "a.libsvm").write_text(libsvm_text(300, 12, classes=4))
    words = ["a.libsvm", "--learner", name, "-o", "m.oblong"]
    if name in ("kernel-cw", "online-esvm"):
        words += ["--features", "12", "--classes", "0,1,2,3"]
        words += ["--param", "gamma=0.1"] * (name == "kernel-cw")
    elif shape:
        words += ["--param", f"covariance={shape}"]
    found = []
    for size in (1, 7, 10_000):
        monkeypatch.setattr(run, "CHUNK", size)
        found.append(run_json(capsys, *words)[-1]["mistakes"])
        model = oblong.load("m.oblong")
        found.append(model.decision_function(np.eye(12)))
    assert found[0] == found[2] == found[4]
    for other in (found[3], found[5]):
        # Products of several rows at once round in another order.
        np.testing.assert_allclose(other, found[1], rtol=1e-6, atol=1e-8)
    if shape == "diag" or name == "pa":
        np.testing.assert_array_equal(found[3], found[1])


def test_formats_and_compression_give_the_same(folder, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)).round(3)
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(300) > 0, "up", "down")
    lines = [",".join([*map(str, x), label]) for x, label in zip(X.tolist(), y)]
    table = "\n".join(["a,b,c,d,way", *lines]) + "\n"
    objects = "".join(
        json.dumps(dict(zip("abcd", x)) | {"way": label}) + "\n" for x, label in zip(X.tolist(), y)
    )
    (folder / "t.csv").write_text(table)
    (folder / "t.csv.gz").write_bytes(gzip.compress(table.encode()))
    (folder / "t.jsonl").write_text(objects)
    known = ["--param", "covariance=full", "--window", "50"]
    first = run_json(capsys, "t.csv", *known, "-o", "m.oblong")
    assert oblong.load("m.oblong").feature_names_in_.tolist() == ["a", "b", "c", "d"]

    def errors(lines):
        return [(line["rows"], line["error"]) for line in lines]

    assert errors(run_json(capsys, "t.csv.gz", *known)) == errors(first)
    again = run_json(capsys, "t.jsonl", "--target", "way", *known, "-o", "j.oblong")
    assert errors(again) == errors(first)
    assert oblong.load("j.oblong").feature_names_in_.tolist() == ["a", "b", "c", "d"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(table.encode()))))
    assert errors(run_json(capsys, "-", *known)) == errors(first)


def test_hashed_words(folder, capsys):
    rng = np.random.default_rng(0)
    rows = [
        f"{c},{x:.3f},{'hot' if c in 'ab' else 'cold'}"
        for c, x in zip(rng.choice(list("abcd"), 400), rng.normal(size=400))
    ]
    (folder / "t.csv").write_text("\n".join(["place,noise,kind", *rows]))
    end = run_json(capsys, "t.csv", "--hash-bits", "10")[-1]
    assert (end["features"], end["classes"].keys()) == (1024, {"hot", "cold"})
    assert end["error"] < 0.1


def test_new_classes_are_mistakes_and_then_known(folder, capsys):
    (folder / "t.libsvm").write_text("a 1:1\n" * 3 + "b 2:1\n" * 3 + "c 3:1\n" * 3)
    *windows, end = run_json(capsys, "t.libsvm", "--window", "1", "-o", "m.oblong")
    wrong = [w["window_error"] for w in windows]
    assert [wrong[0], wrong[3], wrong[6]] == [1, 1, 1]
    assert wrong[1] == wrong[2] == 0
    assert end["classes"] == {"a": 3, "b": 3, "c": 3}
    assert oblong.load("m.oblong").classes_.tolist() == ["a", "b", "c"]
    declared = run_json(capsys, "t.libsvm", "--classes", "a,b,c,d")[-1]
    assert declared["classes"] == {"a": 3, "b": 3, "c": 3}


def complaint(capsys, code, *words):
    assert main(["stream", *words]) == code
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("oblong: error: ")
    return err.removeprefix("oblong: error: ").strip()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.csv"], '"none.csv": no such file'),
        (["."], "expected a file, got a folder"),
        (["a.libsvm", "--learner", "arrow"], 'no learner "arrow" (did you mean "arow"?)'),
        (["a.libsvm", "--param", "x"], 'expected name=value, got "x"'),
        (["a.libsvm", "--param", "rr=1"], '--learner arow: no parameter "rr" (did you mean "r"?)'),
        (["a.libsvm", "--param", "r=-1"], "The 'r' parameter of AROWClassifier must be"),
        (["a.libsvm", "--classes", "a"], "expected two or more different classes"),
        (["a.libsvm", "--hash-bits", "40"], "expected at most 30 bits"),
        (["a.libsvm", "--resume"], "--resume: needs --checkpoint"),
        (["a.libsvm", "-o", "no/where"], 'the folder "no" does not exist'),
        (["a.libsvm", "--features", "10"], "expected an index of at most 10"),
        (["a.libsvm", "--classes", "5,6"], 'row 1, column 1: the label "'),
        (["bad.csv"], "bad.csv, row 3: expected 2 fields, got 3"),
        (["one.csv"], 'one.csv: expected two or more classes, got only "u"'),
        (["empty.libsvm"], "empty.libsvm: the file is empty"),
        (["a.libsvm", "--learner", "kernel-cw", "--window", "1"], "name them with --classes"),
    ],
)
def test_bad_input_gets_one_line_and_no_files(folder, capsys, words, message):
    (folder / "bad.csv").write_text("x,y\n1,u\n1,u,v\n2,v\n")
    (folder / "one.csv").write_text("x,y\n1,u\n2,u\n")
    (folder / "empty.libsvm").write_text("# nothing\n")
    before = sorted(folder.iterdir())
    if "-o" not in words:
        words = [*words, "-o", "m.oblong", "--report", "r.jsonl"]
    assert message in complaint(capsys, 2, *words)
    assert sorted(folder.iterdir()) == before


def test_bad_rows_are_skipped_and_counted(folder, capsys):
    text = (folder / "a.libsvm").read_text()
    good = run_json(capsys, "a.libsvm")[-1]
    lines = text.splitlines()
    for place in (500, 300, 0):
        lines.insert(place, "what is this")
    (folder / "b.libsvm").write_text("\n".join(lines))
    assert 'b.libsvm, row 1, column 2: expected index:value, got "is"' in complaint(
        capsys, 2, "b.libsvm"
    )
    end = run_json(capsys, "b.libsvm", "--skip-bad")[-1]
    assert (end["skipped"], end["rows"], end["mistakes"]) == (3, 600, good["mistakes"])
    assert main(["stream", "b.libsvm", "--skip-bad"]) == 0
    assert "Skipped: 3 malformed rows" in capsys.readouterr().out


def test_learners_that_need_all_classes_take_those_of_the_first_rows(folder, capsys):
    (folder / "t.csv").write_text("1,0,a\n0,1,b\n" * 50 + "1,1,c\n")
    words = ["t.csv", "--learner", "kernel-cw", "--param", "gamma=1"]
    assert run_json(capsys, *words)[-1]["classes"] == {"a": 50, "b": 50, "c": 1}
    message = complaint(capsys, 2, *words, "--window", "50")
    assert message == 't.csv, row 101, column 3: the label "c" is not among the classes'
    assert run_json(capsys, *words, "--window", "50", "--classes", "a,b,c")[-1]["rows"] == 101
    (folder / "t.libsvm").write_text("a 1:1\nb 2:1\nb 3:1\n")
    assert "--features or --hash-bits" in complaint(
        capsys, 1, "t.libsvm", "--learner", "kernel-cw", "--window", "2"
    )


def test_a_model_that_would_be_too_large(folder, capsys):
    (folder / "t.libsvm").write_text("1 1:1\n2 2:1\n1 9000000:1\n")
    message = complaint(capsys, 1, "t.libsvm", "--param", "covariance=full")
    assert "9,000,000 features does not fit in memory; hash them" in message


def test_json_report(folder, capsys):
    lines = run_json(capsys, "a.libsvm", "--window", "100", "--report", "r.jsonl")
    written = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    assert written == lines


def test_the_curve_stays_small():
    metrics = Metrics()
    for k in range(1, 5001):
        metrics.add_window(10 * k, k, 0.5)
    assert len(metrics.windows) <= 513
    assert sum(w.length for w in metrics.windows) == 50_000
    assert sum(w.mistakes for w in metrics.windows) == 5000
    assert metrics.seconds == pytest.approx(2500)
    assert all(w.error == 0.1 for w in metrics.windows)
    again = Metrics(json.loads(json.dumps(metrics.state())))
    assert again.windows == metrics.windows


def test_warnings_are_one_line(folder, capsys):
    (folder / "t.csv").write_text("1,0,a\n1,0,b\n" * 200)
    assert main(["stream", "t.csv", "--learner", "cw", "--json"]) == 0
    err = capsys.readouterr().err
    assert err == "" or (err.startswith("oblong: warning: ") and err.count("\n") == 1)


def test_help_teaches(capsys):
    assert main(["stream", "--help"]) == 0
    text = capsys.readouterr().out
    for word in (*LEARNERS, "--resume", "--skip-bad", "examples:\n  oblong stream "):
        assert word in text


lines = st.text('01.:-+#,"eE \tqidnax{}\0é', max_size=24)


@given(st.lists(lines, max_size=12), st.sampled_from(["libsvm", "csv", "json"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_text_gives_a_traceback_or_half_a_file(tmp_path_factory, rows, form, skip):
    folder = tmp_path_factory.mktemp("fuzz")
    path, output = folder / "rows", folder / "m.oblong"
    path.write_text("\n".join(rows), encoding="utf-8")
    words = ["stream", str(path), "--format", form, "-o", str(output), "--json"]
    code = main([*words, "--skip-bad"] if skip else words)
    assert code in (0, 1, 2)
    assert output.exists() == (code == 0)
    if code == 0:
        assert len(oblong.load(output).classes_) >= 2
    assert {p.name for p in folder.iterdir()} <= {"rows", "m.oblong"}


def peak(rows, text):
    """Largest memory of a process that streams a block of rows again and again, in megabytes."""
    script = (
        "import re, sys\n"
        "from oblong.cli import main\n"
        "code = main(['stream', '-', '--format', 'libsvm', '--json', '--window', '1000'])\n"
        "status = open('/proc/self/status').read()\n"
        "print(re.search('VmHWM:\\\\s*([0-9]+) kB', status)[1], file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=text * rows, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["rows"] == 2000 * rows
    return int(done.stderr.split()[-1]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_memory_does_not_grow_with_the_rows():
    text = libsvm_text(2000, 1000).encode()
    small, large = peak(10, text), peak(200, text)
    assert large < small + 15
