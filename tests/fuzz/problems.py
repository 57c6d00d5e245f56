"""Random problems: one estimator with its parameters and its rows, made from one seed.

The rows are what users bring: raw units, columns far from the origin, constant and duplicated
ones, label noise, single precision, sparse matrices, weights.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

# Estimators, and the share each has in a run.
ESTIMATORS = {
    "RelativeMarginClassifier": 6,
    "LinearRelativeMarginClassifier": 3,
    "SigmaSVC": 2,
    "UniversumSVC": 2,
    "KernelFisherClassifier": 2,
    "EllipsoidalKernelClassifier": 2,
    "EllipsoidalSVC": 2,
    "MinimumVolumeEllipsoid": 3,
    "relative_margin_path": 1,
    "RelativeMarginClassifierCV": 1,
    "OnlineEllipsoidalSVC": 1,
    "MarginRegressor": 2,
}


@dataclass
class Problem:
    """What to fit, to what."""

    estimator: str
    seed: int
    params: dict[str, Any]
    X: Any
    y: np.ndarray | None
    fit_params: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        kind = "CSR" if sp.issparse(self.X) else "dense"
        fit = ", ".join(self.fit_params)
        return f"{self.estimator} {self.X.shape} {self.X.dtype} {kind} {self.params} {fit}".strip()


def make(estimator: str, seed: int) -> Problem:
    """Make problem number ``seed`` of an estimator."""
    rng = np.random.default_rng([seed, zlib.crc32(estimator.encode())])
    return _MAKERS[estimator](estimator, seed, rng)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10.0 ** rng.uniform(low, high))


def _pick(rng: np.random.Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _rows(
    rng: np.random.Generator, n_classes: int = 2, most: int = 120, large: float = 0.02
) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows in double precision, and their labels."""
    d = int(np.ceil(_log_uniform(rng, 0.0, np.log10(30.0))))
    if rng.random() < large:
        n = int(rng.integers(2100, 3001))
        d = min(d, 12)
    elif rng.random() < 0.25:
        n = int(rng.integers(max(2, n_classes), 13))
    else:
        n = int(rng.integers(13, most + 1))
    labels = rng.integers(n_classes, size=n)
    labels[:n_classes] = np.arange(n_classes)
    X = rng.normal(size=(n, d)) + rng.normal(size=(n_classes, d))[labels] * rng.choice([0, 1, 2])
    if rng.random() < 0.2:
        X = np.round(X)
    if rng.random() < 0.3:
        X[:, rng.integers(d)] = rng.normal()
    if rng.random() < 0.25:
        copies = rng.integers(n, size=n // 2)
        X[rng.integers(n, size=n // 2)] = X[copies]
    if rng.random() < 0.15:
        X[n - n // 3 :] = X[: n // 3] + 1e-9 * rng.normal(size=(n // 3, d))
    if rng.random() < 0.3:
        noisy = rng.random(n) < 0.15
        noisy[:n_classes] = False
        labels[noisy] = rng.integers(n_classes, size=int(noisy.sum()))
    reach = rng.choice([0.0, 0.0, 1.0, 4.0, 8.0])
    X *= 10.0 ** rng.uniform(-reach, reach, size=1 if rng.random() < 0.3 else d)
    offset = rng.choice([0.0, 0.0, 0.0, 1.0, 1e3, 1e6, 1e9])
    if offset:
        # Some columns by their own scale, some as they are.
        relative = np.where(rng.random(d) < 0.5, X.std(axis=0), 1.0)
        X += offset * relative * (rng.random(d) < 0.5)
    return X, labels


def _dress(rng: np.random.Generator, X: np.ndarray, sparse: bool = True) -> Any:
    """Choose the precision and the container."""
    if rng.random() < 0.35:
        X = X.astype(np.float32)
    if sparse and rng.random() < 0.2:
        X = sp.csr_matrix(np.where(rng.random(X.shape) < 0.5, X, 0).astype(X.dtype))
    return X


def _weights(rng: np.random.Generator, labels: np.ndarray) -> dict[str, Any]:
    if rng.random() > 0.25:
        return {}
    weight = rng.uniform(0.1, 3.0, size=len(labels)).round(3)
    weight[rng.random(len(labels)) < 0.1] = 0.0
    # No class without a row.
    _, first = np.unique(labels, return_index=True)
    weight[first] = 1.0
    return {"sample_weight": weight}


def _class_weight(rng: np.random.Generator) -> dict[str, Any]:
    return {"class_weight": "balanced"} if rng.random() < 0.15 else {}


def _kernel(rng: np.random.Generator, indefinite: bool = False) -> dict[str, Any]:
    names = ["linear", "linear", "rbf", "rbf", "poly", "precomputed"]
    name = _pick(rng, *names, *(["sigmoid"] if indefinite else []))
    params: dict[str, Any] = {"kernel": name}
    if name in ("rbf", "poly", "sigmoid"):
        params["gamma"] = _pick(rng, "scale", "scale", "auto", _log_uniform(rng, -3, 2))
    if name == "poly":
        params |= {"degree": int(rng.integers(1, 5)), "coef0": _pick(rng, 0.0, 1.0, 1.0)}
    if name == "sigmoid":
        params["coef0"] = _pick(rng, 0.0, -1.0)
    return params


def _penalty(rng: np.random.Generator) -> float:
    return _log_uniform(rng, -6, 6) if rng.random() < 0.5 else _log_uniform(rng, -1, 3)


def _tolerance(rng: np.random.Generator) -> dict[str, Any]:
    return _pick(rng, {}, {}, {}, {"tol": 1e-5}, {"tol": 1e-8})


def _bound(rng: np.random.Generator) -> dict[str, Any]:
    form = rng.integers(5)
    if form == 0:
        return {"B": _pick(rng, 1.0, 1.01, 1.0 + _log_uniform(rng, -2, 1))}
    if form <= 2:
        return {"spread": _pick(rng, 0.0, 0.05, 0.5, 0.5, 1.0)}
    D = _log_uniform(rng, -3, 3)
    return {"D": D} if form == 3 else {"D": D, "nu": _log_uniform(rng, -0.3, 2)}


def _gram(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """A kernel matrix that is positive semidefinite but for rounding."""
    Z = X - X.mean(axis=0)
    Z /= np.abs(Z).max() or 1.0
    G = Z @ Z.T
    return (
        G
        if rng.random() < 0.5
        else np.exp(-0.5 * np.maximum(G.diagonal()[:, None] + G.diagonal() - 2 * G, 0))
    )


def _prepared(
    rng: np.random.Generator, params: dict[str, Any], X: np.ndarray, sparse: bool = True
) -> Any:
    if params.get("kernel") == "precomputed":
        return _gram(rng, X[:500])
    return _dress(rng, X, sparse)


def _classes(rng: np.random.Generator) -> int:
    return _pick(rng, 2, 2, 2, 3, 4)


def _relative_margin(name: str, seed: int, rng: np.random.Generator) -> Problem:
    many = seed % 25 == 24
    X, y = _rows(rng, 12, most=1500, large=0.0) if many else _rows(rng, _classes(rng))
    bound = _bound(rng)
    params = {"C": _penalty(rng), **bound, **_class_weight(rng), **_tolerance(rng)}
    params |= _kernel(rng, indefinite=bound.get("spread") == 1.0)
    X = _prepared(rng, params, X)
    y = y[: X.shape[0]]
    return Problem(name, seed, params, X, y, _weights(rng, y))


def _linear(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng, _classes(rng))
    params = {"C": _penalty(rng), **_bound(rng), **_class_weight(rng)}
    params |= _pick(rng, {}, {}, {}, {"tol": 1e-6}, {"fit_intercept": False})
    params |= _pick(rng, {}, {}, {}, {"solver": "descent"})
    return Problem(name, seed, params, _dress(rng, X), y, _weights(rng, y))


def _path(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng)
    params = {"C": _penalty(rng), **_kernel(rng), **_class_weight(rng), **_tolerance(rng)}
    params["spreads"] = _pick(rng, (1.0, 0.5, 0.1, 0.0), (0.3,), (0.0, 1.0))
    X = _prepared(rng, params, X)
    y = y[: X.shape[0]]
    return Problem(name, seed, params, X, y, _weights(rng, y))


def _cross_validated(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng, large=0.0)
    y = np.concatenate([y, y])
    X = np.concatenate([X, X + X.std(axis=0) * rng.normal(size=X.shape)])
    params = {"Cs": (_penalty(rng), _penalty(rng)), "spreads": (1.0, 0.3), "cv": 2}
    kernel = _kernel(rng)
    if "gamma" in kernel:
        kernel["gammas"] = (kernel.pop("gamma"),)
    params |= kernel
    return Problem(name, seed, params, _prepared(rng, params, X), y, {})


def _sigma(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng, _classes(rng))
    params = {"C": _penalty(rng), **_kernel(rng), **_class_weight(rng), **_tolerance(rng)}
    params["D"] = _pick(rng, 0.0, 1e-4, 0.5, 0.5, 0.9, 0.999, 1 - 1e-6)
    if rng.random() < 0.1:
        params["rank"] = int(rng.integers(1, 20))
    X = _prepared(rng, params, X)
    y = y[: X.shape[0]]
    return Problem(name, seed, params, X, y, _weights(rng, y))


def _universum(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng, 3)
    params = {"C": _penalty(rng), **_kernel(rng), **_class_weight(rng), **_tolerance(rng)}
    params |= {"C_universum": _log_uniform(rng, -3, 3), "epsilon": _pick(rng, 0.0, 0.1, 0.5)}
    if params["kernel"] == "precomputed":
        X = _gram(rng, X[:500])
        y = y[: len(X)] % 2
        return Problem(name, seed, params, X, y, _weights(rng, y))
    X = _dress(rng, X)
    # The third class belongs to nobody.
    universum, own = X[y == 2], X[y < 2]
    y = y[y < 2]
    return Problem(name, seed, params, own, y, {"X_universum": universum, **_weights(rng, y)})


def _fisher(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng, _classes(rng))
    params = {"alpha": _log_uniform(rng, -6, 6), **_kernel(rng)}
    X = _prepared(rng, params, X)
    y = y[: X.shape[0]]
    return Problem(name, seed, params, X, y, _weights(rng, y))


def _shape(rng: np.random.Generator) -> dict[str, Any]:
    form = rng.integers(4)
    if form == 0:
        return {"coverage": _pick(rng, 0.95, 0.8, 0.5, 0.0)}
    if form == 1:
        return {"E": _log_uniform(rng, -3, 2)}
    return {} if rng.random() < 0.8 else {"center": False}


def _ellipsoid(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng)
    params = _shape(rng) | _pick(rng, {}, {}, {}, {"tol": 1e-9}, {"tol": 1e-3})
    if rng.random() < 0.2:
        params |= _kernel(rng)
        params["rank"] = int(rng.integers(1, 8))
    X = _prepared(rng, params, X, sparse=False)
    return Problem(name, seed, params, X, None, _weights(rng, y[: len(X)]))


def _ellipsoidal_kernel(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng, _classes(rng))
    params = {"C": _log_uniform(rng, -3, 5), **_shape(rng), **_kernel(rng), **_tolerance(rng)}
    params |= _class_weight(rng)
    if rng.random() < 0.15:
        params["shape"] = _pick(rng, "covariance", "none")
    X = _prepared(rng, params, X)
    y = y[: X.shape[0]]
    return Problem(name, seed, params, X, y, _weights(rng, y))


def _ellipsoidal_svc(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng, large=0.01)
    params = {"nu": _log_uniform(rng, -2, 0), "r": _pick(rng, 0.5, 0.9, 0.99, 0.999, 1 - 1e-6)}
    params |= {"margin": _pick(rng, "soft", "soft", "hard")}
    params |= {"formulation": _pick(rng, "consistent", "consistent", "paper")}
    params |= _pick(rng, {}, {}, {"fit_intercept": False}, {"normalize": True})
    params |= _kernel(rng) | _class_weight(rng)
    if params["kernel"] == "precomputed":
        params.pop("normalize", None)
    if params["kernel"] != "linear":
        # Each of its steps costs the cube of the rows.
        X = X[:600]
    X = _prepared(rng, params, X)
    y = y[: X.shape[0]]
    return Problem(name, seed, params, X, y, _weights(rng, y))


def _online(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, y = _rows(rng, large=0.0)
    params = {"nu": _log_uniform(rng, -2, 0), "random_state": seed, "max_iter": 200}
    params |= {"formulation": _pick(rng, "consistent", "consistent", "paper")}
    params |= _pick(rng, {}, {"average": False}, {"fit_intercept": False})
    return Problem(name, seed, params, _dress(rng, X), y, _weights(rng, y))


def _regression(name: str, seed: int, rng: np.random.Generator) -> Problem:
    X, labels = _rows(rng)
    y = labels + rng.normal(size=len(labels)) * rng.choice([0.0, 0.1, 1.0])
    y = y * _log_uniform(rng, -4, 4) + rng.choice([0.0, 0.0, 1.0, 1e3, 1e6])
    params = {"C": _penalty(rng), **_kernel(rng), **_tolerance(rng)}
    scale = float(y.std()) or 1.0
    if rng.random() < 0.5:
        params["epsilon"] = _pick(rng, 0.0, 0.1 * scale, scale)
    else:
        params |= {"loss": "quantile", "quantile": _pick(rng, 0.5, 0.9, 0.05)}
        if rng.random() < 0.3:
            room = scale * _pick(rng, 0.01, 1.0)
            params["bounds"] = (float(y.min()) - room, float(y.max()) + room)
    X = _prepared(rng, params, X)
    y = y[: X.shape[0]]
    return Problem(name, seed, params, X, y, _weights(rng, labels[: len(y)]))


_MAKERS = {
    "RelativeMarginClassifier": _relative_margin,
    "LinearRelativeMarginClassifier": _linear,
    "SigmaSVC": _sigma,
    "UniversumSVC": _universum,
    "KernelFisherClassifier": _fisher,
    "EllipsoidalKernelClassifier": _ellipsoidal_kernel,
    "EllipsoidalSVC": _ellipsoidal_svc,
    "MinimumVolumeEllipsoid": _ellipsoid,
    "relative_margin_path": _path,
    "RelativeMarginClassifierCV": _cross_validated,
    "OnlineEllipsoidalSVC": _online,
    "MarginRegressor": _regression,
}
