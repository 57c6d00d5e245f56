"""What the page of ``oblong play`` computes."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import oblong
from oblong.cli.play import models as play_models
from oblong.cli.play.models import MODELS, BadRequest, State, fit
from tests.cli.play.asking import HUGE, VIEW, field, fit_all, grid, request


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_fields_are_decision_functions(kernel):
    node = request(["rmm", "ekm"], kernel, C=8.0, spread=0.25, coverage=0.9)
    answer = fit_all(node)
    table = np.array(node["points"])
    X, y = table[:, :2], table[:, 2].astype(int)
    rmm = oblong.RelativeMarginClassifier(C=8.0, spread=0.25, kernel=kernel).fit(X, y)
    ekm = oblong.EllipsoidalKernelClassifier(C=8.0, coverage=0.9, kernel=kernel).fit(X, y)
    rows = grid(answer)
    for model, known in zip(answer["models"], (rmm, ekm)):
        outputs = known.decision_function(rows)
        # The width of the kernel has six digits, so that it can be copied.
        near = {"rtol": 1e-3, "atol": 1e-3 * np.abs(outputs).max()}
        np.testing.assert_allclose(field(model["lines"]["boundary"][0]), outputs, **near)
        np.testing.assert_allclose(field(model["lines"]["margin"][0]), outputs - 1.0, **near)
        assert model["gap"] == pytest.approx(known.dual_gap_.max(), abs=1e-4)
        assert model["errors"] == np.sum(known.predict(X) != y)
    lines = answer["models"][0]["lines"]
    assert answer["models"][0]["bound"] == pytest.approx(rmm.B_[0], rel=1e-3)
    np.testing.assert_allclose(
        field(lines["bound"][1]) - field(lines["bound"][0]), 2.0 * rmm.B_[0], rtol=1e-2
    )
    inside = field(answer["models"][1]["lines"]["ellipsoid"][0]) <= 0.0
    assert np.mean(inside == (ekm.ellipsoid_.predict(rows) == 1)) > 0.999


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["svm", "ekm", "esvm", "bpm", "arow", "cellip"])
def test_boundaries_of_three_classes_separate_what_is_predicted(name):
    node = request([name], "rbf", "iris") | {"view": [0.0, 8.0, -1.0, 4.0]}
    answer = fit(node)["models"][0]
    assert "margin" not in answer["lines"]
    state = State.from_json(node)
    X, y = state.arrays()
    gamma = {"gamma": float(f"{1.0 / (2 * X.var()):.6g}"), "kernel": "rbf"}
    model = MODELS[name].make(state, gamma).fit(X, y)
    lines = np.linspace(0.0, 8.0, 64), np.linspace(-1.0, 4.0, 64)
    predicted = model.predict(np.stack(np.meshgrid(*lines), axis=-1).reshape(-1, 2))
    for k, text in enumerate(answer["lines"]["boundary"]):
        values = field(text)
        np.testing.assert_array_equal(values > 0, (predicted == k) & (values != 0))


def test_the_stretch_turns_the_svm_and_not_the_ellipsoidal_kernel():
    answer = fit_all(request(["svm", "rmm", "sigma", "ekm", "arow"], stretch=4.0))
    turned = {model["name"]: model["turned"] for model in answer["models"]}
    assert turned["svm"] > 45
    assert turned["rmm"] < 10
    assert turned["ekm"] < 0.01
    # No scaling of the columns helps, since the stretch runs across them.
    scaled = fit(request(["svm"], stretch=4.0) | {"standardize": True})
    assert scaled["models"][0]["turned"] > 45


def test_in_the_stretched_frame_the_same_boundary_is_drawn_elsewhere():
    node = request(["svm"], stretch=2.0, angle=30.0)
    here = fit(node)
    there = fit(node | {"stretched": True})
    table = np.array(node["points"])
    stretch = State.from_json(node).map()
    svm = oblong.RelativeMarginClassifier(spread=1.0, kernel="linear")
    svm.fit(table[:, :2] @ stretch, table[:, 2])
    for answer, rows in ((here, grid(here) @ stretch), (there, grid(there))):
        np.testing.assert_allclose(
            field(answer["models"][0]["lines"]["boundary"][0]),
            svm.decision_function(rows),
            atol=1e-4,
        )


def test_what_cannot_be_fitted_is_said():
    one = request(["svm"]) | {"points": [[0.0, 0.0, 0], [1.0, 1.0, 0]]}
    assert "two classes" in fit(one)["message"]
    two = request(["svm", "mve"]) | {"points": [[0.0, 0.0, 0], [0.0, 0.0, 1]]}
    answers = fit_all(two)["models"]
    assert all(model["lines"] or model["message"] for model in answers)


def test_fit__what_did_not_converge_is_said_without_parameters():
    places = np.random.default_rng(0).normal(size=(200, 2)).tolist()
    points = [[*place, k % 2] for k, place in enumerate(places)]
    model = fit({"points": points, "models": ["cw"], "kernel": "linear", "view": VIEW})["models"][0]
    assert model["message"] == "The fit has not converged."


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("stretch", [1.0, 16.0])
@pytest.mark.parametrize("view", [[-3.0, 3.0, -3.0, 3.0], [-1e299, 1e299, -1e299, 1e299]])
def test_fit__numbers_that_overflow_get_a_sentence(kernel, stretch, view, recwarn):
    near = [[0.0, 0.0, 0], [1.0, 1.0, 1], [2.0, 0.0, 0], [3.0, 1.0, 1]]
    for points in (HUGE, near):
        node = {"points": points, "models": list(MODELS), "kernel": kernel, "view": view}
        answers = fit_all(node | {"settings": {"stretch": stretch}})
        json.dumps(answers, allow_nan=False)
        assert [model["name"] for model in answers["models"]] == list(MODELS)
        assert all(model["lines"] or model["message"] for model in answers["models"])
    assert [str(each.message) for each in recwarn] == []


def test_fit__the_time_of_a_fit_has_no_loading_in_it(monkeypatch):
    class Slow:
        """Loads for a while before its first fit, as compiled code does."""

        loaded = False

        def fit(self, X, y):
            if not Slow.loaded:
                time.sleep(0.3)
            Slow.loaded = True
            return oblong.RelativeMarginClassifier().fit(X, y)

    slow = MODELS["pa"]._replace(kind=Slow, group="batch", sliders=(), fixed={})
    monkeypatch.setattr(play_models.Model, "make", lambda self, *_: self.kind())
    monkeypatch.setitem(MODELS, "pa", slow)
    monkeypatch.setattr(play_models, "_loading", {})
    first = fit(request(["pa"], C=1.7))
    assert first["delay"] > first["models"][0]["seconds"]
    assert fit(request(["pa"], C=1.8))["delay"] == 0.0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"points": "x"}, "list"),
        ({"points": [[0.0, 0.0, 0]] * 2001}, "2000"),
        ({"points": [[0.0, float("nan"), 0]]}, "finite"),
        ({"points": [[0.0, True, 0]]}, "finite"),
        ({"points": [[0.0, 0.0, 0.5]]}, "classes"),
        ({"points": [[0.0, 0.0, 6]]}, "classes"),
        ({"points": [[1e200, 0.0, 0]]}, "moderate"),
        ({"models": ["svc"]}, "models"),
        ({"models": [["svm"]]}, "models"),
        ({"kernel": "sigmoid"}, "kernel"),
        ({"settings": {"C": -1.0}}, "C from"),
        ({"settings": {"C": "1"}}, "C from"),
        ({"settings": {"tol": 1.0}}, "settings"),
        ({"view": [0.0, 0.0, 1.0, 2.0]}, "left < right"),
        ({"view": None}, "view"),
    ],
)
def test_bad_requests(change, problem):
    with pytest.raises(BadRequest, match=problem):
        fit(request(["svm"]) | change)
