"""What is timed: classifiers of the library, and peers that are installed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from oblong import online
from oblong._core.text import no_such
from oblong.cli.comparison.models import trainable
from oblong.cli.streaming.learners import LEARNERS

GROUPS = ("kernel", "linear", "online")
# Timed unless others are named: one of each kind, and none that is slow by nature.
_DEFAULT = ("rmm", "fisher", "ekm", "rmm-linear", "ekm-linear", "arow", "pa")
# Models of a comparison that are peers or learners here.
_THERE = ("logistic", "arow")
# One pass over the rows, for learners that would make several.
_ONCE: dict[str, Any] = {"max_iter": 1, "tol": None, "random_state": 0}


@dataclass(frozen=True)
class Contender:
    """A classifier to be timed; `reference` is what its group is compared with."""

    name: str
    title: str
    group: str
    package: str
    make: Callable[[], Any]
    reference: bool = False


def _lazy(module: str, name: str, **parameters: Any) -> Callable[[], Any]:
    """A constructor in a module that is imported when it is needed."""
    return lambda: getattr(import_module(module), name)(**parameters)


def _peers() -> list[Contender]:
    liblinear = _lazy("sklearn.svm", "LinearSVC", random_state=0)
    sgd = _lazy("sklearn.linear_model", "SGDClassifier", **_ONCE)
    descent = _lazy("lightning.classification", "CDClassifier", random_state=0)
    peers = [
        Contender("svc", "SVC", "kernel", "sklearn", _lazy("sklearn.svm", "SVC"), True),
        Contender("linear-svc", "LinearSVC", "linear", "sklearn", liblinear, True),
        Contender("sgd", "SGDClassifier", "online", "sklearn", sgd, True),
        Contender(
            "intelex-svc", "SVC, intelex", "kernel", "sklearnex", _lazy("sklearnex.svm", "SVC")
        ),
        Contender("lightning-cd", "CDClassifier, lightning", "linear", "lightning", descent),
    ]
    return [peer for peer in peers if find_spec(peer.package)]


def contenders() -> list[Contender]:
    """All classifiers that can be timed here, by group, its reference first."""
    found = _peers()
    # The reference among the models is scikit-learn's SVC, which is there already.
    for model in trainable():
        if model.name not in _THERE and not model.reference:
            group = "linear" if model.name.endswith(("-linear", "-online")) else "kernel"
            found.append(Contender(model.name, model.title, group, "oblong", model.factory))
    for name, (kind, _) in LEARNERS.items():
        if "kernel" not in name and "svm" not in name:
            diagonal = "covariance" in getattr(online, kind)().get_params()
            options = _ONCE | ({"covariance": "diag"} if diagonal else {})
            make = _lazy("oblong", kind, **options)
            found.append(Contender(name, name.upper(), "online", "oblong", make))
    return sorted(found, key=lambda c: (GROUPS.index(c.group), not c.reference))


def choose(names: Sequence[str] | None = None) -> list[Contender]:
    """Look up classifiers and groups by name, a few by default; references join.

    Examples
    --------
    >>> from oblong.cli.timing.contenders import choose
    >>> [contender.title for contender in choose(["rmm"])]
    ['SVC', 'RMM']
    """
    known = {contender.name: contender for contender in contenders()}
    if names is None:
        names = [*_DEFAULT, *(c.name for c in known.values() if c.package != "oblong")]
    for name in names:
        if name not in (*known, *GROUPS, "all"):
            raise ValueError(no_such("model", name, [*GROUPS, *known]))
    named = [c for c in known.values() if {c.name, c.group, "all"} & set(names)]
    groups = {c.group for c in named}
    return [c for c in known.values() if c in named or (c.reference and c.group in groups)]
