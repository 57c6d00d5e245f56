"""Who takes part in a race: classifiers of the library, and peers that are installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.text import quote
from oblong.cli.registry import select
from oblong.cli.stream.learners import LEARNERS

__all__ = ["GROUPS", "Entrant", "choose", "entrants"]

GROUPS: Mapping[str, str] = {
    "kernel": "kernels",
    "linear": "linear",
    "online": "one pass",
}
# Models that take part unless others are named: one of each kind, and none that is slow by nature.
_DEFAULT = ("rmm", "fisher", "ekm", "rmm-linear", "ekm-linear", "arow", "arow-full", "pa")


@dataclass(frozen=True)
class Entrant:
    """A classifier that takes part.

    Attributes
    ----------
    name : str
        What one types after ``--models``.
    title : str
        What the table prints.
    group : str
        With whom it is compared, one of :data:`GROUPS`.
    package : str
        The distribution it comes from.
    make : callable
        Makes the unfitted classifier.
    reference : bool
        Whether the others of the group are compared with it.
    """

    name: str
    title: str
    group: str
    package: str
    make: Callable[[], Any]
    reference: bool = False

    @property
    def ours(self) -> bool:
        """Whether it is of this library."""
        return self.package == "oblong"

    @property
    def version(self) -> str | None:
        """Version of the package, if it is known."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


class RiverPeer:
    """A learner of River behind the methods of scikit-learn: rows are dictionaries.

    Parameters
    ----------
    learner : object
        Learner of two classes.
    """

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def prepare(self, X: Any) -> list[dict[int, float]]:
        """Rows as River takes them; not part of the time."""
        if not sp.issparse(X):
            return [dict(enumerate(row)) for row in X.tolist()]
        X = sp.csr_matrix(X)
        bounds = zip(X.indptr[:-1], X.indptr[1:])
        return [dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist())) for a, b in bounds]

    def fit(self, rows: list[dict[int, float]], y: np.ndarray) -> RiverPeer:
        """Learn from the rows, one after the other."""
        learner, labels = self.learner.clone(), y.tolist()
        if len(set(labels)) > 2:
            learner = import_module("river.multiclass").OneVsRestClassifier(learner)
        else:
            labels = [bool(label) for label in labels]
        for x, label in zip(rows, labels):
            learner.learn_one(x, label)
        self.fitted = learner
        return self

    def predict(self, rows: list[dict[int, float]]) -> np.ndarray:
        """Predict the rows, one after the other."""
        return np.array([int(self.fitted.predict_one(x) or 0) for x in rows])


def _attribute(module: str, name: str, **parameters: Any) -> Callable[[], Any]:
    """A constructor in a module that is imported when it is needed."""
    return lambda: getattr(import_module(module), name)(**parameters)


def _river(name: str, **parameters: Any) -> Callable[[], Any]:
    return lambda: RiverPeer(_attribute("river.linear_model", name, **parameters)())


def _peers() -> list[Entrant]:
    sklearn, lightning = "scikit-learn", "sklearn-contrib-lightning"
    peers = [
        (
            "sklearn",
            Entrant("svc", "SVC", "kernel", sklearn, _attribute("sklearn.svm", "SVC"), True),
        ),
        (
            "sklearnex",
            Entrant(
                "intelex-svc",
                "SVC, intelex",
                "kernel",
                "scikit-learn-intelex",
                _attribute("sklearnex.svm", "SVC"),
            ),
        ),
        (
            "sklearn",
            Entrant(
                "linear-svc",
                "LinearSVC",
                "linear",
                sklearn,
                _attribute("sklearn.svm", "LinearSVC", random_state=0),
                True,
            ),
        ),
        (
            "lightning",
            Entrant(
                "lightning-cd",
                "lightning, CD",
                "linear",
                lightning,
                _attribute("lightning.classification", "CDClassifier", random_state=0),
            ),
        ),
        (
            "sklearn",
            Entrant(
                "sgd",
                "SGDClassifier",
                "online",
                sklearn,
                _attribute(
                    "sklearn.linear_model", "SGDClassifier", max_iter=1, tol=None, random_state=0
                ),
                True,
            ),
        ),
        (
            "lightning",
            Entrant(
                "lightning-adagrad",
                "lightning, AdaGrad",
                "online",
                lightning,
                _attribute(
                    "lightning.classification", "AdaGradClassifier", n_iter=1, random_state=0
                ),
            ),
        ),
        (
            "river",
            Entrant("river-pa", "River, PA", "online", "river", _river("PAClassifier", mode=1)),
        ),
    ]
    return [entrant for module, entrant in peers if find_spec(module) is not None]


def _online(name: str, **parameters: Any) -> Callable[[], Any]:
    kind = LEARNERS[name][0]
    return _attribute("oblong", kind, max_iter=1, tol=None, random_state=0, **parameters)


def _learners() -> list[Entrant]:
    found = []
    for name, (kind, _) in LEARNERS.items():
        if name in ("kernel-cw", "online-esvm"):
            # One has a kernel, and the other is registered as a model that is fitted to the end.
            continue
        title = name.upper()
        if "covariance" not in _attribute("oblong", kind)().get_params():
            found.append(Entrant(name, title, "online", "oblong", _online(name)))
            continue
        for suffix, shape in (("", "diag"), ("-full", "full")):
            make = _online(name, covariance=shape)
            found.append(Entrant(name + suffix, f"{title}, {shape}", "online", "oblong", make))
    return found


def _models() -> list[Entrant]:
    found = []
    for model in select(["all"]):
        if model.reference:
            # The support vector machine of scikit-learn, which is here already.
            continue
        group = "linear" if model.name.endswith(("-linear", "-online")) else "kernel"
        found.append(Entrant(model.name, model.title, group, "oblong", model.factory))
    return found


def entrants() -> list[Entrant]:
    """All that can take part, peers that are not installed left out."""
    found = [*_peers(), *_models(), *_learners()]
    return [entrant for group in GROUPS for entrant in found if entrant.group == group]


def choose(names: Sequence[str] | None = None) -> list[Entrant]:
    """Look up those who take part.

    Parameters
    ----------
    names : sequence of str, optional
        Names of classifiers and of groups, or ``"all"``; a few by default. The peers of the groups
        they belong to join, unless one of them is named itself.

    Raises
    ------
    ValueError
        If a name is not known.

    Examples
    --------
    >>> from oblong.cli.entrants import choose
    >>> [entrant.title for entrant in choose(["rmm", "svc"])]
    ['SVC', 'RMM']
    """
    known = entrants()
    by_name = {entrant.name: entrant for entrant in known}
    names = list(_DEFAULT if names is None else names)
    if "all" in names:
        names = [*by_name]
    for name in names:
        if name not in by_name and name not in GROUPS:
            words = [*GROUPS, *by_name]
            close = get_close_matches(name, words, n=1)
            hint = f" (did you mean {quote(close[0])}?)" if close else ""
            raise ValueError(f"no model {quote(name)}{hint}; there are {', '.join(words)}")
    wanted = {e.name for e in known if e.name in names or e.group in names}
    groups = {by_name[name].group for name in wanted}
    picked = any(not by_name[name].ours for name in names if name in by_name)
    for entrant in known:
        joins = entrant.reference or (not entrant.ours and not picked)
        if entrant.group in groups and joins:
            wanted.add(entrant.name)
    chosen = [entrant for entrant in known if entrant.name in wanted]
    return sorted(chosen, key=lambda e: ([*GROUPS].index(e.group), not e.reference, e.ours))
