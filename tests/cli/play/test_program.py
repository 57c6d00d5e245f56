"""The page as a program."""

from __future__ import annotations

import re

import numpy as np
import pytest

from oblong.cli.play.models import MODELS, State
from oblong.cli.play.program import as_python
from tests.cli.play.asking import fit_all, request


def run_program(text, monkeypatch):
    """Run a copied program as a script does, but for the window; returns its names and axes."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    scope: dict = {}
    exec(compile(text, "copied", "exec"), scope)
    plt.close("all")
    return scope, scope["ax"]


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_the_copied_program_runs_and_fits_the_same(kernel, capsys, monkeypatch):
    node = request(list(MODELS), kernel, stretch=3.0, angle=60.0) | {"standardize": True}
    scope, _ = run_program(as_python(node), monkeypatch)
    told = dict(re.findall(r"(.+): (\d+) errors", capsys.readouterr().out))
    answers = {model["name"]: model for model in fit_all(node)["models"]}
    assert set(answers) == set(MODELS)
    for name, model in answers.items():
        if name != "mve":
            assert int(told[MODELS[name].title]) == model["errors"]
    assert len(scope["ellipsoids"]) == 2
    assert max(e.gap_ for e in scope["ellipsoids"].values()) == answers["mve"]["gap"]
    np.testing.assert_array_equal(scope["models"]["SVM"].dual_gap_.max(), answers["svm"]["gap"])


@pytest.mark.parametrize("stretched", [False, True])
def test_as_python__draws_what_the_page_shows(stretched, monkeypatch, capsys):
    node = request(["svm", "ekm", "mve"], stretch=4.0) | {"axes": ["wei'ght", "length"]}
    scope, ax = run_program(as_python(node | {"stretched": stretched}), monkeypatch)
    table, stretch = np.array(node["points"]), State.from_json(node).map()
    shown = table[:, :2] @ stretch if stretched else table[:, :2]
    np.testing.assert_allclose(ax.collections[0].get_offsets(), shown, atol=1e-12)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("wei'ght", "length")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["SVM", "EKM", "Ellipsoid per class"]
    # Boundary and margins of two models, and two ellipsoids.
    contours = [c for c in ax.collections[1:] if hasattr(c, "levels")]
    assert len(contours) == 8
    svm = scope["models"]["SVM"]
    for contour in contours[:3]:
        corners = np.concatenate([path.vertices for path in contour.get_paths()])
        seen = corners if stretched else corners @ stretch
        np.testing.assert_allclose(svm.decision_function(seen), contour.levels[0], atol=1e-6)


def test_as_python__draws_boundaries_of_three_classes(monkeypatch, capsys):
    _, ax = run_program(as_python(request(["svm"], "rbf", "iris")), monkeypatch)
    assert sum(hasattr(c, "levels") for c in ax.collections) == 3
    run_program(as_python(request([])), monkeypatch)
