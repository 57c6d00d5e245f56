"""Learners and checkpoints that oblong 0.1 wrote load, predict and learn as they did there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import oblong
from oblong.cli import main
from oblong.persistence import ModelFileError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SAVED = Path(__file__).parent / "saved_0_1"
EXPECTED = json.loads((SAVED / "expected.json").read_text())
X, Y = np.array(EXPECTED["X"]), np.array(EXPECTED["y"])


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_learners_go_on_where_they_were(name):
    model, expected = oblong.load(SAVED / f"{name}.oblong"), EXPECTED["models"][name]
    np.testing.assert_allclose(model.decision_function(X[:5]), expected["decision"], rtol=1e-10)
    found = (model.n_mistakes_, model.n_updates_, model.t_)
    assert found == (expected["mistakes"], expected["updates"], expected["seen"])
    assert set(vars(model)) >= set(model.get_params())
    if name == "nherd_dicts":
        for x, label in zip(X[::-1], Y[::-1].tolist()):
            model.learn_one({f"f{j}": value for j, value in enumerate(x)}, "abc"[label])
    else:
        labels = Y if len(model.classes_) == 3 else (Y > 0).astype(int)
        model.partial_fit(X[::-1], labels[::-1])
    np.testing.assert_allclose(model.decision_function(X[:5]), expected["later"], rtol=1e-8)
    assert model.n_updates_ == expected["later_updates"]


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("arow_joint", 'covariance="joint"'),
        ("arow_joint_unfitted", 'covariance="joint"'),
        ("arow_shared", 'covariance="shared"'),
        ("cw_exact", 'diag_update="exact"'),
    ],
)
def test_options_that_were_removed_are_named(name, option):
    with pytest.raises(ModelFileError) as found:
        oblong.load(SAVED / f"removed_{name}.oblong")
    assert option in str(found.value)
    assert "removed after oblong 0.1" in str(found.value)
    assert "damaged" not in str(found.value)


def test_a_parameter_that_was_removed_is_dropped():
    model = oblong.load(SAVED / "cw_diag_precision.oblong")
    assert not hasattr(model, "diag_update")


def test_a_checkpoint_is_resumed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("rows.libsvm", "stream.checkpoint"):
        shutil.copy(SAVED / name, name)
    words = ["stream", "rows.libsvm", "--every", "20", "--window", "20", "--json"]
    assert main([*words, "--checkpoint", "stream.checkpoint", "--resume"]) == 0
    window, end = map(json.loads, capsys.readouterr().out.splitlines())
    # What 0.1 found when it went on from there.
    assert (window["rows"], window["window_error"], window["mistakes"]) == (60, 0.1, 9)
    assert (end["rows"], end["mistakes"], end["updates"]) == (60, 9, 30)
    assert end["classes"] == {"b": 37, "a": 23}
