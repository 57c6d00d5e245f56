"""Choices at the end of a grid: which need a wider one, and what is run again."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from oblong import ConfidenceWeightedClassifier
from oblong.datasets import make_rotated_stripe
from oblong_reproduction import (
    Cell,
    Choice,
    Experiment,
    Paper,
    Results,
    RunSettings,
    Sets,
    added,
    judged,
    run_experiment,
    statement,
    tried,
)
from oblong_reproduction._report import edges
from oblong_reproduction.cw.stripes import FIGURE_2_STRIPES
from oblong_reproduction.cw.synthetic import cw_choices, cw_grid
from oblong_reproduction.esvm.large import ONLINE
from oblong_reproduction.rmm import benchmarks, when
from oblong_reproduction.rmm.benchmarks import TABLE_4
from oblong_reproduction.rmm.digits import TABLE_2
from oblong_reproduction.rmm.universum import TABLE_3
from oblong_reproduction.rmm.when import WHEN


def test_only_more_than_a_tenth_of_the_choices_asks_for_a_wider_grid():
    one = {"what": "SVM, C", "end": "largest", "value": 10.0}
    often, seldom = ({**one, "count": count, "of": 20} for count in (3, 2))
    assert "which should be wider: SVM, C 10 (largest) in 3 of 20." in edges({"edges": [often]})
    said = edges({"edges": [seldom, {**often, "end": "natural"}]})
    assert "a tenth of the choices or fewer: SVM, C 10 (largest) in 2 of 20." in said
    assert "would not move: SVM, C 10 in 3 of 20." in said
    assert "wider:" not in said


def _online(half, chosen, **more):
    cell = {"set": "adult", "method": "svm", "half": half, "rows": None, "grid": [0.1, 1.0, 10.0]}
    return {**cell, "chosen": chosen, "error": 20.0 + half, **more}


def test_online_halves_that_chose_an_end_are_run_again_on_the_same_rows():
    first = [_online(0, 1.0), _online(1, 10.0)]
    (cell,) = ONLINE.then(False, Results(first))
    assert cell.name == "adult/svm/1/wider"
    assert cell.parameters["grid"] == [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0]
    (before,) = [c for c in ONLINE.cells(False) if c.name == "adult/svm/1"]
    draws = [c.generator(ONLINE.name, 0).integers(2**31) for c in (before, cell)]
    assert draws[0] == draws[1]
    assert ONLINE.then(True, Results(first)) == []
    # Only the wider grid counts from then on.
    again = Results([*first, _online(1, 100.0, grid=cell.parameters["grid"])])
    assert not any(choice.edge for choice in ONLINE.choices(again))


@pytest.mark.parametrize(("method", "chosen"), [("newton", 1e-3), ("online", 500.0)])
def test_parameters_that_change_no_prediction_need_no_further_values(method, chosen):
    cell = _online(0, chosen, method=method, grid=[1e-3, 0.1, 500.0])
    assert [choice.edge for choice in ONLINE.choices(Results([cell]))] == ["natural"]
    assert ONLINE.then(False, Results([cell])) == []


def test_draws_of_table_3_that_chose_an_end_are_run_again():
    parameters = TABLE_3.cells(False)[0].parameters
    inside = {"svm_chosen": [10.0, 1.0, 2.0], "rmm_chosen": [10.0, 0.5, 2.0]}
    at_end = {**inside, "rmm_chosen": [10.0, 0.5, 1.0]}
    (cell,) = TABLE_3.then(
        False, Results([{**parameters, **inside}, {**parameters, "draw": 1, **at_end}])
    )
    assert cell.name == "draw-1/wider"
    assert cell.parameters["scales"] == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert cell.parameters["penalties"] == [1.0, 10.0, 100.0]
    assert cell.parameters.keys() == parameters.keys()


def test_no_grid_is_wider_than_one_without_validation_errors():
    grid = {"penalties": [0.1, 1.0], "shares": [0.5], "ridges": [1e-4, 1.0]}
    cell = {"set": "usps", "grid": {**grid, "sigma_penalties": [1.0]}}
    for validation, edge in ((0.0, "natural"), (0.01, "smallest")):
        chosen = {"svm_chosen": {"C": 0.1, "validation": validation}}
        found = list(TABLE_2.choices(Results([{**cell, **chosen}])))
        assert [choice.edge for choice in found] == [edge]


def test_the_largest_d_ends_a_grid_unless_nothing_changes_beyond_it():
    grid = {"penalties": [1.0], "sigma_penalties": [0.1, 1.0, 10.0], "ridges": [1e-4, 1.0]}
    for D, shares, edge in (
        (0.999, [0.5, 0.999], "largest"),
        (0.5, [0.5, 0.999], ""),
        (0.999999, [0.5, 0.999999], "natural"),
    ):
        chosen = {"sigma_chosen": {"C": 1.0, "D": D, "validation": 0.01}}
        cell = {"set": "usps", "grid": {**grid, "shares": shares}, **chosen}
        found = {choice.what: choice.edge for choice in TABLE_2.choices(Results([cell]))}
        assert found == {"usps, Σ-SVM, C": "", "usps, Σ-SVM, D": edge}


def test_cw_var_depends_on_one_product_and_cw_stdev_not_on_the_variance():
    X, y = make_rotated_stripe(300, random_state=0)

    def mistakes(variant, confidence, variance):
        model = ConfidenceWeightedClassifier(
            variant=variant,
            covariance="full",
            confidence=confidence,
            initial_variance=variance,
            fit_intercept=False,
        )
        return model.partial_fit(X, y, classes=[0, 1]).n_mistakes_

    # The quantile of 0.9 is 1.2816, that of 0.7 is 0.5244.
    assert mistakes("var", 0.9, 0.1) == mistakes("var", 0.7, 0.1 * (1.2815516 / 0.5244005) ** 2)
    assert mistakes("stdev", 0.8, 1.0) == mistakes("stdev", 0.8, 100.0)
    grid = cw_grid("var-full")
    middle = {"confidence": 0.55, "initial_variance": 10.0}
    assert [choice.edge for choice in cw_choices("var-full", middle, grid)] == [""]
    least = {"confidence": 0.55, "initial_variance": 0.001}
    assert [choice.edge for choice in cw_choices("var-full", least, grid)] == ["smallest"]


def test_stripes_at_an_end_are_run_again_with_the_grids_of_figure_2():
    cells = FIGURE_2_STRIPES.cells(False)[:2]
    inside = {"variant": "stdev", "confidence": 0.8}
    found = [
        {**cell.parameters, "chosen": {"stdev-diag": {**inside, "confidence": eta}}}
        for cell, eta in zip(cells, (0.8, 0.6))
    ]
    (wider,) = FIGURE_2_STRIPES.then(False, Results(found))
    assert wider.name == f"{cells[1].name}/wider"
    assert wider.parameters == {**cells[1].parameters, "wider": True}
    again = {**wider.parameters, "chosen": {"stdev-diag": inside}}
    assert not any(c.edge for c in FIGURE_2_STRIPES.choices(Results([*found, again])))
    assert np.isclose(cells[1].generator("x", 0).random(), wider.generator("x", 0).random())


def test_combinations_that_further_values_add():
    grid = {"C": (1.0, 10.0), "gamma": (0.5,)}
    assert added(grid, {}) == []
    found = added(grid, {"C": [100.0], "gamma": [0.1]})
    pairs = [(one["C"], one["gamma"]) for one in found]
    assert pairs == [(1.0, 0.1), (10.0, 0.1), (100.0, 0.5), (100.0, 0.1)]


def test_only_the_open_end_that_was_chosen_has_further_values():
    def further(value, **ends):
        return Choice("C", value, (1.0, 10.0), beyond=(0.1, 100.0, 1000.0), **ends).further

    assert further(10.0) == [100.0, 1000.0]
    assert further(1.0) == [0.1]
    assert further(1.0, natural=(1.0,)) == []
    assert Choice("C", 5.0, (1.0, 5.0, 10.0), beyond=(0.1, 100.0)).further == []


def _searching_cell(sets, rng, *, k, further=None, before=None):
    """A search whose best value is 100, of the grid 1 and 10 or of what lies beyond."""
    drawn = float(rng.random())
    if further is None:
        return {"C": 10.0 if k else 1.0, "same": drawn, "other": k}
    assert further == {"svm": {"C": [100.0, 1000.0]}}
    assert before == {"C": 10.0, "same": drawn, "other": k}
    return {"C": 100.0, "draw_again": drawn}


def _searching_choices(results):
    for cell in results:
        grid = tried(cell, (1.0, 10.0), "svm", "C")
        search, beyond = ("svm", "C"), (100.0, 1000.0)
        yield Choice("SVM, C", cell["C"], grid, natural=(1.0,), search=search, beyond=beyond)


def test_a_search_at_an_open_end_is_repeated_with_further_values(tmp_path):
    def cells(quick):
        return [Cell(f"part/{k}", _searching_cell, {"k": k}) for k in range(3)]

    def rows(results):
        assert len(results) in (1, 3)
        ours = ", ".join(f"{cell['C']:g}" for cell in results)
        yield statement("choices", "so", ours, True, "a rule")

    paper = Paper("toy", "A. Toy, A Toy Paper, 2000")
    toy = Experiment(
        "toy", paper, "a toy", cells, rows, minutes=0.1, quick="less", choices=_searching_choices
    )
    part = run_experiment(toy, Sets(), RunSettings(only="part/1*"), tmp_path)
    assert [cell["name"] for cell in part["cells"]] == ["part/1", "part/1/wider"]
    assert not part["complete"]
    whole = run_experiment(toy, Sets(), RunSettings(), tmp_path)
    assert whole["complete"]
    assert whole["rows"][0]["ours"] == "1, 100, 100"
    assert [edge["end"] for edge in whole["edges"]] == ["natural"]
    names = [cell["name"] for cell in whole["cells"]]
    assert names == ["part/0", "part/1", "part/2", "part/1/wider", "part/2/wider"]
    assert judged(toy, json.loads((tmp_path / "toy.json").read_text()))["rows"] == whole["rows"]
    quick = run_experiment(toy, Sets(), RunSettings(quick=True), tmp_path)
    assert len(quick["cells"]) == 3


def _chosen_cell(sets, rng, *, chosen):
    return {"tested": chosen}


def _tested_choices(results):
    yield from _searching_choices(results.having("k"))


def test_a_part_of_the_wider_searches_takes_no_test_away(tmp_path):
    def cells(quick):
        return [Cell(f"part/{k}", _searching_cell, {"k": k}) for k in range(3)]

    def tests(quick, results):
        chosen = [cell["C"] for cell in results]
        return [Cell("test", _chosen_cell, {"chosen": chosen})]

    def rows(results):
        for cell in results.having("tested"):
            yield statement("tested", "", ", ".join(f"{C:g}" for C in cell["tested"]), True)

    paper = Paper("toy", "A. Toy, 2000")
    first = Experiment("toy", paper, "a toy", cells, rows, 0.1, then=tests)
    assert run_experiment(first, Sets(), RunSettings(), tmp_path)["complete"]
    toy = replace(first, choices=_tested_choices)
    for _ in range(2):
        part = run_experiment(toy, Sets(), RunSettings(only="part/1/wider"), tmp_path)
        assert [row["ours"] for row in part["rows"]] == ["1, 10, 10"]
        assert part["not_run"] == {"wider searches": "1 of 2 done; all count, or none"}
        assert not part["complete"]
    whole = run_experiment(toy, Sets(), RunSettings(), tmp_path)
    assert [row["ours"] for row in whole["rows"]] == ["1, 100, 100"]
    assert whole["complete"]
    assert not list(tmp_path.glob("*.jsonl"))


def _when(**chosen):
    middle = {"C": 1.0, "gamma": 0.5, "spread": 1.0}
    titles = {title: {**middle, **chosen.get(title, {})} for title in ("svm", "half", "best")}
    return {f"{title}_chosen": value for title, value in titles.items()}


def test_svm_and_rmm_get_the_same_further_values():
    cell = _when(half={"gamma": 1 / 32}, best={"spread": 0.1})
    wider = [c for c in WHEN.choices(Results([cell])) if c.further]
    assert [c.what for c in wider] == ["half, γ", "best, spread"]
    assert {c.search for c in wider} == {("all", "gamma"), ("all", "spread")}
    more = {"all": {c.search[1]: c.further for c in wider}}
    assert not any(c.edge for c in WHEN.choices(Results([{**cell, "further": more}])))


class _Sets:
    """Two classes that only a kernel with a small width and much penalty tells apart well."""

    def load(self, name):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((240, 2))
        y = (X[:, 0] + 0.3 * rng.standard_normal(240) > 0).astype(int)
        return SimpleNamespace(X=X, y=y, X_test=None, y_test=None)


@pytest.mark.parametrize("further", [{"gamma": [1 / 32]}, {"spread": [0.05]}, {"C": [1e4]}])
def test_a_wider_search_finds_what_the_whole_grid_has(monkeypatch, further):
    monkeypatch.setattr(when, "_PENALTIES", (0.1, 1.0))
    monkeypatch.setattr(when, "_SCALES", (0.125, 2.0))
    monkeypatch.setattr(when, "_SPREADS", (1.0, 0.5))

    def run(**more):
        rng = np.random.default_rng(1)
        return when._cell(_Sets(), rng, set="any", size=120, split=0, folds=3, **more)

    first = run()
    again = {**first, **run(further={"all": further}, before=first)}
    names = {"C": "_PENALTIES", "gamma": "_SCALES", "spread": "_SPREADS"}
    for name, values in further.items():
        grid = getattr(when, names[name])
        monkeypatch.setattr(when, names[name], (*grid, *values))
    whole = run()
    for title in ("svm", "half", "best"):
        # The same number of validation errors; of equal settings the first choice stays.
        assert again[title] == whole[title] or again[f"{title}_chosen"] == first[f"{title}_chosen"]


def test_parameters_of_the_thirteen_sets_follow_from_scale_and_ratio():
    setting = {"scale": 0.5, "C": 10.0, "ratio": 0.1, "nu": 5.0}
    found = benchmarks._parameters("rmm", setting, 4.0)
    assert found == {"C": 10.0, "D": 1.0, "nu": 5.0, "gamma": 2.0}
    del setting["ratio"]
    assert benchmarks._parameters("rmm_tied", setting, 4.0) == {**found, "D": 10.0}
    assert benchmarks._parameters("kfda", {"scale": 1.0, "alpha": 0.1}, 4.0) == {
        "alpha": 0.1,
        "gamma": 4.0,
    }


@pytest.mark.parametrize("method", ["svm", "kfda", "rmm"])
def test_further_values_of_the_thirteen_sets_are_compared_with_the_first_choice(
    monkeypatch, method
):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), np.arange(60) % 2
    X[:, 0] += y
    monkeypatch.setattr(benchmarks, "_partition", lambda *names: (X, y, X, y))
    options = {"stage": "choice", "set": "any", "split": 0, "folds": 2, "full": False}

    def run(**more):
        rng = np.random.default_rng(1)
        return benchmarks._choice_cell(None, rng, method=method, **options, **more)

    first = run()
    cell = {**options, "method": method, **first}
    # A kernel as flat as this tells nothing apart, so that the first choice stays.
    again = run(further={method: {"scale": [1e-20]}}, before=first)
    assert again["parameters"] == first["parameters"]
    choices = list(TABLE_4.choices(Results([{**cell, **again}])))
    assert [choice.search[0] for choice in choices] == [method] * len(choices)


@pytest.mark.parametrize("seed", range(10))
def test_folds_are_left_out_only_where_they_cannot_change_the_choice(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((50, 2)), np.arange(50) % 2
    errors = rng.integers(0, 4, (20, 5)) / 7.0
    settings: list = []
    folds = [0] * len(errors)

    def error(method, parameters, *rows):
        if parameters not in settings:
            settings.append(parameters)
        k = settings.index(parameters)
        folds[k] += 1
        return errors[k, folds[k] - 1]

    monkeypatch.setattr(benchmarks, "_partition", lambda *names: (X, y, X, y))
    monkeypatch.setattr(benchmarks, "_error", error)
    options = {"stage": "choice", "set": "any", "split": 0, "folds": 5, "full": False}
    found = benchmarks._choice_cell(None, np.random.default_rng(1), method="svm", **options)
    means = errors[: len(settings)].mean(axis=1)
    best = int(np.argmin(np.round(means, 9)))
    assert found["parameters"] == settings[best]
    assert found["error"] == means[best]
    assert sum(folds) < 5 * len(settings)
