"""Parameters that classifiers share, with their defaults.

Classifiers are dataclasses by keyword, so that an ``__init__`` that stores its arguments, as
scikit-learn asks for, is written by Python from the parameters of a classifier and of its bases.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from sklearn.utils._param_validation import StrOptions

from oblong._core.estimator import (
    ClassWeight,
    Finite,
    Gamma,
    Limit,
    Natural,
    Positive,
    RandomState,
    Verbose,
)
from oblong.kernels import KERNELS

KernelName = Annotated[Any, StrOptions(set(KERNELS)), callable]


@dataclass(kw_only=True, eq=False, repr=False)
class RunParameters:
    """Threads, and random numbers."""

    n_jobs: int | None = None
    random_state: RandomState = None


@dataclass(kw_only=True, eq=False, repr=False)
class SolverParameters(RunParameters):
    """When a solver stops, and what it prints."""

    tol: Positive = 1e-3
    max_iter: Limit = -1
    verbose: Verbose = 0


@dataclass(kw_only=True, eq=False, repr=False)
class KernelParameters:
    """The kernel."""

    kernel: KernelName = "rbf"
    gamma: Gamma = "scale"
    degree: Natural = 3
    coef0: Finite = 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class VoteParameters:
    """How the outputs of pairs of classes decide."""

    decision_function_shape: Literal["ovo", "ovr"] = "ovr"
    break_ties: Literal["first", "confidence", "random"] | bool = "first"


@dataclass(kw_only=True, eq=False, repr=False)
class MarginParameters(KernelParameters, SolverParameters, VoteParameters):
    """Parameters of a support vector machine, and with that of those that extend it."""

    C: Positive = 1.0
    class_weight: ClassWeight = None
    cache_size: Positive = 1024


def check_bound(B: float | None, D: float | None, nu: float | None) -> None:
    """Refuse parameters of a relative margin that contradict each other."""
    if D is None and nu is not None:
        raise ValueError(f"nu={nu!r} needs D: it lets rows exceed the bound that D penalises")
    if D is not None and B is not None:
        raise ValueError(
            f"B={B!r} fixes the bound and D={D!r} asks for it to be learned: set only one of them"
        )
