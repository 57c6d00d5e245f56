"""The models of the command line; :func:`register` adds one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from oblong._core.text import no_such

if TYPE_CHECKING:
    import numpy as np
    from sklearn.base import ClassifierMixin

    from oblong.batch import RelativeMarginClassifierCV

Grid = Mapping[str, Sequence[object]]
MAJORITY = "majority"


@dataclass(frozen=True)
class Factory:
    """Makes a classifier; its module is loaded by the first call, and not for a list of models."""

    home: str
    name: str
    settings: Mapping[str, object] = field(default_factory=dict)

    def __call__(self) -> ClassifierMixin:
        """The classifier, unfitted."""
        return getattr(import_module(self.home), self.name)(**self.settings)


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
    kind : {"kernel", "linear", "baseline"}, default="kernel"
        How the time grows: a kernel model's with the square of the rows, the others' in proportion.
    reference : bool, default=False
        Whether other models are tested against this one.
    default : bool, default=True
        Whether it takes part when no models are named.
    search : callable, optional
        Makes, from the grid and the folds, an estimator that searches the whole grid faster than
        :class:`~sklearn.model_selection.GridSearchCV`, with its ``best_params_``.
    """

    name: str
    title: str
    factory: Callable[[], ClassifierMixin]
    grid: Callable[[float], Grid] = lambda unit: {}
    kind: str = "kernel"
    reference: bool = False
    default: bool = True
    search: Callable[[Grid, Any], Any] | None = None

    @property
    def class_name(self) -> str:
        """Name of the class of the classifier."""
        made = self.factory
        return made.name if isinstance(made, Factory) else type(made()).__name__

    def is_ours(self) -> bool:
        """Whether the classifier is one of this package, whose loops are compiled once."""
        return type(self.factory()).__module__.startswith("oblong.")


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
                raise ValueError(no_such("model", name, _MODELS))
        chosen = [_MODELS[name] for name in dict.fromkeys(names)]
    references = [model for model in chosen if model.reference]
    if not references:
        references = [model for model in _MODELS.values() if model.reference][:1]
    return references[:1] + [model for model in chosen if model is not references[0]]


def trainable() -> list[Model]:
    """All models but the baselines."""
    return [model for model in select(["all"]) if model.kind != "baseline"]


def listing(models: Sequence[Model]) -> str:
    """Names, titles and classes of models, one per line, for the help of a command."""
    rows = ((m.name, m.title, m.class_name) for m in models)
    return "\n".join(f"  {name:<16}  {title:<15}  {kind}" for name, title, kind in rows)


# With this many rows, linear models are worth their time beside kernels, and online learners too.
_LINEAR_ROWS, _ONLINE_ROWS = 5000, 20_000


def default_models(X: Any, y: np.ndarray) -> list[Model]:
    """The models for data of this size: baselines, and what is at home there."""
    import numpy as np
    import scipy.sparse as sp

    chosen = select()
    if sp.issparse(X):
        # Boosted trees need dense rows.
        chosen = [model for model in chosen if model.name != "boosting"]
    extra = []
    if sp.issparse(X) or len(y) > _LINEAR_ROWS or len(np.unique(y)) == 2:
        extra.append(_MODELS["rmm-linear"])
    if len(y) > _ONLINE_ROWS:
        extra.append(_MODELS["arow"])
    place = 1 + [model.name for model in chosen].index("rmm")
    return chosen[:place] + extra + chosen[place:]


_PENALTIES = (0.1, 1.0, 10.0, 100.0)
# The plain SVM first: at equal scores the bound has to earn its place.
_SPREADS = (1.0, 0.5, 0.25, 0.1)
# Weights of the variance in the Sigma-SVM's penalty; zero is the SVM on centred data.
_VARIANCES = (0.0, 0.5, 0.9, 0.99)
# Rows lie in the unit ball of the ellipsoid, where outputs need longer weight vectors.
_BALL = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
_COVERS = (1.0, 0.9, 0.8, 0.65)
_RANKS = (10, 20, 50)
# Variances of the Bayes point's slack, for a kernel with k(x, x) = 1.
_SLACKS = (0.01, 0.1, 0.3, 1.0)
# How little errors weigh in the ellipsoidal SVM, and how far its ellipsoid is from a ball.
_NUS = (0.2, 0.4, 0.7, 0.1, 0.05, 0.02)
_ROUNDNESS = (0.99, 0.9, 0.5)


# In a grid: some multiples of the unit of kernel widths.
_WIDTHS = ("widths",)


def _grid(**values: Sequence[object]) -> Callable[[float], Grid]:
    def make(unit: float) -> Grid:
        widths = tuple(float(f"{factor * unit:.3g}") for factor in (0.1, 0.4, 1.6))
        return {name: widths if tried == _WIDTHS else tried for name, tried in values.items()}

    return make


def _batch(name: str, **settings: object) -> Factory:
    return Factory("oblong.batch", name, settings)


def _search_spreads(grid: Grid, folds: Any) -> RelativeMarginClassifierCV:
    from oblong.batch import RelativeMarginClassifierCV

    # Without spreads in the grid, the support vector machine alone.
    search = RelativeMarginClassifierCV(cv=folds, refit=False, spreads=[1.0])
    return search.set_params(**{f"{name}s": list(values) for name, values in grid.items()})


_BY_SPREAD = _grid(C=_PENALTIES, gamma=_WIDTHS, spread=_SPREADS)
_LOGISTIC = _grid(C=(1.0, 0.01, 0.1, 10.0))
_RMM, _BOOSTED = _batch("RelativeMarginClassifier"), "HistGradientBoostingClassifier"
for _model in (
    Model(
        "svm",
        "SVM",
        Factory("oblong.svm", "SVC"),
        _grid(C=_PENALTIES, gamma=_WIDTHS),
        reference=True,
        search=_search_spreads,
    ),
    Model("rmm", "RMM", _RMM, _BY_SPREAD, search=_search_spreads),
    Model(
        "logistic",
        "Logistic",
        Factory("sklearn.linear_model", "LogisticRegression", {"max_iter": 1000}),
        _LOGISTIC,
        kind="linear",
    ),
    Model("boosting", "Boosted trees", Factory("sklearn.ensemble", _BOOSTED), kind="baseline"),
    Model(
        MAJORITY,
        "Majority class",
        Factory("sklearn.dummy", "DummyClassifier", {"strategy": "prior"}),
        kind="baseline",
    ),
):
    register(_model)

_EKM, _EKM_LINEAR = "EllipsoidalKernelClassifier", _grid(C=_BALL, coverage=_COVERS)
_ESVM, _FISHER = "EllipsoidalSVC", _batch("KernelFisherClassifier")
_ALPHAS, _SOFTER = (10.0, 1.0, 0.1, 0.01), (0.01, *_PENALTIES)
for _model in (
    Model(
        "sigma", "Sigma-SVM", _batch("SigmaSVC"), _grid(C=_PENALTIES, gamma=_WIDTHS, D=_VARIANCES)
    ),
    Model("fisher", "Kernel Fisher", _FISHER, _grid(alpha=_ALPHAS, gamma=_WIDTHS)),
    Model(
        "universum",
        "SVM, Universum",
        # Averages of rows of different classes stand in for data of neither class.
        _batch("UniversumSVC", n_averages=200, random_state=0),
        _grid(C=_PENALTIES, gamma=_WIDTHS, C_universum=(0.01, 0.1, 1.0)),
    ),
    Model("ekm", "EKM", _batch(_EKM), _grid(C=_BALL, gamma=_WIDTHS, rank=_RANKS)),
    Model("esvm", "e-SVM", _batch(_ESVM), _grid(nu=_NUS, gamma=_WIDTHS, r=_ROUNDNESS)),
    Model(
        "bayes",
        "Bayes point",
        _batch("BayesPointClassifier"),
        _grid(soft=_SLACKS, gamma=_WIDTHS),
    ),
    Model(
        "svm-linear",
        "SVM, linear",
        Factory("oblong.svm", "SVC", {"kernel": "linear"}),
        _grid(C=_SOFTER),
        reference=True,
    ),
    Model(
        "rmm-linear",
        "RMM, linear",
        _batch("LinearRelativeMarginClassifier"),
        _grid(C=_SOFTER, spread=_SPREADS),
        kind="linear",
    ),
    Model("ekm-linear", "EKM, linear", _batch(_EKM, kernel="linear"), _EKM_LINEAR),
    Model(
        "esvm-linear",
        "e-SVM, linear",
        _batch(_ESVM, kernel="linear"),
        _grid(nu=_NUS, r=_ROUNDNESS),
    ),
    Model(
        "esvm-online",
        "e-SVM, online",
        # A looser gap than by default: only the error counts here.
        Factory(
            "oblong.online",
            "OnlineEllipsoidalSVC",
            {"tol": 0.03, "max_iter": 200, "random_state": 0},
        ),
        _grid(nu=_NUS, trace_bound=("auto", 3.0, 10.0)),
        kind="linear",
    ),
    Model(
        "gaussian-linear",
        "SVM, whitened",
        _batch(_EKM, kernel="linear", shape="covariance"),
        _grid(C=_SOFTER),
    ),
    Model(
        "arow",
        "AROW, online",
        # Its probabilities are of no use otherwise: they are sure of every row.
        Factory("oblong.online", "AROWClassifier", {"calibration": "platt", "random_state": 0}),
        _grid(r=(1.0, 0.1, 10.0)),
        kind="linear",
    ),
):
    register(replace(_model, default=False))
