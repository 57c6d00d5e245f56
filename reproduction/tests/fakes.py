"""Small data in place of the sets of the papers."""

from __future__ import annotations

import numpy as np

from oblong_reproduction.rmm import _pairs


class FakeSets:
    """A small set under any name."""

    def __init__(self, dataset, **extra):
        self.dataset, self.extras = dataset, extra

    def load(self, name):
        return self.dataset

    def extra(self, name, key):
        return self.extras[key]


def rng():
    return np.random.default_rng(0)


def eights_and_threes(fake_digits):
    data = fake_digits.dataset
    rows = np.flatnonzero(np.isin(data.y, (3, 8)))[:150]
    X, y = _pairs.unit_rows(data.X[rows], float), (data.y[rows] == 8).astype(int)
    return X, y, _pairs.unit_rows(data.X_test, float)
