"""Pairs of digits: the machines of one pair, chosen by validation, and the votes of all pairs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from oblong import (
    KernelFisherClassifier,
    RelativeMarginPath,
    SigmaSVC,
    relative_margin_path,
)
from oblong.kernels import Kernel
from oblong.reproduction._experiment import Results
from oblong.reproduction.rmm._grid import SPREADS, best_on_grid

__all__ = [
    "PAIRS",
    "Chosen",
    "choose_fisher",
    "choose_margin",
    "choose_sigma",
    "fit_chosen",
    "kernels_of",
    "pack",
    "splits_of",
    "unit_rows",
    "votes_to_errors",
]

PAIRS = tuple(combinations(range(10), 2))
# Rows of which outputs are computed at once.
_CHUNK = 2000
# Up to this many rows a kernel matrix in double precision is made once and shared.
_SHARED = 3000

Outputs = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Chosen:
    """The best setting of a method for one pair, and its mean validation error."""

    method: str
    kernel: Kernel
    parameters: dict[str, float]
    error: float

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


def _paths(
    kernel: Kernel, X: np.ndarray, y: np.ndarray, held: np.ndarray
) -> tuple[Callable[..., RelativeMarginPath], np.ndarray]:
    """What fits the machines of one kernel, and the held-out rows in the form that they take."""
    if len(X) <= _SHARED:
        matrix, rows, options = kernel(X.astype(float)), kernel(held, X), {"kernel": "precomputed"}
    else:
        matrix, rows = X, held
        names = ("gamma", "degree", "coef0")
        options = {"kernel": kernel.name, **{name: getattr(kernel, name) for name in names}}
        options["cache_size"] = 2048

    def path_of(C: float, spreads: Sequence[float]) -> RelativeMarginPath:
        return relative_margin_path(matrix, y, spreads=spreads, C=C, **options)

    return path_of, rows


def choose_margin(
    kernels: list[Kernel],
    X: np.ndarray,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    penalties: Sequence[float],
    spreads: Sequence[float] = SPREADS,
) -> tuple[Chosen, Chosen]:
    """Choose C for the SVM, and C and the bound for the RMM."""
    settings = [(C, s, k) for k in kernels for C in penalties for s in spreads]
    errors = np.zeros(len(settings))
    for train, held in splits:
        at = 0
        for kernel in kernels:
            path_of, rows = _paths(kernel, X[train], y[train], X[held])
            for C in penalties:
                wrong = path_of(C, spreads).predict(rows) != y[held]
                errors[at : at + len(spreads)] += wrong.mean(axis=1) / len(splits)
                at += len(spreads)
    found = []
    for method, among in (("svm", (1.0,)), ("rmm", tuple(spreads))):
        k = best_on_grid(errors, settings, among)
        C, spread, kernel = settings[k]
        found.append(Chosen(method, kernel, {"C": C, "spread": spread}, float(errors[k])))
    return found[0], found[1]


def _choose(
    method: str,
    make: Callable[..., object],
    candidates: list[dict[str, float]],
    kernels: list[Kernel],
    X: np.ndarray,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
) -> Chosen:
    errors = np.zeros((len(kernels), len(candidates)))
    for train, held in splits:
        for i, kernel in enumerate(kernels):
            K = kernel(X[train].astype(float))
            K_held = kernel(X[held], X[train])
            for j, parameters in enumerate(candidates):
                model = make(kernel="precomputed", **parameters).fit(K, y[train])
                errors[i, j] += np.mean(model.predict(K_held) != y[held]) / len(splits)
    i, j = np.unravel_index(np.argmin(np.round(errors, 9)), errors.shape)
    return Chosen(method, kernels[i], candidates[j], float(errors[i, j]))


def choose_sigma(
    svm: Chosen,
    kernels: list[Kernel],
    X: np.ndarray,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    penalties: Sequence[float],
    shares: Sequence[float],
) -> Chosen:
    """Choose C and D for the Σ-SVM; D = 0 is the SVM, whose choice is known."""
    candidates = [{"C": C, "D": D} for D in shares for C in penalties]
    found = _choose("sigma", SigmaSVC, candidates, kernels, X, y, splits)
    if found.error < svm.error:
        return found
    return Chosen("sigma", svm.kernel, {"C": svm.parameters["C"], "D": 0.0}, svm.error)


def choose_fisher(
    kernels: list[Kernel],
    X: np.ndarray,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    ridges: Sequence[float],
) -> Chosen:
    """Choose the ridge of the kernel Fisher discriminant."""
    candidates = [{"alpha": ridge} for ridge in ridges]
    return _choose("klda", KernelFisherClassifier, candidates, kernels, X, y, splits)


def fit_chosen(chosen: Chosen, X: np.ndarray, y: np.ndarray) -> Outputs:
    """Fit a method with its chosen parameters; return what says "second class" of new rows."""
    if chosen.method in ("svm", "rmm"):
        path_of, _ = _paths(chosen.kernel, X, y, X[:1])
        path = path_of(chosen.parameters["C"], (chosen.parameters["spread"],))
        coef, bias = path.coef[0], float(path.intercept[0])
        used = np.flatnonzero(coef)

        def second(Z: np.ndarray) -> np.ndarray:
            return chosen.kernel(Z, X[used]) @ coef[used] + bias > 0

    else:
        make = SigmaSVC if chosen.method == "sigma" else KernelFisherClassifier
        model = make(kernel="precomputed", **chosen.parameters).fit(
            chosen.kernel(X.astype(float)), y
        )

        def second(Z: np.ndarray) -> np.ndarray:
            return model.predict(chosen.kernel(Z, X)) == model.classes_[1]

    def outputs(Z: np.ndarray) -> np.ndarray:
        parts = [second(Z[start : start + _CHUNK]) for start in range(0, len(Z), _CHUNK)]
        return np.concatenate(parts)

    return outputs


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
