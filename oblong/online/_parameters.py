"""Parameters that online learners share, with their defaults.

Learners are dataclasses by keyword, so that an ``__init__`` that stores its arguments, as
scikit-learn asks for, is written by Python from the parameters of a learner and of its bases.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Literal

from oblong._core.estimator import Count, InnerFraction, NotNegative, Numbers, RandomState
from oblong.solvers.online.slots import LEAST_FORGETTING

Forgetting = Annotated[float, Numbers(Real, LEAST_FORGETTING, 1.0, closed="both")]


@dataclass(kw_only=True, eq=False, repr=False)
class PassParameters:
    """Parameters of the passes over the rows."""

    fit_intercept: bool = True
    max_iter: Count = 5
    tol: NotNegative | None = 1e-3
    shuffle: bool = True
    early_stopping: bool = False
    validation_fraction: InnerFraction = 0.1
    n_iter_no_change: Count = 5
    average: bool = False
    random_state: RandomState = None


@dataclass(kw_only=True, eq=False, repr=False)
class RuleParameters:
    """Parameters of the learners that follow a rule."""

    multi_class: Literal["top1", "kbest", "ovr"] = "top1"
    k_best: Count = 3
    calibration: Literal["platt"] | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class LinearParameters:
    """Parameters of the learners with a weight for each feature."""

    allow_new_classes: bool = False
    normalize: bool = False
