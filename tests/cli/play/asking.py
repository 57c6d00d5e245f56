"""Requests as the page makes them."""

from __future__ import annotations

import base64

import numpy as np

from oblong.cli.play.models import fit
from oblong.cli.play.points import preset

VIEW = [-2.0, 2.5, -2.0, 2.0]
HUGE = [[0.0, 0.0, 0], [1e100, 1e100, 1], [1e100, -1e100, 0], [3.0, 1.0, 1]]


def request(models, kernel="linear", data="stripes", **settings):
    node = {"points": preset(data)["points"], "models": models, "kernel": kernel, "view": VIEW}
    return node | {"settings": settings}


def fit_all(node):
    """Ask as the page does: again, for those models that were not done in time."""
    answer = fit(node)
    while answer["rest"]:
        more = fit(node | {"models": answer["rest"]})
        assert len(more["rest"]) < len(answer["rest"])
        answer = more | {"models": answer["models"] + more["models"]}
    return answer


def field(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(float)


def grid(answer):
    lines = [np.linspace(low, high, answer["grid"]) for low, high in (VIEW[:2], VIEW[2:])]
    return np.stack(np.meshgrid(*lines), axis=-1).reshape(-1, 2)
