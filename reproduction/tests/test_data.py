from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import Bunch

from oblong.datasets import DataFileError
from oblong_reproduction import Sets, _data


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("OBLONG_DATA", raising=False)
    _data._load.cache_clear()
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "bupa.npz",
        X=rng.standard_normal((345, 6)),
        y=np.arange(345) % 2,
        target_names=np.array(["a", "b"]),
        group=np.arange(345),
    )
    np.savez(tmp_path / "sonar.npz", X=np.zeros((7, 60)), y=np.arange(7) % 2)
    yield tmp_path
    _data._load.cache_clear()


def test_sets_come_from_the_folder(folder):
    sets = Sets(folder)
    assert sets.source("bupa") == "local folder"
    assert sets.missing("bupa") is None
    assert sets.load("bupa").X.shape == (345, 6)
    assert sets.extra("bupa", "group")[-1] == 344


def test_the_variable_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv("OBLONG_DATA", str(folder))
    assert Sets().source("bupa") == "local folder"


def test_a_set_of_another_size_is_refused(folder):
    with pytest.raises(DataFileError, match="expected 208 rows of 60 features"):
        Sets(folder).load("sonar")


def test_a_set_that_openml_lacks_is_missing(folder):
    assert "OpenML does not have it" in Sets(folder).missing("usps")
    assert Sets().source("bupa") is None


def test_openml_is_asked_by_number(folder, monkeypatch):
    asked = []

    def fetch(data_id, **options):
        asked.append(data_id)
        labels = np.array(["tested_positive", "tested_negative"])[np.arange(768) % 2]
        names = [f"c{k}" for k in range(8)]
        return Bunch(data=np.ones((768, 8)), target=labels, feature_names=names)

    monkeypatch.setattr(_data, "fetch_openml", fetch)
    sets = Sets(folder)
    assert sets.source("pima") == "OpenML 37"
    assert sets.missing("pima") is None
    assert asked == [37]
    assert sets.load("pima").y[:3].tolist() == [1, 0, 1]
    with pytest.raises(DataFileError, match="data folder only"):
        sets.extra("pima", "group")


def test_a_network_that_fails_is_the_reason(folder, monkeypatch):
    def fetch(**options):
        raise OSError("unreachable")

    monkeypatch.setattr(_data, "fetch_openml", fetch)
    assert "OpenML 37: unreachable" in Sets(folder).missing("pima")


def test_parts_of_openml_sets_are_cut_by_their_size(folder, monkeypatch):
    def fetch(data_id, **options):
        values = np.arange(70, dtype=float)[:, None] * np.ones(784)
        names = [str(k) for k in range(784)]
        return Bunch(data=values, target=(np.arange(70) % 10).astype(str), feature_names=names)

    monkeypatch.setattr(_data, "KNOWN", {"mnist": _data.Known(60, 784, 10, openml=554)})
    monkeypatch.setattr(_data, "fetch_openml", fetch)
    found = Sets(folder).load("mnist")
    assert found.X[:, 0].tolist() == list(range(60))
    assert found.X_test[:, 0].tolist() == list(range(60, 70))
    assert found.y_test.tolist() == list(range(10))
