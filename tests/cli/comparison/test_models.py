from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.cli.comparison.models import default_models, register, select


def names(*arguments):
    return [model.name for model in select(*arguments)]


def test_the_reference_comes_first():
    assert names()[:2] == ["svm", "rmm"]
    assert names(["rmm", "svm"]) == ["svm", "rmm"]
    assert names(["rmm-linear", "svm-linear"]) == ["svm-linear", "rmm-linear"]
    assert names(["rmm", "rmm"]) == ["svm", "rmm"]
    assert set(names(["all"])) >= {"svm", "rmm", "svm-linear", "rmm-linear"}


def test_a_new_model_appears_by_itself(extra_model):
    assert extra_model in select()
    assert extra_model in select(["all"])
    assert select(["cubic"])[1] is extra_model
    with pytest.raises(ValueError, match="registered already"):
        register(extra_model)


def test_defaults_follow_the_data():
    def default(X, y):
        return [model.name for model in default_models(X, y)]

    baselines = ["logistic", "boosting", "majority"]
    y = np.arange(30_000) % 3
    assert default(np.zeros((300, 2)), y[:300]) == ["svm", "rmm", *baselines]
    assert default(np.zeros((300, 2)), y[:300] % 2) == ["svm", "rmm", "rmm-linear", *baselines]
    assert default(np.zeros((30_000, 2)), y)[2:4] == ["rmm-linear", "arow"]
    assert "boosting" not in default(sp.csr_matrix((300, 2)), y[:300])


def test_unknown_model():
    with pytest.raises(
        ValueError, match=r'no model "rmn" \(did you mean "rmm"\?\); the models are'
    ):
        select(["rmn"])


@pytest.mark.parametrize("model", select(["all"]), ids=lambda model: model.name)
def test_every_grid_fits_its_model(model):
    parameters = model.factory().get_params()
    grid = model.grid(0.25)
    assert set(grid) <= set(parameters)
    if "gamma" in grid:
        assert min(grid["gamma"]) < 0.25 < max(grid["gamma"])
