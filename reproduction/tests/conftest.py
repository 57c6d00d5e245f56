from __future__ import annotations

import pytest
from fakes import FakeSets
from sklearn.datasets import load_digits

from oblong.datasets import Dataset


@pytest.fixture(scope="module")
def fake_digits():
    X, y = load_digits(return_X_y=True)
    names = tuple("0123456789")
    return FakeSets(Dataset(X[:1200], y[:1200], None, names, "fake", "", X[1200:], y[1200:]))
