from __future__ import annotations

import json
from importlib.metadata import entry_points

import pytest

from oblong.cli import main
from oblong_reproduction import catalogue

pytestmark = pytest.mark.skipif(
    not entry_points(group="oblong.commands", name="reproduce"),
    reason="oblong-reproduction is not installed, so the command cannot find it",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OBLONG_DATA", raising=False)
    return tmp_path


def test_without_a_name_the_experiments_are_listed_with_their_cost(folder, capsys):
    assert main(["reproduce"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for experiment in catalogue().values():
        assert f"  {experiment.name} " in out
        assert experiment.title in out
    assert "Ellipsoidal Kernel Machines" in out
    assert " min" in out
    assert list(folder.iterdir()) == []


def test_an_experiment_prints_its_table_and_writes_its_files(folder, capsys):
    assert main(["reproduce", "rmm-table1", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "not comparable" in out
    assert "Quick run" not in out
    assert "Results: oblong-reproduction" in out
    written = {path.name for path in (folder / "oblong-reproduction").iterdir()}
    assert written == {"rmm-table1.json", "rmm-table1.md", "rmm-table1.svg"}


def test_quick_is_said_and_the_seed_is_stored(folder, capsys):
    words = ["reproduce", "ekm-fig3", "--quick", "--seed", "5", "--jobs", "1", "-o", "there"]
    assert main([*words, "--only", "draw-0"]) == 0
    out = capsys.readouterr().out
    assert "Quick run: 10 draws instead of 50, two ranks." in out
    stored = json.loads((folder / "there" / "ekm-fig3.quick.json").read_text())
    assert (stored["seed"], stored["quick"], stored["complete"]) == (5, True, False)
    assert (folder / "there" / "ekm-fig3.quick.svg").exists()


def test_stored_results_are_judged_again_without_a_run(folder, capsys):
    assert main(["reproduce", "rmm-table1", "--jobs", "1"]) == 0
    path = folder / "oblong-reproduction" / "rmm-table1.json"
    stored = json.loads(path.read_text())
    old = {**stored, "rows": [], "protocol": "of old"}
    path.write_text(json.dumps(old))
    (folder / "oblong-reproduction" / "rmm-table1.md").unlink()
    capsys.readouterr()
    assert main(["reproduce", "rmm-table1", "rmm-fig1", "--judge"]) == 0
    assert "rmm-fig1: no results" in capsys.readouterr().out
    assert json.loads(path.read_text()) == stored
    assert (folder / "oblong-reproduction" / "rmm-table1.md").exists()
    assert not (folder / "oblong-reproduction" / "rmm-fig1.json").exists()


def test_missing_data_are_said(folder, capsys):
    (folder / "empty").mkdir()
    assert main(["reproduce", "rmm-fig9", "--quick", "--data", "empty", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "Not run (6 parts): news20_bydate: not in the data folder" in out


def test_bad_input_is_one_line(folder, capsys):
    (folder / "t.csv").touch()
    for words, said in (
        (["ekm-fig2", "-o", "t.csv"], "expected a folder, got the file 't.csv'"),
        (["nothing"], "no experiment 'nothing'"),
        (["rmm-fig1", "--data", "nowhere"], "expected a folder, got 'nowhere'"),
        (["rmm-fig1", "--jobs", "0"], "from 1 up"),
    ):
        assert main(["reproduce", *words]) == 2
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1


def test_another_seed_in_the_same_folder_is_refused(folder, capsys):
    assert main(["reproduce", "rmm-table1", "--jobs", "1"]) == 0
    assert main(["reproduce", "rmm-table1", "--jobs", "1", "--seed", "1"]) == 1
    assert "holds results of seed 0" in capsys.readouterr().err
    assert main(["reproduce", "rmm-table1", "--jobs", "1", "--seed", "1", "--fresh"]) == 0
