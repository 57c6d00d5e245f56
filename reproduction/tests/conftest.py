"""Small data under the names of the sets."""

from __future__ import annotations

import pytest
from sklearn.datasets import load_digits

from oblong.datasets import Dataset


class FakeSets:
    """A small set under any name."""

    def __init__(self, dataset, **extra):
        self.dataset, self.extras = dataset, extra

    def load(self, name):
        return self.dataset

    def extra(self, name, key):
        return self.extras[key]


@pytest.fixture
def fake_sets():
    """Make a small set that stands for all."""
    return FakeSets


@pytest.fixture(scope="session")
def fake_digits():
    """The digits of scikit-learn in place of any set of digits."""
    X, y = load_digits(return_X_y=True)
    names = tuple("0123456789")
    return FakeSets(Dataset(X[:1200], y[:1200], None, names, "fake", "", X[1200:], y[1200:]))
