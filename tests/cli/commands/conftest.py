from __future__ import annotations

from dataclasses import replace

import pytest

from oblong.cli.comparison import models as registry


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OBLONG_DATA", raising=False)
    return tmp_path


@pytest.fixture
def short_searches(monkeypatch):
    """Two values of each parameter: what the grids hold is tested with them."""

    def short(grid):
        return lambda unit: {name: values[:2] for name, values in grid(unit).items()}

    models = {name: replace(m, grid=short(m.grid)) for name, m in registry._MODELS.items()}
    monkeypatch.setattr(registry, "_MODELS", models)
