from __future__ import annotations

from importlib.util import find_spec

import pytest
from sklearn.svm import SVC

from oblong.cli.comparison import models as registry


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch):
    """On a busy computer a short run may take longer than the time to the first line."""
    if find_spec("rich") is not None:
        monkeypatch.setattr("oblong.cli.shared.progress._FIRST", 1e9)


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
