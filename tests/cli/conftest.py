from __future__ import annotations

import pytest
from sklearn.svm import SVC

from oblong.cli.comparison import grids


@pytest.fixture
def extra_model(monkeypatch):
    """Register one more model for the length of a test."""
    monkeypatch.setattr(grids, "_MODELS", dict(grids._MODELS))
    model = grids.Model(
        "cubic",
        "SVM, cubic <b>",
        factory=lambda: SVC(kernel="poly"),
        grid=lambda unit: {"C": (1.0, 10.0)},
    )
    grids.register(model)
    return model
