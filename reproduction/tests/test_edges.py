"""Choices at the end of a grid: which need a wider one, and what is run again."""

from __future__ import annotations

import numpy as np
import pytest

from oblong import ConfidenceWeightedClassifier
from oblong.datasets import make_rotated_stripe
from oblong_reproduction import Results
from oblong_reproduction._report import edges
from oblong_reproduction.cw.stripes import FIGURE_2_STRIPES
from oblong_reproduction.cw.synthetic import cw_choices, cw_grid
from oblong_reproduction.esvm.large import ONLINE
from oblong_reproduction.rmm.digits import TABLE_2
from oblong_reproduction.rmm.universum import TABLE_3


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
