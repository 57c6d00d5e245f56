from __future__ import annotations

import pytest
from sklearn.svm import SVC

from oblong.cli import registry


@pytest.fixture
def extra_model(monkeypatch):
    """Register one more model for the length of a test."""
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    model = registry.Model(
        "cubic",
        "SVM, cubic <b>",
        factory=lambda: SVC(kernel="poly"),
        grid=lambda unit: {"C": (1.0, 10.0)},
    )
    registry.register(model)
    return model
