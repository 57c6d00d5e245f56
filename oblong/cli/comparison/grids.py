"""The models that the command line knows; a new one is one call of :func:`register`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sklearn.base import ClassifierMixin
from sklearn.svm import SVC

from oblong._core.text import quote
from oblong.batch import (
    BayesPointClassifier,
    EllipsoidalKernelClassifier,
    EllipsoidalSVC,
    KernelFisherClassifier,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
    SigmaSVC,
    UniversumSVC,
)
from oblong.online import OnlineEllipsoidalSVC

__all__ = ["Model", "register", "select"]

Grid = Mapping[str, Sequence[object]]


@dataclass(frozen=True)
class Model:
    """A classifier with the values its parameters are chosen from.

    Attributes
    ----------
    name : str
        What one types after ``--models``.
    title : str
        What tables and pictures print.
    factory : callable
        Makes the unfitted classifier.
    grid : callable
        Makes the parameter grid from the kernel width unit: scikit-learn's ``gamma="scale"`` of
        the scaled data. Values to prefer when scores tie come first.
    reference : bool, default=False
        Whether other models are tested against this one.
    default : bool, default=True
        Whether it takes part when no models are named.
    """

    name: str
    title: str
    factory: Callable[[], ClassifierMixin]
    grid: Callable[[float], Grid]
    reference: bool = False
    default: bool = True


_MODELS: dict[str, Model] = {}


def register(model: Model) -> None:
    """Make a model known to the command line."""
    if model.name in _MODELS:
        raise ValueError(f"a model named {model.name!r} is registered already")
    _MODELS[model.name] = model


def select(names: Sequence[str] | None = None) -> list[Model]:
    """Look up models by name, the reference first.

    Parameters
    ----------
    names : sequence of str, optional
        Registered names; ``"all"`` stands for every model, None for the default ones. Where
        no reference model is among them, the first registered one joins.

    Raises
    ------
    ValueError
        If a name is not registered.
    """
    if names is None:
        chosen = [model for model in _MODELS.values() if model.default]
    elif list(names) == ["all"]:
        chosen = list(_MODELS.values())
    else:
        for name in names:
            if name not in _MODELS:
                close = get_close_matches(name, _MODELS, n=1)
                hint = f" (did you mean {quote(close[0])}?)" if close else ""
                raise ValueError(
                    f"no model {quote(name)}{hint}; the models are {', '.join(_MODELS)}"
                )
        chosen = [_MODELS[name] for name in dict.fromkeys(names)]
    references = [model for model in chosen if model.reference]
    if not references:
        references = [model for model in _MODELS.values() if model.reference][:1]
    return references[:1] + [model for model in chosen if model is not references[0]]


_PENALTIES = (0.1, 1.0, 10.0, 100.0)
# The plain SVM first: at equal scores the bound has to earn its place.
_SPREADS = (1.0, 0.5, 0.25, 0.1)
# Shares of the spread in the Sigma-SVM's penalty; zero is the SVM on centred data.
_SHARES = (0.0, 0.5, 0.9, 0.99)
# Rows lie in the unit ball of the ellipsoid, where outputs need longer weight vectors.
_BALL_PENALTIES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
_COVERAGES = (1.0, 0.9, 0.8, 0.65)
_RANKS = (10, 20, 50)
# Variances of the Bayes point's slack, for a kernel with k(x, x) = 1.
_SLACKS = (0.01, 0.1, 0.3, 1.0)
# How little errors weigh in the ellipsoidal SVM, and how far its ellipsoid is from a ball.
_ERROR_SHARES = (0.2, 0.4, 0.7, 0.1, 0.05, 0.02)
_ROUNDNESS = (0.99, 0.9, 0.5)


def _widths(unit: float) -> tuple[float, ...]:
    return tuple(float(f"{factor * unit:.3g}") for factor in (0.1, 0.4, 1.6))


register(
    Model(
        "svm",
        "SVM",
        factory=SVC,
        grid=lambda unit: {"C": _PENALTIES, "gamma": _widths(unit)},
        reference=True,
    )
)
register(
    Model(
        "rmm",
        "RMM",
        factory=RelativeMarginClassifier,
        grid=lambda unit: {"C": _PENALTIES, "gamma": _widths(unit), "spread": _SPREADS},
    )
)
register(
    Model(
        "sigma",
        "Sigma-SVM",
        factory=SigmaSVC,
        grid=lambda unit: {"C": _PENALTIES, "gamma": _widths(unit), "D": _SHARES},
        default=False,
    )
)
register(
    Model(
        "fisher",
        "Kernel Fisher",
        factory=KernelFisherClassifier,
        grid=lambda unit: {"alpha": (10.0, 1.0, 0.1, 0.01), "gamma": _widths(unit)},
        default=False,
    )
)
register(
    Model(
        "universum",
        "SVM, Universum",
        # Averages of rows of different classes stand in for data of neither class.
        factory=lambda: UniversumSVC(n_averages=200, random_state=0),
        grid=lambda unit: {
            "C": _PENALTIES,
            "gamma": _widths(unit),
            "C_universum": (0.01, 0.1, 1.0),
        },
        default=False,
    )
)
register(
    Model(
        "ekm",
        "EKM",
        factory=EllipsoidalKernelClassifier,
        grid=lambda unit: {"C": _BALL_PENALTIES, "gamma": _widths(unit), "rank": _RANKS},
        default=False,
    )
)
register(
    Model(
        "esvm",
        "e-SVM",
        factory=EllipsoidalSVC,
        grid=lambda unit: {"nu": _ERROR_SHARES, "gamma": _widths(unit), "r": _ROUNDNESS},
        default=False,
    )
)
register(
    Model(
        "bayes",
        "Bayes point",
        factory=BayesPointClassifier,
        grid=lambda unit: {"soft": _SLACKS, "gamma": _widths(unit)},
        default=False,
    )
)
register(
    Model(
        "svm-linear",
        "SVM, linear",
        factory=lambda: SVC(kernel="linear"),
        grid=lambda unit: {"C": (0.01, *_PENALTIES)},
        reference=True,
        default=False,
    )
)
register(
    Model(
        "rmm-linear",
        "RMM, linear",
        factory=LinearRelativeMarginClassifier,
        grid=lambda unit: {"C": (0.01, *_PENALTIES), "spread": _SPREADS},
        default=False,
    )
)
register(
    Model(
        "ekm-linear",
        "EKM, linear",
        factory=lambda: EllipsoidalKernelClassifier(kernel="linear"),
        grid=lambda unit: {"C": _BALL_PENALTIES, "coverage": _COVERAGES},
        default=False,
    )
)
register(
    Model(
        "esvm-linear",
        "e-SVM, linear",
        factory=lambda: EllipsoidalSVC(kernel="linear"),
        grid=lambda unit: {"nu": _ERROR_SHARES, "r": _ROUNDNESS},
        default=False,
    )
)
register(
    Model(
        "esvm-online",
        "e-SVM, online",
        # A looser gap than by default: only the error counts here.
        factory=lambda: OnlineEllipsoidalSVC(tol=0.03, max_iter=200, random_state=0),
        grid=lambda unit: {"nu": _ERROR_SHARES, "trace_bound": ("auto", 3.0, 10.0)},
        default=False,
    )
)
register(
    Model(
        "gaussian-linear",
        "SVM, whitened",
        factory=lambda: EllipsoidalKernelClassifier(kernel="linear", shape="covariance"),
        grid=lambda unit: {"C": (0.01, *_PENALTIES)},
        default=False,
    )
)
