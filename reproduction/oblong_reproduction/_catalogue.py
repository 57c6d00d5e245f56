"""All experiments, by name."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from oblong_reproduction._experiment import Experiment

_METHODS = ("esvm", "iellip", "cw", "ekm", "rmm")


def catalogue() -> dict[str, Experiment]:
    """Return every experiment by its name, in the order of the papers.

    Examples
    --------
    >>> from oblong_reproduction import catalogue
    >>> catalogue()["ekm-fig1"].title
    'three points of an ellipse that can be shattered with the largest margin'
    """
    found: dict[str, Experiment] = {}
    for method in _METHODS:
        for experiment in import_module(f"oblong_reproduction.{method}").EXPERIMENTS:
            if experiment.name in found:
                raise ValueError(f"two experiments have the name {experiment.name!r}")
            found[experiment.name] = experiment
    return found


def find(names: list[str]) -> list[Experiment]:
    """Look up experiments; ``all`` stands for every one, ``rmm`` for those of a method.

    Raises
    ------
    ValueError
        If there is no such experiment.
    """
    known = catalogue()
    chosen: dict[str, Experiment] = {}
    for name in names:
        matching = [e for e in known.values() if name in ("all", e.name, e.name.split("-")[0])]
        if not matching:
            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(f"no experiment {name!r}{hint} (oblong reproduce lists them)")
        chosen.update((experiment.name, experiment) for experiment in matching)
    return list(chosen.values())
