"""Online learners by name, and their parameters from text."""

import argparse
from collections.abc import Mapping
from typing import Any

from oblong._core.text import no_such
from oblong.io.errors import DataFileError

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
        raise argparse.ArgumentTypeError(no_such("learner", text, LEARNERS))
    return text


def make_learner(name: str, parameters: Mapping[str, Any], *, normalize: bool = True) -> Any:
    """Make a learner."""
    from oblong.online.plain_learner import PlainLearner

    chosen = dict(parameters)
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
            raise DataFileError(f"--learner {name}", no_such("parameter", given, sorted(known)))
    model = kind(**chosen)
    try:
        model._validate_params()
    except (ValueError, TypeError) as error:
        raise DataFileError(f"--learner {name}", str(error).splitlines()[0]) from None
    return PlainLearner.of(model) or model
