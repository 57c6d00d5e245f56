from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils import Bunch

from oblong.datasets import DataFileError, available, load, loading


@pytest.mark.parametrize("name", loading.BUILT_IN)
def test_built_in_sets(name):
    dataset = load(name)
    assert dataset.name == name
    assert dataset.description
    assert dataset.X.shape == (len(dataset.y), len(dataset.feature_names))
    assert len(dataset.target_names) == len(np.unique(dataset.y))
    assert np.isfinite(dataset.X).all()


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_local_folder(tmp_path, monkeypatch, how):
    X = sp.random(6, 4, density=0.5, format="csr", random_state=0)
    np.savez(
        tmp_path / "tiny.npz",
        X_data=X.data,
        X_indices=X.indices,
        X_indptr=X.indptr,
        X_shape=X.shape,
        y=np.array([0, 1, 0, 1, 0, 1], dtype=np.uint8),
        target_names=np.array(["no", "yes"]),
    )
    home = tmp_path if how == "argument" else None
    if how == "variable":
        monkeypatch.setenv("OBLONG_DATA", str(tmp_path))
    (tmp_path / "not a name.npz").touch()
    assert set(available(home)) == {"tiny", *loading.BUILT_IN}
    dataset = load("tiny", home)
    np.testing.assert_array_equal(dataset.X.toarray(), X.toarray())
    assert dataset.target_names == ("no", "yes")


@pytest.mark.parametrize("name", ["../secret", "a/b", "", ".hidden", "a\nb"])
def test_names_cannot_leave_the_folder(tmp_path, name):
    with pytest.raises(DataFileError, match="expected the name of a data set"):
        load(name, tmp_path)


def test_openml_is_the_last_resort(monkeypatch):
    def fetch(name, **options):
        assert name == "far_away"
        return Bunch(
            data=np.eye(3), target=np.array(["2", "10", "2"], object), feature_names=["a", "b", "c"]
        )

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    dataset = load("far_away")
    assert dataset.y.tolist() == [2, 10, 2]
    assert dataset.target_names == ("2", "10")


def test_openml_sets_with_missing_values_are_refused(monkeypatch):
    bunch = Bunch(data=np.array([[np.nan]]), target=np.array(["a"]), feature_names=["a"])
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda name, **options: bunch)
    with pytest.raises(DataFileError, match="missing values"):
        load("holes")


def test_unknown_name_without_a_network(monkeypatch):
    def fetch(name, **options):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(DataFileError, match=r'did you mean "wine"\? \(OpenML: no route to host\)'):
        load("wines")
