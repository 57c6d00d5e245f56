"""Pairs of digits: the models of one pair, and those that validation chooses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oblong import RelativeMarginPath, relative_margin_path
from oblong_reproduction.rmm._grid import SPREADS, best_on_grid, first_least
from oblong_reproduction.rmm._models import Grid, decide, fit_all, settings_of
from oblong_reproduction.rmm._products import Kernel, Products


@dataclass(frozen=True)
class Chosen:
    """The best setting of a method for one pair, and its mean validation error.

    ``family`` and ``position`` say which of the `Trials` it is.
    """

    kernel: Kernel
    parameters: dict[str, float]
    error: float
    family: str
    position: int

    def described(self) -> dict[str, float]:
        """Parameters for the record, the width of a Gaussian kernel included."""
        width = {"gamma": self.kernel.gamma} if self.kernel.name == "rbf" else {}
        return {**self.parameters, **width, "validation": self.error}


@dataclass(frozen=True)
class Trials:
    """All settings of a grid, fitted to training parts of one sample.

    Attributes
    ----------
    settings : dict of str to list
        Kernel and parameters of each setting, by family, kernel by kernel; see `settings_of`.
    errors : dict of str to ndarray
        Mean validation errors of the settings.
    seconds : dict of str to ndarray of shape (n_settings, m)
        Which of the further rows each setting finds to be of the second class, by the models of
        the last training part; empty if they were not asked for.
    """

    settings: dict[str, list[tuple[Kernel, dict[str, float]]]]
    errors: dict[str, np.ndarray]
    seconds: dict[str, np.ndarray]

    def picks(self) -> dict[str, Chosen]:
        """Return the best setting of each method."""
        found = {}
        pairs = [(p["C"], p["spread"]) for _, p in self.settings["margin"]]
        for method, among in (("svm", (1.0,)), ("rmm", SPREADS)):
            k = best_on_grid(self.errors["margin"], pairs, among)
            found[method] = self._pick("margin", k)
        for method in ("sigma", "klda"):
            if method in self.settings:
                found[method] = self._pick(method, first_least(self.errors[method]))
        if "sigma" in found and found["sigma"].error >= found["svm"].error:
            # D = 0 is the support vector machine.
            same = {"C": found["svm"].parameters["C"], "D": 0.0}
            found["sigma"] = replace(found["svm"], parameters=same)
        return found

    def _pick(self, family: str, k: int) -> Chosen:
        kernel, parameters = self.settings[family][k]
        return Chosen(kernel, parameters, float(self.errors[family][k]), family, k)


def unit_rows(X: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """Rows of length one."""
    X = np.asarray(X, dtype=dtype)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def kernels_of(name: str, X: np.ndarray, scales: Sequence[float]) -> list[Kernel]:
    """Kernels to choose from: a polynomial, or Gaussians of several widths.

    For rows of length one ``(1 + u·v)^d`` has the diagonal ``2^d``: divided by it, the trace of
    every kernel matrix is its number of rows, as the paper asks.
    """
    if name.startswith("poly"):
        return [Kernel("poly", gamma=0.5, degree=int(name[4:]), coef0=0.5)]
    some = X[:: max(1, len(X) // 500)].astype(float)
    squares = 2.0 - 2.0 * (some @ some.T)
    median = float(np.median(squares[np.triu_indices(len(some), 1)]))
    return [Kernel("rbf", gamma=scale / median) for scale in scales]


def try_all(
    kernels: Sequence[Kernel],
    products: Products,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    grid: Grid,
    *,
    methods: Sequence[str] = ("svm", "rmm"),
    spreads: Sequence[float] = SPREADS,
    further: bool = False,
) -> Trials:
    """Fit every setting of several methods and count its errors on the held-out rows.

    C for the SVM, C and the bound for the RMM, C and D for the Σ-SVM, and the ridge of the
    kernel Fisher discriminant. With ``further`` the models of the last split also classify the
    further rows. All take their kernel values from the same inner products.
    """
    settings: dict[str, list[tuple[Kernel, dict[str, float]]]] = {}
    rates: dict[str, list[np.ndarray]] = {}
    seconds: dict[str, list[np.ndarray]] = {}
    for kernel in kernels:
        for family, parameters in settings_of(grid, methods, spreads).items():
            settings.setdefault(family, []).extend((kernel, one) for one in parameters)
            rates.setdefault(family, []).append(np.zeros(len(parameters)))
        for train, held in splits:
            models = fit_all(products.matrix(kernel, train), y[train], grid, methods, spreads)
            for family, found in decide(models, products.held(kernel, held, train)).items():
                rates[family][-1] += (found != (y[held] == 1)).mean(axis=1) / len(splits)
        if further:
            for family, found in decide(models, products.further(kernel, train)).items():
                seconds.setdefault(family, []).append(found)
    return Trials(
        settings,
        {family: np.concatenate(parts) for family, parts in rates.items()},
        {family: np.concatenate(parts) for family, parts in seconds.items()},
    )


def vote_all(
    kernels: Sequence[Kernel],
    products: Products,
    y: np.ndarray,
    grid: Grid,
    *,
    methods: Sequence[str] = ("svm", "rmm"),
    spreads: Sequence[float] = SPREADS,
) -> dict[str, np.ndarray]:
    """Fit every setting to all rows and say which further rows are of the second class."""
    rows = np.arange(products.n)
    found: dict[str, list[np.ndarray]] = {}
    for kernel in kernels:
        models = fit_all(products.matrix(kernel, rows), y, grid, methods, spreads)
        for family, seconds in decide(models, products.further(kernel, rows)).items():
            found.setdefault(family, []).append(seconds)
    return {family: np.concatenate(parts) for family, parts in found.items()}


def predict_chosen(
    picks: dict[str, Chosen], products: Products, y: np.ndarray
) -> dict[str, np.ndarray]:
    """Say of each further row whether it is of the second class, by chosen SVMs and RMMs.

    They are fitted to all rows of the sample; those with the same kernel and C share a path.
    """
    rows = np.arange(products.n)
    found: dict[str, np.ndarray] = {}
    for kernel in dict.fromkeys(pick.kernel for pick in picks.values()):
        K = products.matrix(kernel, rows)
        own = {method: pick.parameters for method, pick in picks.items() if pick.kernel == kernel}
        models: dict[float, list[RelativeMarginPath]] = {}
        for C in dict.fromkeys(parameters["C"] for parameters in own.values()):
            spreads = [p["spread"] for p in own.values() if p["C"] == C]
            models[C] = [relative_margin_path(K, y, spreads=spreads, C=C, kernel="precomputed")]
        for C, seconds in decide(models, products.further(kernel, rows)).items():
            found.update(zip((m for m, p in own.items() if p["C"] == C), seconds))
    return {method: found[method] for method in picks}


def splits_of(
    rng: np.random.Generator, n: int, number: int, train: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random splits with this many training rows."""
    for _ in range(number):
        order = rng.permutation(n)
        yield order[:train], order[train:]
