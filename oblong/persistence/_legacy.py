"""Objects as earlier releases saved them, turned into what they are today."""

from typing import Any

import numpy as np

from oblong.solvers.online.slots import N_CODES, N_SETTINGS, SKETCH, STRUCTURE

# Numbers of the structures of a covariance that 0.1 had and later releases have not.
_REMOVED_STRUCTURES = {SKETCH + 1: "shared", SKETCH + 2: "joint"}

_OTHERS = (
    "ClassicalEllipsoidClassifier",
    "ImprovedEllipsoidClassifier",
    "PassiveAggressiveClassifier",
)
_GAUSSIAN = (
    "AROWClassifier",
    "ConfidenceWeightedClassifier",
    "NormalHerdClassifier",
    "SecondOrderPerceptron",
    "SoftConfidenceWeightedClassifier",
)
# Parameters that came after 0.1, which did what these values do.
_NEW_PARAMETERS: dict[str, dict[str, Any]] = {
    **{f"oblong.{name}": {"normalize": False} for name in _OTHERS},
    **{f"oblong.{name}": {"normalize": False, "forgetting": 1.0} for name in _GAUSSIAN},
}


class Removed(ValueError):
    """A model with an option that is no longer there."""

    def __init__(self, option: str) -> None:
        super().__init__(
            f"{option} was removed after oblong 0.1; load it with that release, or fit it again"
        )


def upgraded(kind: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of an object of a given type, under their present names.

    Nothing here has been checked: a value that makes no sense is left for the checks to come.
    """
    if kind == "oblong.ExactDiagonalState":
        raise Removed('diag_update="exact"')
    if kind == "oblong.OnlineState":
        return _online_state(attributes)
    for name, value in _NEW_PARAMETERS.get(kind, {}).items():
        attributes.setdefault(name, value)
    covariance = attributes.get("covariance")
    if isinstance(covariance, str) and covariance in _REMOVED_STRUCTURES.values():
        raise Removed(f'covariance="{covariance}"')
    if kind == "oblong.ConfidenceWeightedClassifier" and "diag_update" in attributes:
        if attributes["diag_update"] == "exact" and covariance == "diag":
            raise Removed('diag_update="exact"')
        return {name: value for name, value in attributes.items() if name != "diag_update"}
    return attributes


def _online_state(attributes: dict[str, Any]) -> dict[str, Any]:
    """0.1 called the covariance shape, and kept one code more: whether the last rows were dense."""
    found = dict(attributes)
    settings = found.get("settings")
    if "units" not in found:
        # There were no units, and no forgetting.
        found["units"] = np.zeros(0)
        if isinstance(settings, np.ndarray) and settings.shape == (N_SETTINGS - 1,):
            found["settings"] = np.append(settings, 1.0)
    if "shape" not in attributes:
        return found
    found = {("covariance" if k == "shape" else k): v for k, v in found.items()}
    codes = found.get("codes")
    if isinstance(codes, np.ndarray) and codes.shape == (N_CODES + 1,):
        if codes[STRUCTURE] in _REMOVED_STRUCTURES:
            raise Removed(f'covariance="{_REMOVED_STRUCTURES[int(codes[STRUCTURE])]}"')
        found["codes"] = codes[:N_CODES].copy()
    return found
