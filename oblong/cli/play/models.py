"""What the page asks for, checked, and the fitted classifiers as numbers that it can draw."""

from __future__ import annotations

import base64
import math
import time
import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import oblong
from oblong.io.errors import first_line

# Cells of the grid along each side, on which decision functions are evaluated.
_GRID = 64
# Seconds after which an answer is sent with the models that are done; the page asks for the rest.
_PATIENCE = 0.01
MOST_POINTS, MOST_CLASSES, MOST_NUMBER = 2000, 6, 1e100
TOO_FEW = "add points of two classes"
_KERNELS = ("linear", "rbf", "poly")


class BadRequest(ValueError):
    """The page, or someone else, asked for what cannot be."""


class Setting(NamedTuple):
    """A slider: its label, its range, where it starts, and whether it is logarithmic."""

    label: str
    low: float
    high: float
    start: float
    log: bool = False


SETTINGS = {
    "C": Setting("Penalty C", 2.0**-7, 2.0**15, 1.0, log=True),
    "gamma": Setting("Kernel: gamma relative to “scale”", 2.0**-5, 2.0**7, 1.0, log=True),
    "spread": Setting("RMM: spread", 0.0, 1.0, 0.1),
    "D": Setting("Σ-SVM: D", 0.0, 0.99, 0.9),
    "coverage": Setting("Ellipsoids: coverage", 0.5, 1.0, 1.0),
    "nu": Setting("e-SVM: nu", 2.0**-7, 1.0, 0.25, log=True),
    "stretch": Setting("Stretch the data by", 2.0**-4, 2.0**4, 1.0, log=True),
    "angle": Setting("Direction, in degrees", 0.0, 180.0, 45.0),
}


@dataclass(frozen=True)
class State:
    """Points and settings of the page.

    Attributes
    ----------
    points : tuple of (x, y, class)
        The points, in the units in which they were added.
    models : tuple of str
        Names in `MODELS`.
    kernel : {"linear", "rbf", "poly"}
        Kernel of the batch classifiers.
    settings : tuple of float
        Values of `SETTINGS`, in their order.
    standardize : bool
        Whether columns are standardised after the stretch.
    """

    points: tuple[tuple[float, float, int], ...]
    models: tuple[str, ...]
    kernel: str
    settings: tuple[float, ...]
    standardize: bool

    @classmethod
    def from_json(cls, node: Any) -> State:
        """Check what came over the wire."""
        if not isinstance(node, dict):
            raise BadRequest("expected an object")
        points, names, kernel = (node.get(name) for name in ("points", "models", "kernel"))
        if not isinstance(points, list) or len(points) > MOST_POINTS:
            raise BadRequest(f"expected a list of at most {MOST_POINTS} points")
        for point in points:
            if not (isinstance(point, list) and len(point) == 3 and all(map(_is_finite, point))):
                raise BadRequest("expected points [x, y, class] of finite numbers")
            large = max(abs(point[0]), abs(point[1])) > MOST_NUMBER
            if large or point[2] not in range(MOST_CLASSES):
                raise BadRequest(f"expected classes 0 to {MOST_CLASSES - 1} and moderate numbers")
        if not isinstance(names, list) or not all(
            isinstance(n, str) and n in MODELS for n in names
        ):
            raise BadRequest(f"expected models among {', '.join(MODELS)}")
        if kernel not in _KERNELS:
            raise BadRequest(f"expected a kernel among {', '.join(_KERNELS)}")
        given = node.get("settings", {})
        if not isinstance(given, dict) or not set(given) <= set(SETTINGS):
            raise BadRequest(f"expected settings among {', '.join(SETTINGS)}")
        values = []
        for name, setting in SETTINGS.items():
            value = given.get(name, setting.start)
            if not (_is_finite(value) and setting.low <= value <= setting.high):
                raise BadRequest(f"expected {name} from {setting.low:g} to {setting.high:g}")
            values.append(float(value))
        return cls(
            points=tuple((float(x), float(y), int(label)) for x, y, label in points),
            models=tuple(name for name in MODELS if name in names),
            kernel=kernel,
            settings=tuple(values),
            standardize=node.get("standardize") is True,
        )

    def __getitem__(self, name: str) -> float:
        return self.settings[list(SETTINGS).index(name)]

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The points before the stretch, and their classes."""
        table = np.array(self.points, dtype=float).reshape(-1, 3)
        return table[:, :2], table[:, 2].astype(int)

    def map(self) -> np.ndarray:
        """The stretch as a symmetric matrix: a factor along one direction, one across it."""
        radians = math.radians(self["angle"])
        along = np.array([math.cos(radians), math.sin(radians)])
        return np.eye(2) + (self["stretch"] - 1.0) * np.outer(along, along)


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


class Model(NamedTuple):
    """A classifier of the page: its title, its group, its class, its sliders, and what is fixed."""

    title: str
    group: str
    kind: type
    sliders: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = {}

    def make(self, state: State, kernel: Mapping[str, Any]) -> Any:
        """The classifier with the settings of the page."""
        given = {"random_state": 0} if self.group == "online" else kernel
        given = {} if self.kind is oblong.MinimumVolumeEllipsoid else given
        return self.kind(**{name: state[name] for name in self.sliders}, **given, **self.fixed)


_RMM = oblong.RelativeMarginClassifier
MODELS = {
    "svm": Model("SVM", "batch", _RMM, ("C",), {"spread": 1.0}),
    "rmm": Model("RMM", "batch", _RMM, ("C", "spread")),
    "sigma": Model("Σ-SVM", "batch", oblong.SigmaSVC, ("C", "D")),
    "ekm": Model("EKM", "batch", oblong.EllipsoidalKernelClassifier, ("C", "coverage")),
    "esvm": Model("e-SVM", "batch", oblong.EllipsoidalSVC, ("nu",)),
    "bpm": Model("Bayes point", "batch", oblong.BayesPointClassifier, (), {"soft": 0.1}),
    "mve": Model("Ellipsoid per class", "batch", oblong.MinimumVolumeEllipsoid, ("coverage",)),
    "arow": Model("AROW", "online", oblong.AROWClassifier),
    "cw": Model("CW", "online", oblong.ConfidenceWeightedClassifier),
    "scw": Model("SCW", "online", oblong.SoftConfidenceWeightedClassifier, ("C",)),
    "nherd": Model("NHERD", "online", oblong.NormalHerdClassifier, ("C",)),
    "sop": Model("Second-order perceptron", "online", oblong.SecondOrderPerceptron),
    "pa": Model("PA-I", "online", oblong.PassiveAggressiveClassifier, ("C",), {"variant": 1}),
    "cellip": Model("CELLIP", "online", oblong.ClassicalEllipsoidClassifier),
    "iellip": Model("IELLIP", "online", oblong.ImprovedEllipsoidClassifier),
    "oesvm": Model("Online e-SVM", "online", oblong.OnlineEllipsoidalSVC),
}


def describe() -> dict[str, Any]:
    """What the page needs to build its controls."""
    return {
        "models": [[name, m.title, m.group, m.kind.__name__] for name, m in MODELS.items()],
        "settings": [[name, *each] for name, each in SETTINGS.items()],
        "most_points": MOST_POINTS,
        "most_classes": MOST_CLASSES,
    }


class _Prepared(NamedTuple):
    """Rows as a classifier sees them, its parameters of the kernel, and the way there."""

    rows: np.ndarray
    labels: np.ndarray
    kernel: dict[str, Any]
    transform: Callable[[np.ndarray], np.ndarray]


def prepare(state: State) -> _Prepared:
    """Stretch the points, standardise them if asked, and scale the kernel to them."""
    points, labels = state.arrays()
    stretch = state.map()
    rows = points @ stretch
    scaler = StandardScaler().fit(rows) if state.standardize else None

    def transform(given: np.ndarray) -> np.ndarray:
        given = given @ stretch
        return given if scaler is None else scaler.transform(given)

    rows = transform(points)
    kernel: dict[str, Any] = {"kernel": state.kernel}
    if state.kernel != "linear":
        # scikit-learn's "scale", of which the slider is a multiple.
        unit = 1.0 / (2.0 * rows.var() or 1.0)
        kernel |= {"gamma": float(f"{state['gamma'] * unit:.6g}")}
        kernel |= {"coef0": 1.0} if state.kernel == "poly" else {}
    return _Prepared(rows, labels, kernel, transform)


class _Fitted(NamedTuple):
    """Estimators (one, or an ellipsoid for each class), what went wrong, and the time."""

    estimators: tuple[Any, ...]
    message: str | None
    seconds: float


# Seconds that the first fit of each kind took more than the second: those of loading its code.
_loading: dict[tuple[str, str, bool], float] = {}
# Whatever a classifier makes of extreme numbers; a program error is none of them.
_FAILURES = (ValueError, ArithmeticError, np.linalg.LinAlgError)


# The same points before the stretch are asked for again and again while its slider moves.
@lru_cache(maxsize=64)
def _fitted(name: str, state: State) -> _Fitted:
    prepared = prepare(state)
    made = _fit_once(name, state, prepared)
    kind = (name, state.kernel, len(np.unique(prepared.labels)) > 2)
    if kind not in _loading and made.estimators:
        first, made = made.seconds, _fit_once(name, state, prepared)
        _loading[kind] = max(0.0, first - made.seconds)
    return made


def _fit_once(name: str, state: State, prepared: _Prepared) -> _Fitted:
    started = time.perf_counter()
    message = None
    with warnings.catch_warnings(
        record=True, action="always", category=ConvergenceWarning
    ) as caught:
        try:
            model = MODELS[name].make(state, prepared.kernel)
            if name == "mve":
                parts = (prepared.rows[prepared.labels == k] for k in np.unique(prepared.labels))
                estimators = tuple(clone(model).fit(part) for part in parts)
            else:
                estimators = (model.fit(prepared.rows, prepared.labels),)
        except _FAILURES as error:
            estimators, message = (), first_line(error)
    if message is None:
        # The warning itself speaks of parameters that the page does not have.
        stopped = any(issubclass(w.category, ConvergenceWarning) for w in caught)
        message = "The fit has not converged." if stopped else None
    return _Fitted(estimators, message, time.perf_counter() - started)


def fit(node: Any) -> dict[str, Any]:
    """Fit the models of a request and evaluate them on the grid of its view.

    Parameters
    ----------
    node : object
        The request: a `State` and ``view``, the corners ``[left, right, bottom, top]`` of the
        picture, in the units of the points or, if ``stretched`` is true, after the stretch.

    Returns
    -------
    dict
        ``grid``, the number of grid lines along each side, and for each model its fields: flat
        float32 arrays in base64, row by row from the bottom, that vanish on what is to be drawn.
        ``rest`` has the models for which there was no time, and ``delay`` is how many seconds went
        by with loading code, which happens before the first fit of a kind only.
    """
    state = State.from_json(node)
    view = node.get("view")
    if not (isinstance(view, list) and len(view) == 4 and all(map(_is_finite, view))):
        raise BadRequest("expected a view of four numbers")
    left, right, bottom, top = map(float, view)
    if not (left < right and bottom < top):
        raise BadRequest("expected a view with left < right and bottom < top")
    xx, yy = np.meshgrid(np.linspace(left, right, _GRID), np.linspace(bottom, top, _GRID))
    grid = np.column_stack([xx.ravel(), yy.ravel()])
    if node.get("stretched") is True:
        grid = grid @ np.linalg.inv(state.map())
    classes = {label for _, _, label in state.points}
    if len(classes) < 2:
        return {"grid": _GRID, "models": [], "rest": [], "delay": 0.0, "message": TOO_FEW}
    started, names = time.perf_counter(), list(state.models)
    loaded = sum(_loading.values())
    answers: list[dict[str, Any]] = []
    while names and (not answers or time.perf_counter() - started < _PATIENCE):
        # Products of the largest numbers overflow, and no model is drawn then.
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            answers.append(_answer(names.pop(0), state, grid))
    delay = sum(_loading.values()) - loaded
    return {"grid": _GRID, "models": answers, "rest": names, "delay": delay}


def _answer(name: str, state: State, grid: np.ndarray) -> dict[str, Any]:
    """A fitted model and what is drawn of it; what cannot be has a message instead."""
    try:
        fitted = _fitted(name, state)
        answer = {"name": name, "seconds": fitted.seconds, "message": fitted.message, "lines": {}}
        return answer | (_drawn(name, state, grid, fitted) if fitted.estimators else {})
    except _FAILURES:
        message = "cannot be drawn: the numbers are too large or too far apart"
        return {"name": name, "seconds": 0.0, "message": message, "lines": {}}


def _drawn(name: str, state: State, grid: np.ndarray, fitted: _Fitted) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    prepared = prepare(state)
    seen, model = prepared.transform(grid), fitted.estimators[0]
    lines: dict[str, list[np.ndarray]] = {}
    if name == "mve":
        lines["ellipsoid"] = [_outside(each, seen) for each in fitted.estimators]
        answer["gap"] = max(float(each.gap_) for each in fitted.estimators)
    else:
        outputs = np.asarray(model.decision_function(seen), dtype=float)
        lines["boundary"] = [outputs] if outputs.ndim == 1 else _boundaries(model, seen)
        if outputs.ndim == 1:
            lines["margin"] = [outputs - 1.0, outputs + 1.0]
            if name == "rmm":
                bound = answer["bound"] = float(model.B_[0])
                lines["bound"] = [outputs - bound, outputs + bound]
        if getattr(model, "ellipsoid_", None) is not None:
            lines["ellipsoid"] = [_outside(model.ellipsoid_, seen)]
        if (gaps := getattr(model, "dual_gap_", None)) is not None:
            answer["gap"] = float(np.max(gaps))
        answer["errors"] = int(np.sum(model.predict(prepared.rows) != prepared.labels))
        answer |= _turn(name, state, grid, outputs)
    # JSON has no infinite numbers: the page writes ∞ for a gap that is none.
    gap = {"gap": None} if "gap" in answer else {}
    answer = gap | {key: value for key, value in answer.items() if math.isfinite(value)}
    answer["lines"] = {kind: [_encode(field) for field in fields] for kind, fields in lines.items()}
    return answer


def _boundaries(model: Any, rows: np.ndarray) -> list[np.ndarray]:
    """Fields that vanish where the predicted class, of several, changes to or from each class."""
    chosen = np.searchsorted(model.classes_, model.predict(rows))
    classes, every = range(len(model.classes_)), np.arange(len(rows))
    # Distances from one class to another, symmetric: between outputs, or the output of the pair.
    params = model.get_params()
    if "decision_function_shape" in params and params.get("multi_class") != "ovr":
        pairs = copy(model).set_params(decision_function_shape="ovo").decision_function(rows)
        apart = np.full((len(rows), len(classes), len(classes)), np.inf)
        for k, (i, j) in enumerate(combinations(classes, 2)):
            apart[:, i, j] = apart[:, j, i] = np.abs(pairs[:, k])
    else:
        outputs = model.decision_function(rows)
        apart = np.abs(outputs[:, :, None] - outputs[:, None, :])
        apart[:, classes, classes] = np.inf
    # The last class borders only on the others.
    return [
        np.where(chosen == k, apart[:, k].min(axis=1), -apart[every, k, chosen])
        for k in classes[:-1]
    ]


def _outside(ellipsoid: Any, rows: np.ndarray) -> np.ndarray:
    return np.sqrt(ellipsoid.mahalanobis(rows)) - 1.0


def _turn(name: str, state: State, grid: np.ndarray, outputs: np.ndarray) -> dict[str, Any]:
    """How far the stretch moved a boundary: the fraction of the view, and the angle of a line."""
    start = list(state.settings)
    start[list(SETTINGS).index("stretch")] = 1.0
    plain = replace(state, settings=tuple(start))
    if plain == state:
        return {}
    before = _fitted(name, plain)
    if not before.estimators:
        return {}
    rows = prepare(plain).transform(grid)
    other = np.asarray(before.estimators[0].decision_function(rows), dtype=float)
    classes = [f > 0 if f.ndim == 1 else f.argmax(axis=1) for f in (outputs, other)]
    moved: dict[str, Any] = {"changed": float(np.mean(classes[0] != classes[1]))}
    if outputs.ndim == 1 and (state.kernel == "linear" or MODELS[name].group == "online"):
        # The outputs are affine functions of the points, so three corners have the slope.
        corners = grid[[0, _GRID - 1, -_GRID]]
        step = np.linalg.inv(corners[1:] - corners[0])
        w, v = (step @ (f[[_GRID - 1, -_GRID]] - f[0]) for f in (outputs, other))
        angle = math.atan2(w[0] * v[1] - w[1] * v[0], float(w @ v))
        moved["turned"] = abs(math.degrees(angle))
    return moved


def _encode(field: np.ndarray) -> str:
    # Far outside a flat ellipsoid distances are infinite.
    finite = np.nan_to_num(field, nan=1e30, posinf=1e30, neginf=-1e30).clip(-1e30, 1e30)
    return base64.b64encode(finite.astype("<f4").tobytes()).decode()
