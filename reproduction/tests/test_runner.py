from __future__ import annotations

import json

import numpy as np
import pytest

from oblong_reproduction import (
    Cell,
    Choice,
    Experiment,
    Paper,
    RunSettings,
    Sets,
    StoreError,
    catalogue,
    judged,
    mean_row,
    not_run,
    run_experiment,
    statement,
    value_row,
)

PAPER = Paper("toy", "A. Toy, A Toy Paper, 2000")


def toy_cell(sets, rng, *, k, calls=None):
    return {"value": float(rng.standard_normal()), "double": 2 * k, "votes": "x" * 50}


def failing_cell(sets, rng, *, k):
    if k == 1:
        raise ArithmeticError("no such number")
    return {"value": 1.0}


def needy_cell(sets, rng, *, k):
    return {"value": float(sets.load("bupa").X[k, 0])}


def rows(results):
    if not results:
        yield not_run("mean", "0")
        return
    yield mean_row("mean", 0.0, results["value"], standard_error=0.1, printed="0.0 ± 1.0")


def later(quick, results):
    total = int(sum(cell["double"] for cell in results))
    return [Cell("second", toy_cell, {"k": total})]


def experiment(run=toy_cell, n=4, **options):
    def cells(quick):
        data = ("bupa",) if run is needy_cell else ()
        return [Cell(f"part/{k}", run, {"k": k}, data=data) for k in range(2 if quick else n)]

    defaults = {"cells": cells, "rows": rows, "minutes": 0.1, "quick": "two parts"}
    return Experiment("toy", PAPER, "a toy", **{**defaults, **options})


@pytest.fixture
def nowhere(monkeypatch):
    """Data sets of no folder, and no network."""
    monkeypatch.delenv("OBLONG_DATA", raising=False)
    monkeypatch.setattr("oblong_reproduction._data.fetch_openml", _offline)
    return Sets()


def _offline(**options):
    raise OSError("no network")


def values(document):
    return [cell["result"]["value"] for cell in document["cells"]]


def test_files_hold_the_raw_results_and_the_table(tmp_path, nowhere):
    document = run_experiment(experiment(), nowhere, RunSettings(seed=3), tmp_path)
    stored = json.loads((tmp_path / "toy.json").read_text())
    assert stored == document
    assert stored["complete"]
    assert stored["seed"] == 3
    assert not stored["quick"]
    assert stored["machine"]["oblong"]
    assert [cell["name"] for cell in stored["cells"]] == [f"part/{k}" for k in range(4)]
    assert [cell["result"]["double"] for cell in stored["cells"]] == [0, 2, 4, 6]
    assert not (tmp_path / "toy.cells.jsonl").exists()
    table = (tmp_path / "toy.md").read_text()
    assert "| mean | 0.0 ± 1.0 |" in table
    assert "Quick run" not in table


def test_random_numbers_follow_the_seed_and_the_names_alone(tmp_path, nowhere):
    first = run_experiment(experiment(), nowhere, RunSettings(seed=1), tmp_path / "a")
    again = run_experiment(experiment(), nowhere, RunSettings(seed=1), tmp_path / "b")
    other = run_experiment(experiment(), nowhere, RunSettings(seed=2), tmp_path / "c")
    more = run_experiment(experiment(n=6), nowhere, RunSettings(seed=1), tmp_path / "d")
    assert values(first) == values(again)
    assert not set(values(first)) & set(values(other))
    assert len(set(values(first))) == 4
    assert values(more)[:4] == values(first)


def test_cells_with_the_same_draw_get_the_same_numbers(tmp_path, nowhere):
    def cells(quick):
        return [Cell(f"m/{k}", toy_cell, {"k": k}, draw=f"d{k // 2}") for k in range(4)]

    drawn = values(run_experiment(experiment(cells=cells), nowhere, RunSettings(), tmp_path))
    assert drawn[0] == drawn[1]
    assert drawn[2] == drawn[3]
    assert drawn[0] != drawn[2]


def test_results_do_not_depend_on_the_number_of_processes(tmp_path, nowhere):
    toy = catalogue()["ekm-fig2"]
    runs = [
        run_experiment(
            toy, nowhere, RunSettings(quick=True, jobs=jobs, only="draw-1?"), tmp_path / str(jobs)
        )
        for jobs in (1, 2)
    ]
    one, two = ([(c["name"], c["result"]) for c in run["cells"]] for run in runs)
    assert len(one) == 10
    assert one == two


def test_a_run_goes_on_where_it_stopped(tmp_path, nowhere):
    part = run_experiment(experiment(), nowhere, RunSettings(only="part/[12]"), tmp_path)
    assert not part["complete"]
    assert [cell["name"] for cell in part["cells"]] == ["part/1", "part/2"]
    assert "2 of 4 parts are to come" in (tmp_path / "toy.md").read_text()
    started = []
    whole = run_experiment(
        experiment(), nowhere, RunSettings(), tmp_path, lambda *step: started.append(step)
    )
    assert started[0] == ("", 2, 4)
    assert [step[0] for step in started[1:]] == ["part/0", "part/3"]
    assert whole["complete"]
    assert whole["cells"][1] == part["cells"][0]
    assert not (tmp_path / "toy.cells.jsonl").exists()


def test_a_run_that_goes_on_elsewhere_names_all_processors(tmp_path, nowhere, monkeypatch):
    names = []
    places = ("one 2", "part/0"), ("other", "part/1"), ("one", "-"), ("other", None)
    for processor, only in places:
        monkeypatch.setattr("oblong_reproduction._runner._processor", lambda name=processor: name)
        document = run_experiment(experiment(), nowhere, RunSettings(only=only), tmp_path)
        names.append(document["machine"]["processor"])
    both = "one 2 and, for some cells, other"
    assert names == ["one 2", both, *[f"{both} or one"] * 2]
    fresh = run_experiment(experiment(), nowhere, RunSettings(fresh=True), tmp_path)
    assert fresh["machine"]["processor"] == "other"


def test_a_line_cut_off_by_a_crash_is_run_again(tmp_path, nowhere):
    run_experiment(experiment(), nowhere, RunSettings(only="part/[01]"), tmp_path)
    (tmp_path / "toy.json").unlink()
    lines = (tmp_path / "toy.cells.jsonl").read_text()
    (tmp_path / "toy.cells.jsonl").write_text(lines[:-30])
    started = []
    document = run_experiment(
        experiment(), nowhere, RunSettings(), tmp_path, lambda *step: started.append(step)
    )
    assert started[0] == ("", 1, 4)
    assert document["complete"]
    assert len(document["cells"]) == 4


def test_other_parameters_make_a_stored_cell_void(tmp_path, nowhere):
    run_experiment(experiment(), nowhere, RunSettings(), tmp_path)

    def cells(quick):
        return [Cell(f"part/{k}", toy_cell, {"k": k + (k == 2)}) for k in range(4)]

    started = []
    changed = run_experiment(
        experiment(cells=cells),
        nowhere,
        RunSettings(),
        tmp_path,
        lambda *step: started.append(step[0]),
    )
    assert started == ["", "part/2"]
    assert changed["cells"][2]["result"]["double"] == 6


def test_results_of_another_seed_are_not_mixed(tmp_path, nowhere):
    run_experiment(experiment(), nowhere, RunSettings(seed=1), tmp_path)
    with pytest.raises(StoreError, match="results of seed 1"):
        run_experiment(experiment(), nowhere, RunSettings(seed=2), tmp_path)
    fresh = run_experiment(experiment(), nowhere, RunSettings(seed=2, fresh=True), tmp_path)
    assert fresh["seed"] == 2


def test_quick_runs_say_so_and_are_kept_apart(tmp_path, nowhere):
    run_experiment(experiment(), nowhere, RunSettings(), tmp_path)
    document = run_experiment(experiment(), nowhere, RunSettings(quick=True), tmp_path)
    assert len(document["cells"]) == 2
    assert document["reduction"] == "two parts"
    assert (
        "**Quick run**, not the full experiment: two parts"
        in (tmp_path / "toy.quick.md").read_text()
    )
    assert len(json.loads((tmp_path / "toy.json").read_text())["cells"]) == 4
    assert {row["verdict"] for row in document["rows"]} == {"too few runs"}


def test_quick_runs_settle_nothing(tmp_path, nowhere):
    def all_rows(results):
        yield value_row("number", 1.0, 1.0, tolerance=0.1, basis="any")
        yield statement("claim", "so", "so", True, "a rule")
        yield statement("other claim", "so", "not so", False, "a rule")
        yield not_run("nothing", "x")

    words = {}
    for quick in (False, True):
        document = run_experiment(
            experiment(rows=all_rows), nowhere, RunSettings(quick=quick), tmp_path
        )
        words[quick] = [row["verdict"] for row in document["rows"]]
    assert words[False] == ["agrees", "confirmed", "contradicted", "not run"]
    assert words[True] == ["not comparable", "too few runs", "too few runs", "not run"]


def test_missing_data_are_reported_and_nothing_else_is_taken(tmp_path, nowhere):
    document = run_experiment(experiment(needy_cell), nowhere, RunSettings(), tmp_path)
    assert document["cells"] == []
    assert document["rows"] == []
    assert not document["complete"]
    assert len(document["not_run"]) == 4
    assert "no data folder was given" in document["not_run"]["part/0"]
    assert "Not run (4 of 4 parts): bupa" in (tmp_path / "toy.md").read_text()


def test_a_cell_that_fails_leaves_the_others_and_is_tried_again(tmp_path, nowhere):
    document = run_experiment(experiment(failing_cell), nowhere, RunSettings(), tmp_path)
    assert document["failed"] == {"part/1": "ArithmeticError: no such number"}
    assert len(document["cells"]) == 3
    assert not document["complete"]
    assert "Failed: part/1: ArithmeticError" in (tmp_path / "toy.md").read_text()

    def cells(quick):
        healed = [Cell("part/1", toy_cell, {"k": 1})]
        return [Cell(f"part/{k}", failing_cell, {"k": k}) for k in (0, 2, 3)] + healed

    healed = run_experiment(experiment(cells=cells), nowhere, RunSettings(), tmp_path)
    assert healed["failed"] == {}
    assert healed["complete"]


def test_a_second_stage_rests_on_the_first(tmp_path, nowhere):
    part = run_experiment(experiment(then=later), nowhere, RunSettings(only="part/[012]"), tmp_path)
    assert [cell["name"] for cell in part["cells"]] == ["part/0", "part/1", "part/2"]
    assert part["not_run"] == {"second stage": "waits for the whole of the first"}
    document = run_experiment(experiment(then=later), nowhere, RunSettings(), tmp_path)
    assert document["cells"][-1]["parameters"] == {"k": 12}
    assert document["complete"]


def test_bulky_results_are_dropped_at_the_end_only(tmp_path, nowhere):
    bulky = experiment(bulky=("votes",))
    run_experiment(bulky, nowhere, RunSettings(only="part/0"), tmp_path)
    assert "xxx" in (tmp_path / "toy.cells.jsonl").read_text()
    document = run_experiment(bulky, nowhere, RunSettings(), tmp_path)
    assert document["cells"][0]["result"]["votes"] == "x" * 50
    assert "xxx" not in (tmp_path / "toy.json").read_text()
    assert not (tmp_path / "toy.cells.jsonl").exists()


def test_condensed_results_are_stored_and_judged_again(tmp_path, nowhere):
    def condense(results):
        return [{"letters": len(cell["votes"])} for cell in results]

    def condensed_rows(results):
        yield value_row("letters", 50, results["letters"].mean(), tolerance=0.0, basis="exact")

    toy = experiment(bulky=("votes",), condense=condense, rows=condensed_rows)
    document = run_experiment(toy, nowhere, RunSettings(), tmp_path)
    stored = json.loads((tmp_path / "toy.json").read_text())
    assert stored["condensed"] == [{"letters": 50}] * 4
    again = judged(toy, stored)
    assert again["rows"] == document["rows"]
    assert again["rows"][0]["verdict"] == "agrees"


def test_a_stored_run_is_judged_by_the_code_of_today(tmp_path, nowhere):
    run_experiment(experiment(), nowhere, RunSettings(), tmp_path)
    stored = json.loads((tmp_path / "toy.json").read_text())

    def later_rows(results):
        yield statement("values", "four", str(len(results)), len(results) == 4, "a rule")

    later = experiment(rows=later_rows, finding="a new finding", protocol="a new protocol")
    again = judged(later, stored)
    assert (again["finding"], again["protocol"]) == ("a new finding", "a new protocol")
    assert [row["verdict"] for row in again["rows"]] == ["confirmed"]
    assert again["cells"] == stored["cells"]
    assert again["date"] == stored["date"]


def test_choices_at_the_edge_of_a_grid_are_flagged(tmp_path, nowhere):
    def choices(results):
        for cell in results:
            yield Choice("SVM, C", cell["double"], (0, 2, 4, 6), natural=(0,))

    toy = experiment(choices=choices)
    document = run_experiment(toy, nowhere, RunSettings(), tmp_path)
    assert document["edges"] == [
        {"what": "SVM, C", "end": "natural", "value": 0.0, "count": 1, "of": 4},
        {"what": "SVM, C", "end": "largest", "value": 6.0, "count": 1, "of": 4},
    ]
    page = (tmp_path / "toy.md").read_text()
    assert "which should be wider: SVM, C 6 (largest) in 1 of 4." in page
    assert "a wider grid would not move: SVM, C 0 in 1 of 4." in page


def test_cells_of_another_experiment_are_shared(tmp_path, nowhere):
    source = run_experiment(experiment(), nowhere, RunSettings(), tmp_path)

    def cells(quick):
        return [Cell(f"part/{k}", toy_cell, {"k": k}, owner="toy") for k in (2, 3)]

    other = Experiment("other", PAPER, "borrows", cells, rows, minutes=0.1)
    borrowed = run_experiment(other, nowhere, RunSettings(), tmp_path)
    alone = run_experiment(other, nowhere, RunSettings(), tmp_path / "alone")
    assert borrowed["cells"] == source["cells"][2:]
    assert values(alone) == values(source)[2:]


def test_numbers_that_json_lacks_become_null(tmp_path, nowhere):
    def odd(sets, rng):
        return {"value": np.float64("nan"), "list": np.arange(2), "flag": np.bool_(True)}

    document = run_experiment(
        experiment(cells=lambda quick: [Cell("odd", odd)], rows=lambda results: []),
        nowhere,
        RunSettings(),
        tmp_path,
    )
    assert document["cells"][0]["result"] == {"value": None, "list": [0, 1], "flag": True}


def test_fits_that_did_not_converge_are_counted(tmp_path, nowhere):
    from oblong import RelativeMarginClassifier

    def hasty(sets, rng):
        X = rng.standard_normal((40, 2))
        RelativeMarginClassifier(max_iter=1, C=100.0).fit(X, rng.permutation(np.arange(40) % 2))
        return {"value": 0.0}

    toy = experiment(cells=lambda quick: [Cell("hasty", hasty)])
    document = run_experiment(toy, nowhere, RunSettings(), tmp_path)
    assert document["cells"][0]["unconverged"] == 1
    assert "1 fit stopped before" in (tmp_path / "toy.md").read_text()


def test_other_warnings_are_not_counted_as_fits_that_stopped(tmp_path, nowhere):
    from oblong import ConfidenceWeightedClassifier

    def noisy(sets, rng):
        X = rng.standard_normal((2000, 2))
        ConfidenceWeightedClassifier().partial_fit(X, rng.integers(0, 2, 2000), classes=[0, 1])
        return {"value": 0.0}

    toy = experiment(cells=lambda quick: [Cell("noisy", noisy)])
    document = run_experiment(toy, nowhere, RunSettings(), tmp_path)
    assert document["cells"][0]["unconverged"] == 0
    ((message, count),) = document["warnings"].items()
    assert "do not seem to be separable" in message
    assert count == 1
    assert "fits stopped" not in (tmp_path / "toy.md").read_text()


def test_pipes_in_a_row_do_not_break_the_table(tmp_path, nowhere):
    def odd_rows(results):
        yield value_row("|x|", 1.0, 1.0, tolerance=0.1, basis="a|b")

    run_experiment(experiment(rows=odd_rows), nowhere, RunSettings(), tmp_path)
    lines = (tmp_path / "toy.md").read_text().splitlines()
    (line,) = [line for line in lines if "x" in line and line.startswith("| \\|")]
    assert line.replace("\\|", "").count("|") == 7
