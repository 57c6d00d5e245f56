"""Pairs of digits: the machines of one pair, and those that validation chooses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oblong.kernels import Kernel
from oblong.reproduction.rmm._grid import SPREADS, best_on_grid, first_least
from oblong.reproduction.rmm._machines import (
    Machines,
    fisher_machines,
    margin_machines,
    sigma_machines,
)
from oblong.reproduction.rmm._products import Products

__all__ = [
    "Chosen",
    "Trials",
    "choose_margin",
    "kernels_of",
    "predict_second",
    "splits_of",
    "try_all",
    "unit_rows",
]


@dataclass(frozen=True)
class Chosen:
    """The best setting of a method for one pair, and its mean validation error.

    ``family`` and ``position`` say which of the `Trials` it is; ``machine`` is the one of the
    last split with this setting.
    """

    kernel: Kernel
    parameters: dict[str, float]
    error: float
    machine: Machines
    family: str
    position: int

    def described(self) -> dict[str, float]:
        """Parameters for the record, the width of a Gaussian kernel included."""
        width = {"gamma": self.kernel.gamma} if self.kernel.name == "rbf" else {}
        return {**self.parameters, **width, "validation": self.error}


@dataclass(frozen=True)
class Trials:
    """All settings of a grid: their validation errors and their machines of the last split.

    The families are "margin" (SVM and RMM), "sigma" and "klda"; the settings of a family are in
    one order everywhere, kernel by kernel.
    """

    kernels: list[Kernel]
    grid: dict[str, Sequence[float]]
    spreads: Sequence[float]
    settings: dict[str, list[tuple[Kernel, dict[str, float]]]]
    errors: dict[str, np.ndarray]
    machines: dict[str, list[Machines]]

    def picks(self) -> dict[str, Chosen]:
        """Return the best setting of each method."""
        found = {}
        triples = [(p["C"], p["spread"]) for _, p in self.settings["margin"]]
        for method, among in (("svm", (1.0,)), ("rmm", tuple(self.spreads))):
            k = best_on_grid(self.errors["margin"], triples, among)
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
        error, machine = float(self.errors[family][k]), self.machines[family][k]
        return Chosen(kernel, parameters, error, machine, family, k)

    def predict_second(
        self, products: Products, y: np.ndarray, fitted: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """Say of each further row whether it is of the second class, by every setting.

        The machines are those of the last split, which were fitted to the rows ``fitted``; if
        it is None, all settings are fitted to all rows of the sample.
        """
        rows = np.arange(products.n) if fitted is None else fitted
        found: dict[str, list[np.ndarray]] = {family: [] for family in self.settings}
        for i, kernel in enumerate(self.kernels):
            if fitted is None:
                signs = np.where(y == 1, 1.0, -1.0)
                K = products.matrix(kernel, rows)
                families = _machines(K, signs, self.grid, self.settings, self.spreads)
            else:
                families = {family: self._own(family, i) for family in self.settings}
            every = _joined(families.values())
            seconds = products.outputs(kernel, rows, every.coef) > -every.bias[:, None]
            at = 0
            for family, own in families.items():
                found[family].append(seconds[at : at + len(own.bias)])
                at += len(own.bias)
        return {family: np.concatenate(parts) for family, parts in found.items()}

    def _own(self, family: str, kernel: int) -> Machines:
        """The machines of the last split with one of the kernels."""
        count = len(self.machines[family]) // len(self.kernels)
        return _joined(self.machines[family][kernel * count : (kernel + 1) * count])


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
    kernels: list[Kernel],
    products: Products,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    grid: dict[str, Sequence[float]],
    *,
    methods: Sequence[str] = ("svm", "rmm"),
    spreads: Sequence[float] = SPREADS,
) -> Trials:
    """Fit every setting of several methods and count its errors on the held-out rows.

    C for the SVM, C and the bound for the RMM (``penalties``), C and D for the Σ-SVM
    (``sigma_penalties``, ``shares``), and the ridge of the kernel Fisher discriminant
    (``ridges``). All take their kernel values from the same inner products.
    """
    settings: dict[str, list[tuple[Kernel, dict[str, float]]]] = {}
    for kernel in kernels:
        for family, parameters in _candidates(grid, methods, spreads).items():
            settings.setdefault(family, []).extend((kernel, one) for one in parameters)
    errors = {family: np.zeros(len(listed)) for family, listed in settings.items()}
    machines: dict[str, list[Machines]] = {}
    for train, held in splits:
        machines = {family: [] for family in settings}
        signs = np.where(y[train] == 1, 1.0, -1.0)
        for i, kernel in enumerate(kernels):
            found = _machines(products.matrix(kernel, train), signs, grid, settings, spreads)
            every = _joined(found.values())
            outputs = products.held_outputs(kernel, held, train, every.coef)
            wrong = (outputs + every.bias[:, None] > 0) != (y[held] == 1)
            rates, at = wrong.mean(axis=1) / len(splits), 0
            for family, own in found.items():
                count = len(own.bias)
                errors[family][i * count : (i + 1) * count] += rates[at : at + count]
                machines[family] += [own.take(k) for k in range(count)]
                at += count
    return Trials(kernels, grid, spreads, settings, errors, machines)


def _machines(
    K: np.ndarray,
    signs: np.ndarray,
    grid: dict[str, Sequence[float]],
    families: Iterable[str],
    spreads: Sequence[float],
) -> dict[str, Machines]:
    """Fit all settings of some families with one kernel matrix."""
    found = {"margin": margin_machines(K, signs, grid["penalties"], spreads)}
    if "sigma" in families:
        found["sigma"] = sigma_machines(K, signs, grid["sigma_penalties"], grid["shares"])
    if "klda" in families:
        found["klda"] = fisher_machines(K, signs, grid["ridges"])
    return found


def _joined(parts: Iterable[Machines]) -> Machines:
    return Machines(*(np.concatenate(arrays) for arrays in zip(*parts)))


def _candidates(
    grid: dict[str, Sequence[float]], methods: Sequence[str], spreads: Sequence[float]
) -> dict[str, list[dict[str, float]]]:
    """Parameters to try, in the order in which the machines are solved."""
    found = {"margin": [{"C": C, "spread": s} for C in grid["penalties"] for s in spreads]}
    if "sigma" in methods:
        shares, penalties = grid["shares"], grid["sigma_penalties"]
        found["sigma"] = [{"C": C, "D": D} for D in shares for C in penalties]
    if "klda" in methods:
        found["klda"] = [{"alpha": ridge} for ridge in grid["ridges"]]
    return found


def choose_margin(
    kernels: list[Kernel],
    products: Products,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    penalties: Sequence[float],
    spreads: Sequence[float] = SPREADS,
) -> tuple[Chosen, Chosen]:
    """Choose C for the SVM, and C and the bound for the RMM."""
    grid = {"penalties": penalties}
    picks = try_all(kernels, products, y, splits, grid, spreads=spreads).picks()
    return picks["svm"], picks["rmm"]


def predict_second(
    picks: dict[str, Chosen],
    products: Products,
    y: np.ndarray,
    fitted: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Say of each further row whether it is of the second class, by chosen SVMs and RMMs.

    They are fitted to all rows of the sample. Where the rows ``fitted`` of the choice are given,
    the support vector machine of those starts the search.
    """
    signs = np.where(y == 1, 1.0, -1.0)
    rows = np.arange(products.n)
    found: dict[str, np.ndarray] = {}
    for kernel in dict.fromkeys(pick.kernel for pick in picks.values()):
        own = {method: pick for method, pick in picks.items() if pick.kernel == kernel}
        machines = _fit(own, products.matrix(kernel, rows), signs, fitted)
        every = _joined(machines.values())
        found.update(
            zip(machines, products.outputs(kernel, rows, every.coef) > -every.bias[:, None])
        )
    return {method: found[method] for method in picks}


def _fit(
    picks: dict[str, Chosen], K: np.ndarray, signs: np.ndarray, fitted: np.ndarray | None
) -> dict[str, Machines]:
    """Fit the chosen settings of one kernel to all rows; those with the same C share the SVM."""
    machines: dict[str, Machines] = {}
    for C in dict.fromkeys(pick.parameters["C"] for pick in picks.values()):
        own = [method for method, pick in picks.items() if pick.parameters["C"] == C]
        spreads = [picks[method].parameters["spread"] for method in own]
        solved = margin_machines(K, signs, [C], spreads, _start(picks, own, signs, fitted))
        machines.update((method, solved.take(k)) for k, method in enumerate(own))
    return machines


def _start(
    picks: dict[str, Chosen], methods: list[str], signs: np.ndarray, fitted: np.ndarray | None
) -> np.ndarray | None:
    """Coefficients of the support vector machine of fewer rows, if it is among the choices."""
    if fitted is None or "svm" not in methods:
        return None
    start = np.zeros(len(signs))
    start[fitted] = picks["svm"].machine.coef[0]
    return start


def splits_of(
    rng: np.random.Generator, n: int, number: int, train: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random splits with this many training rows."""
    for _ in range(number):
        order = rng.permutation(n)
        yield order[:train], order[train:]
