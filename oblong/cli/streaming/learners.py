"""Online learners by name, and their parameters from text."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from oblong._core.text import quote
from oblong.io.errors import DataFileError

__all__ = ["LEARNERS", "learner_name", "make_learner", "parameter"]

LEARNERS: Mapping[str, tuple[str, str]] = {
    "arow": ("AROWClassifier", "adaptive regularisation of weights; for noisy data"),
    "cw": ("ConfidenceWeightedClassifier", "confidence-weighted; for separable data"),
    "scw": ("SoftConfidenceWeightedClassifier", "soft confidence-weighted"),
    "nherd": ("NormalHerdClassifier", "normal herd"),
    "sop": ("SecondOrderPerceptron", "second-order perceptron"),
    "pa": ("PassiveAggressiveClassifier", "passive-aggressive; weights only, the fastest"),
    "iellip": ("ImprovedEllipsoidClassifier", "improved ellipsoid method"),
    "cellip": ("ClassicalEllipsoidClassifier", "classical ellipsoid method"),
    "kernel-cw": ("KernelConfidenceWeightedClassifier", "confidence-weighted, with a kernel"),
    "online-esvm": ("OnlineEllipsoidalSVC", "ellipsoidal SVM, online"),
}


def learner_name(text: str) -> str:
    """Check the name of a learner."""
    if text not in LEARNERS:
        close = get_close_matches(text, LEARNERS, n=1)
        hint = f" (did you mean {quote(close[0])}?)" if close else ""
        names = ", ".join(LEARNERS)
        raise argparse.ArgumentTypeError(f"no learner {quote(text)}{hint}; they are {names}")
    return text


def parameter(text: str) -> tuple[str, Any]:
    """Read ``name=value``: a number, true, false, none, JSON, or else a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected name=value, got {quote(text)}")
    plain = {"true": True, "false": False, "none": None}
    if value.lower() in plain:
        return name, plain[value.lower()]
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def make_learner(
    name: str, parameters: Mapping[str, Any], *, sparse: bool, normalize: bool = True
) -> Any:
    """Make a learner; sparse rows have too many columns for a full covariance by default."""
    from oblong.online.plain import PlainLearner

    chosen = dict(parameters)
    if sparse and name not in ("pa", "kernel-cw", "online-esvm"):
        chosen.setdefault("covariance", "diag")
    if name not in ("kernel-cw", "online-esvm"):
        # Nobody can scale the columns of a stream beforehand.
        chosen.setdefault("normalize", normalize)
        chosen.setdefault("allow_new_classes", True)
    plain = PlainLearner.by_name(LEARNERS[name][0], chosen)
    if plain is not None:
        return plain
    # Here, since the most frequent learners need no scikit-learn.
    from oblong import online

    kind = getattr(online, LEARNERS[name][0])
    known = kind().get_params()
    for given in parameters:
        if given not in known:
            close = get_close_matches(given, known, n=1)
            hint = f" (did you mean {quote(close[0])}?)" if close else ""
            problem = f"no parameter {quote(given)}{hint}; they are {', '.join(sorted(known))}"
            raise DataFileError(f"--learner {name}", problem)
    model = kind(**chosen)
    try:
        model._validate_params()
    except (ValueError, TypeError) as error:
        raise DataFileError(f"--learner {name}", str(error).splitlines()[0]) from None
    return PlainLearner.of(model) or model
