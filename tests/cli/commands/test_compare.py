from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import oblong
from oblong.cli import main
from oblong.cli.commands import compare
from oblong.cli.comparison import plan
from oblong.cli.shared import options
from oblong.datasets import make_tilted_gaussians

BOTH = ["--models", "svm-linear,rmm-linear", "--cv", "2", "--jobs", "1"]
QUICK = ["--models", "svm-linear", "--cv", "2", "--jobs", "1"]
pytestmark = pytest.mark.usefixtures("short_searches")


def csv_text():
    X, y = make_tilted_gaussians(40, random_state=0)
    y[::7] = 0
    rows = [f"{a:.4f},{b:.4f},{('far', 'near')[k]}" for (a, b), k in zip(X, y)]
    return "\n".join(["u,v,kind", *rows]) + "\n"


def table_rows(stdout):
    """Cells of the lines that hold a mean and a deviation."""
    return [
        re.split(r"\s{2,}", line.strip())
        for line in stdout.splitlines()
        if re.search(r"\d ± \d", line)
    ]


def test_compare_prints_the_table_and_writes_the_report(folder, capsys):
    (folder / "points.csv").write_text(csv_text())
    assert main(["compare", "points.csv", *BOTH]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "points.csv  40 rows, 2 features, 2 classes" in out
    reference, other = table_rows(out)
    assert (reference[0], reference[-1]) == ("SVM, linear", "reference")
    assert other[0] == "RMM, linear"
    assert re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d", other[1])
    assert re.fullmatch(r"\d+\.\d\d", other[2])
    assert all(re.fullmatch(r"\d\.\d{3}", score) for score in other[3:6])
    assert all(re.fullmatch(r"\d+(\.\d+)? (µs|ms|s)", seconds) for seconds in other[6:8])
    assert re.search(r"^Verdict: .*the SVM, linear.*\.$", out, re.MULTILINE)
    assert "Report: oblong-report.html" in out
    assert "\x1b" not in out
    assert sorted(p.name for p in folder.iterdir()) == ["oblong-report.html", "points.csv"]


def test_the_same_seed_gives_the_same_errors(folder, capsys):
    (folder / "points.csv").write_text(csv_text())

    def errors(seed):
        assert main(["compare", "points.csv", *QUICK, "--seed", seed]) == 0
        return [row[:6] for row in table_rows(capsys.readouterr().out)]

    first = errors("3")
    assert errors("3") == first
    assert errors("4") != first


def test_three_classes_of_the_built_in_iris(folder, capsys):
    assert main(["compare", "iris", *QUICK, "--report", "iris.html"]) == 0
    assert "150 rows, 4 features, 3 classes" in capsys.readouterr().out
    page = (folder / "iris.html").read_text()
    assert "The outputs separate versicolor from virginica" in page


def test_a_registered_model_takes_part(folder, capsys, extra_model):
    (folder / "points.csv").write_text(csv_text())
    assert (
        main(["compare", "points.csv", "--models", "cubic,svm-linear", "--cv", "2", "--jobs", "1"])
        == 0
    )
    assert [row[0] for row in table_rows(capsys.readouterr().out)] == [
        "SVM, linear",
        "SVM, cubic <b>",
    ]
    page = (folder / "oblong-report.html").read_text()
    assert "SVM, cubic &lt;b&gt;" in page
    assert "<b>" not in page


@pytest.mark.parametrize("compressed", [False, True])
def test_standard_input(folder, capsys, monkeypatch, compressed):
    data = csv_text().encode()
    stream = io.BytesIO(gzip.compress(data) if compressed else data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    assert main(["compare", "-", *QUICK]) == 0
    assert "standard input  40 rows" in capsys.readouterr().out


def test_sets_of_the_data_folder(folder, capsys, monkeypatch):
    X, y = make_tilted_gaussians(40, random_state=0)
    np.savez(folder / "mine.npz", X=X, y=y, X_test=X, y_test=y)
    monkeypatch.setenv("OBLONG_DATA", str(folder))
    assert main(["compare", "mine", *QUICK]) == 0
    assert "40 rows" in capsys.readouterr().out
    assert "test rows of the set (40) are not used" in (folder / "oblong-report.html").read_text()


def complaint(capsys, code, *words):
    """Run a command line that fails and return the one line it says."""
    assert main(list(words)) == code
    out, err = capsys.readouterr()
    assert out == ""
    *notes, last = err.splitlines()
    assert all(line.startswith("oblong: note: ") for line in notes)
    assert last.startswith("oblong: ")
    return last


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b,y\n1,2,x\n3,abc,z\n", 'd.csv, row 3, column "b": expected a number, got "abc"'),
        (b"a,b,y\n1,2,x\n3,z\n", "d.csv, row 3: expected 3 fields, got 2"),
        (b"", "d.csv: the file is empty"),
        (b"a,b,y\n", "d.csv, row 1: expected rows below the header, got none"),
        (b"a,y\n1,x\n2,x\n", 'd.csv: expected two or more classes, got only "x"'),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "d.csv, row 1: expected UTF-8 text, got the byte 0x89"),
        (b"a,y\n1,x\n2,y\n3,x\n", 'd.csv: class "y" has 1 row, but --cv 5 needs 5'),
    ],
)
def test_malformed_data_gets_one_line(folder, capsys, content, message):
    (folder / "d.csv").write_bytes(content)
    assert complaint(capsys, 2, "compare", "d.csv").startswith(f"oblong: error: {message}")
    assert [p.name for p in folder.iterdir()] == ["d.csv"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.csv"], '"none.csv": no such file or data set; the built-in sets are breast_cancer'),
        (["wines"], '"wines": no such file or data set; did you mean wine?'),
        (["."], "expected a file, got a folder"),
        (["wine", "--target", "x"], "omit --target"),
        (["wine", "--cv", "1"], 'argument --cv: expected a whole number of at least 2, got "1"'),
        (["wine", "--cv", "five"], 'at least 2, got "five"'),
        (["wine", "--seed", "-1"], 'at least 0, got "-1"'),
        (["wine", "--models", "rmn"], 'no model "rmn" (did you mean "rmm"?)'),
        (["wine", "--report", "."], 'expected a file, got the folder "."'),
        (["wine", "--report", "no/where.html"], 'the folder "no" does not exist'),
        (["wine", "--wrong"], "unrecognized arguments: --wrong"),
        (["wine", "--time", "soon"], 'expected a time such as 90s or 5m, got "soon"'),
        (["wine", "--time", "5m", "--full"], "--full: takes as long as it needs"),
        (["d.csv", "--target", "kin"], 'no column "kin" (did you mean "kind"?)'),
    ],
)
def test_bad_arguments_get_one_line(folder, capsys, words, message):
    (folder / "d.csv").write_text(csv_text())
    assert message in complaint(capsys, 2, "compare", *words)


def outcome(text):
    """A JSON result without what differs from run to run."""
    found = json.loads(text)
    # It tells times.
    del found["verdict"]
    for model in found["models"]:
        del model["fit_seconds"], model["predict_seconds"], model["memory_bytes"]
    return found


def test_json(folder, capsys):
    (folder / "points.csv").write_text(csv_text())
    assert main(["compare", "points.csv", *BOTH]) == 0
    rows = table_rows(capsys.readouterr().out)
    assert main(["compare", "points.csv", *BOTH, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [f"{100 * m['error']:.2f} ± {100 * m['std']:.2f}" for m in found["models"]] == [
        row[1] for row in rows
    ]
    assert [m["verdict"] for m in found["models"]] == [row[-1] for row in rows]
    assert (found["rows"], found["nested"], found["report"]) == (40, True, "oblong-report.html")
    assert (found["json_version"], found["search_rows"], found["left_out"]) == (1, None, [])
    for model in found["models"]:
        confusion = np.array(model["confusion"])
        assert confusion.sum() == 40
        assert 1 - np.trace(confusion) / 40 == pytest.approx(model["error"])
        assert 0.5 < model["auc"] <= 1
        assert 0 < model["log_loss"] < 1
    assert [len(m["folds"]) for m in found["models"]] == [2, 2]


def test_parameters_chosen_once(folder, capsys):
    (folder / "points.csv").write_text(csv_text())
    assert main(["compare", "points.csv", *BOTH, "--no-nested", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for model in found["models"]:
        first, second = model["folds"]
        assert first["parameters"] == second["parameters"]
    page = (folder / "oblong-report.html").read_text()
    assert "The parameters were chosen once" in page
    assert "--no-nested" in page


class Crash(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("nested", ["--nested", "--no-nested"])
def test_a_run_that_was_stopped_goes_on(folder, capsys, monkeypatch, nested):
    from oblong.cli.comparison import protocol
    from oblong.cli.comparison.journal import ComparisonJournal

    (folder / "points.csv").write_text(csv_text())
    words = ["compare", "points.csv", *BOTH, nested, "--json"]
    assert main(words) == 0
    whole = outcome(capsys.readouterr().out)
    add = ComparisonJournal.add
    for limit in (1, 2):
        left = [limit]

        def crash(self, result, left=left):
            if not left[0]:
                raise Crash
            left[0] -= 1
            add(self, result)

        with monkeypatch.context() as patch:
            patch.setattr(ComparisonJournal, "add", crash)
            with pytest.raises(Crash):
                main([*words, "--resume"])
        # Half a line, as a crash in the middle of writing leaves it.
        with open("oblong-report.html.state", "a") as stream:
            stream.write('{"model": "svm-lin')
    counted, evaluate = [], protocol.evaluate
    monkeypatch.setattr(protocol, "evaluate", lambda *a: counted.append(a) or evaluate(*a))
    assert main([*words, "--resume"]) == 0
    assert outcome(capsys.readouterr().out) == whole
    assert len(counted) == 1
    assert not (folder / "oblong-report.html.state").exists()


def test_a_state_of_its_own_stays_and_more_models_join(folder, capsys):
    (folder / "points.csv").write_text(csv_text())
    state = ["--state", "cells", "--json"]
    assert main(["compare", "points.csv", *QUICK, *state]) == 0
    assert main(["compare", "points.csv", *BOTH, *state, "--resume"]) == 0
    assert len((folder / "cells").read_text().splitlines()) == 5
    capsys.readouterr()
    for words, message in (
        (["--seed", "1"], "cells: holds the results of seed 0, not these"),
        (["--no-nested"], "cells: holds the results of nested True, not these"),
    ):
        assert message in complaint(
            capsys, 2, "compare", "points.csv", *QUICK, *state, "--resume", *words
        )
    (folder / "points.csv").write_text(csv_text().replace("near", "close"))
    assert "results of other data" in complaint(
        capsys, 2, "compare", "points.csv", *QUICK, *state, "--resume"
    )
    (folder / "cells").write_text("hello\n")
    assert "not a file of oblong compare" in complaint(
        capsys, 2, "compare", "points.csv", *QUICK, *state, "--resume"
    )


def imbalanced(n):
    """Classes of 97:3 that features tell nothing about."""
    X = np.random.RandomState(0).normal(size=(n, 3))
    return {"X": X, "y": (np.arange(n) % 33 == 0).astype(int)}


def test_baselines_and_the_verdict(folder, capsys):
    np.savez("rare.npz", **imbalanced(200))
    words = ["compare", "rare.npz", "--models", "svm-linear,logistic,boosting,majority"]
    assert main([*words, "--cv", "3", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    majority = table_rows(out)[-1]
    row = ["Majority class", "3.50 ± 0.85", "50.00", "0.491", "0.500", "0.153"]
    assert majority[:6] == row
    assert "Verdict: no model is clearly better than always predicting" in out
    assert "wrong for 3.50 % of the rows.\n" in out
    page = (folder / "oblong-report.html").read_text()
    assert "Confusion matrix of" in page


def test_trees_are_left_out_of_sparse_rows(folder, capsys):
    rows = [f"{k % 2} {1 + k % 3}:{1 + k % 2} 4:{k % 5}.5" for k in range(24)]
    (folder / "rows.libsvm").write_text("\n".join(rows) + "\n")
    words = ["--models", "svm-linear,boosting", "--cv", "2", "--jobs", "1", "--json"]
    assert main(["compare", "rows.libsvm", *words]) == 0
    out, err = capsys.readouterr()
    assert err == "oblong: note: rows.libsvm: boosting is left out, it needs dense rows\n"
    assert [model["name"] for model in json.loads(out)["models"]] == ["svm-linear"]


def test_two_data_sets_in_one_report(folder, capsys):
    assert main(["compare", "iris", "wine", *QUICK, "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["data"] for each in found] == ["iris", "wine"]
    page = (folder / "oblong-report.html").read_text()
    assert page.count("<h2>Classes</h2>") == 2
    assert [p.name for p in folder.iterdir()] == ["oblong-report.html"]


def test_too_large_a_job_is_said_before_it_starts(folder, capsys, monkeypatch):
    X, y = make_tilted_gaussians(120, random_state=0)
    np.savez("large.npz", X=X, y=y)
    monkeypatch.setattr(compare, "_MANY_ROWS", 50)
    monkeypatch.setattr(compare, "_TOO_LONG", 0.0)
    monkeypatch.setattr(plan, "_TRIAL", 40)
    monkeypatch.setattr(plan, "_STEPS", ((None, None), (40, 30)))
    assert main(["compare", "large.npz", *BOTH, "--json"]) == 0
    out, err = capsys.readouterr()
    assert "large.npz: on all rows this would take about" in err
    assert "parameters are chosen on 40 rows of each fold and kernel models are fitted to 30" in err
    found = json.loads(out)
    assert (found["search_rows"], found["kernel_rows"]) == (40, 30)
    page = (folder / "oblong-report.html").read_text()
    assert "To save time, parameters were chosen on 40 of its rows, kernel models fitted" in page
    assert main(["compare", "large.npz", *QUICK, "--json", "--full"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["search_rows"] is None


def test_a_time_that_is_over_leaves_what_is_done(folder, capsys, monkeypatch):
    from oblong.cli.comparison import protocol

    evaluate, count = protocol.evaluate, []

    def slow(model, *rest):
        count.append(model.name)
        if len(count) > 5:
            # As the alarm does.
            raise protocol.OutOfTime
        return evaluate(model, *rest)

    monkeypatch.setattr(protocol, "evaluate", slow)
    words = ["compare", "wine", "--models", "svm-linear,rmm-linear", "--cv", "4", "--jobs", "1"]
    assert main([*words, "--time", "9h", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(model["folds"]) for model in found["models"]] == [2, 2]


def test_unknown_command(capsys):
    assert 'no command "compair" (did you mean "compare"?)' in complaint(capsys, 2, "compair")


def test_a_run_that_fails_ends_with_code_1(folder, capsys, monkeypatch):
    from oblong.cli.comparison import protocol

    def fail(*arguments, **options):
        raise protocol.RunError("RMM failed on fold 2: out of memory")

    monkeypatch.setattr(protocol, "compare", fail)
    line = complaint(capsys, 1, "compare", "wine")
    assert line == "oblong: error: RMM failed on fold 2: out of memory"


def test_a_full_disk_ends_with_code_1(folder, capsys, monkeypatch):
    replace, full = os.replace, []

    def fail(source, target):
        if str(target).endswith(full[-1]):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    for ending, tables in ((".html", 1), (".state", 0)):
        full.append(ending)
        assert main(["compare", "wine", *QUICK]) == 1
        out, err = capsys.readouterr()
        assert len(table_rows(out)) == tables
        assert err.startswith("oblong: error: oblong-report.html")
        assert err.endswith("cannot be written: No space left on device\n")
    # What was done is kept, and the report can still be had.
    assert [p.name for p in folder.iterdir()] == ["oblong-report.html.state"]
    monkeypatch.setattr(os, "replace", replace)
    assert main(["compare", "wine", *QUICK, "--resume"]) == 0
    assert [p.name for p in folder.iterdir()] == ["oblong-report.html"]


def test_ctrl_c(folder, capsys, monkeypatch):
    from oblong.cli.comparison import protocol

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(protocol, "compare", interrupt)
    assert complaint(capsys, 130, "compare", "wine") == "oblong: interrupted"


def test_missing_extra(capsys, monkeypatch):
    monkeypatch.setattr(options, "find_spec", lambda name: None)
    line = complaint(capsys, 2, "compare")
    assert line == (
        'oblong: error: oblong compare: needs rich and matplotlib: pip install "oblong[cli]"'
    )


def test_help_teaches(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"oblong {oblong.__version__}\n"
    assert main([]) == 0
    assert "compare" in capsys.readouterr().out
    assert main(["compare", "--help"]) == 0
    text = capsys.readouterr().out
    assert "examples:\n  oblong compare\n" in text
    for word in ("breast_cancer", "rmm-linear", "--repeats", "--time", "oblong-report.html"):
        assert word in text


def run(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "oblong.cli", *words], capture_output=True, timeout=120, **options
    )


def test_the_process_itself(folder):
    bad = run("compare", "-", input=b"a,y\n1,x\nq,z\n", cwd=folder)
    assert (bad.returncode, bad.stdout) == (2, b"")
    assert bad.stderr.decode().splitlines() == [
        'oblong: error: standard input, row 3, column "a": expected a number, got "q" '
        "(--categorical auto encodes text)"
    ]
    good = run("compare", "-", *QUICK, input=csv_text().encode(), cwd=folder)
    assert good.returncode == 0
    assert b"error" not in good.stderr
    assert (folder / "oblong-report.html").is_file()
