"""Pairs of digits: the machines of one pair, chosen by validation, and the votes of all pairs."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from oblong.kernels import Kernel
from oblong.reproduction._experiment import Results
from oblong.reproduction.rmm._grid import SPREADS, best_on_grid
from oblong.reproduction.rmm._machines import (
    Machines,
    fisher_machines,
    margin_machines,
    sigma_machines,
)
from oblong.reproduction.rmm._products import Products

__all__ = [
    "PAIRS",
    "Chosen",
    "choose",
    "choose_margin",
    "kernels_of",
    "pack",
    "predict_second",
    "splits_of",
    "unit_rows",
    "votes_to_errors",
]

PAIRS = tuple(combinations(range(10), 2))


@dataclass(frozen=True)
class Chosen:
    """The best setting of a method for one pair, and its mean validation error.

    ``machine`` is the one of the last split with this setting.
    """

    method: str
    kernel: Kernel
    parameters: dict[str, float]
    error: float
    machine: Machines

    def described(self) -> dict[str, float]:
        """Parameters for the record, the width of a Gaussian kernel included."""
        width = {"gamma": self.kernel.gamma} if self.kernel.name == "rbf" else {}
        return {**self.parameters, **width, "validation": self.error}


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


def choose(
    kernels: list[Kernel],
    products: Products,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    grid: dict[str, Sequence[float]],
    *,
    methods: Sequence[str] = ("svm", "rmm"),
    spreads: Sequence[float] = SPREADS,
) -> dict[str, Chosen]:
    """Choose the parameters of several methods by their errors on the held-out rows.

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
            K = products.matrix(kernel, train)
            found = {"margin": margin_machines(K, signs, grid["penalties"], spreads)}
            if "sigma" in settings:
                found["sigma"] = sigma_machines(K, signs, grid["sigma_penalties"], grid["shares"])
            if "klda" in settings:
                found["klda"] = fisher_machines(K, signs, grid["ridges"])
            every = Machines(*(np.concatenate(parts) for parts in zip(*found.values())))
            outputs = products.held_outputs(kernel, held, train, every.coef)
            wrong = (outputs + every.bias[:, None] > 0) != (y[held] == 1)
            rates, at = wrong.mean(axis=1) / len(splits), 0
            for family, own in found.items():
                count = len(own.bias)
                errors[family][i * count : (i + 1) * count] += rates[at : at + count]
                machines[family] += [own.take(k) for k in range(count)]
                at += count

    def pick(method: str, family: str, k: int) -> Chosen:
        kernel, parameters = settings[family][k]
        return Chosen(method, kernel, parameters, float(errors[family][k]), machines[family][k])

    picks = {}
    triples = [(p["C"], p["spread"], kernel) for kernel, p in settings["margin"]]
    for method, among in (("svm", (1.0,)), ("rmm", tuple(spreads))):
        picks[method] = pick(method, "margin", best_on_grid(errors["margin"], triples, among))
    for method in ("sigma", "klda"):
        if method in settings:
            picks[method] = pick(method, method, int(np.argmin(np.round(errors[method], 9))))
    if "sigma" in picks and picks["sigma"].error >= picks["svm"].error:
        # D = 0 is the support vector machine.
        same = {"C": picks["svm"].parameters["C"], "D": 0.0}
        picks["sigma"] = replace(picks["svm"], method="sigma", parameters=same)
    return picks


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
    picks = choose(kernels, products, y, splits, {"penalties": penalties}, spreads=spreads)
    return picks["svm"], picks["rmm"]


def predict_second(
    picks: dict[str, Chosen],
    products: Products,
    y: np.ndarray,
    fitted: np.ndarray | None = None,
    *,
    refit: bool = True,
) -> dict[str, np.ndarray]:
    """Say of each further row whether it is of the second class, by each chosen setting.

    The machines are fitted to all rows of the sample; with ``refit=False`` they are those of
    the choice, which were fitted to the rows ``fitted``. Where these are known, their support
    vector machines start the search.
    """
    signs = np.where(y == 1, 1.0, -1.0)
    rows = np.arange(products.n) if refit else fitted
    found: dict[str, np.ndarray] = {}
    for kernel in dict.fromkeys(pick.kernel for pick in picks.values()):
        own = {method: pick for method, pick in picks.items() if pick.kernel == kernel}
        if refit:
            machines = _fit(own, products.matrix(kernel, rows), signs, fitted)
        else:
            machines = {method: pick.machine for method, pick in own.items()}
        every = Machines(*(np.concatenate(parts) for parts in zip(*machines.values())))
        outputs = products.outputs(kernel, rows, every.coef) + every.bias[:, None]
        found.update(zip(machines, outputs > 0))
    return {method: found[method] for method in picks}


def _fit(
    picks: dict[str, Chosen], K: np.ndarray, signs: np.ndarray, fitted: np.ndarray | None
) -> dict[str, Machines]:
    """Fit the chosen settings of one kernel to all rows; those with the same C share the SVM."""
    machines: dict[str, Machines] = {}
    margins: dict[str, tuple[float, float]] = {}
    for method, pick in picks.items():
        p = pick.parameters
        if method == "klda":
            machines[method] = fisher_machines(K, signs, [p["alpha"]])
        elif method == "sigma" and p["D"] > 0.0:
            machines[method] = sigma_machines(K, signs, [p["C"]], [p["D"]])
        else:
            margins[method] = (p["C"], p.get("spread", 1.0))
    for C in dict.fromkeys(C for C, _ in margins.values()):
        own = [method for method in margins if margins[method][0] == C]
        spreads = [margins[method][1] for method in own]
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


def pack(bits: np.ndarray) -> str:
    """Write yes and no as text."""
    return base64.b85encode(np.packbits(bits).tobytes()).decode()


def _unpack(text: str, size: int) -> np.ndarray:
    return np.unpackbits(np.frombuffer(base64.b85decode(text), np.uint8), count=size).astype(bool)


def votes_to_errors(results: Results, method: str) -> int | None:
    """Errors of the majority vote of all 45 pairs, ties at random; None if a pair is missing."""
    cells = {tuple(cell["pair"]): cell for cell in results}
    if set(cells) != set(PAIRS) or any(f"{method}_votes" not in cell for cell in cells.values()):
        return None
    size = cells[PAIRS[0]]["test_rows"]
    votes = np.zeros((size, 10))
    truth = np.full(size, 9)
    for (a, b), cell in cells.items():
        second = _unpack(cell[f"{method}_votes"], size)
        votes[~second, a] += 1
        votes[second, b] += 1
        truth[_unpack(cell["first"], size)] = a
    # A number below one parts ties and nothing else.
    votes += np.random.default_rng(0).uniform(size=votes.shape)
    return int(np.sum(votes.argmax(axis=1) != truth))


def splits_of(
    rng: np.random.Generator, n: int, number: int, train: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random splits with this many training rows."""
    for _ in range(number):
        order = rng.permutation(n)
        yield order[:train], order[train:]
