"""Votes of all pairs of digits, with settings chosen pair by pair or once for all pairs."""

from __future__ import annotations

import base64
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from oblong_reproduction._experiment import Results
from oblong_reproduction.rmm._grid import best_on_grid, first_least
from oblong_reproduction.rmm._pairs import Trials

PAIRS = tuple(combinations(range(10), 2))


def pack(bits: np.ndarray) -> str:
    """Write yes and no as text."""
    return base64.b85encode(np.packbits(bits, axis=-1).tobytes()).decode()


def _unpack(text: str, size: int) -> np.ndarray:
    """Read rows of ``size`` bits."""
    packed = np.frombuffer(base64.b85decode(text), np.uint8).reshape(-1, -(-size // 8))
    return np.unpackbits(packed, axis=1, count=size).astype(bool)


def ballots(trials: Trials, seconds: dict[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """For the record: settings, validation errors and votes of all settings of each family."""
    return {
        family: {
            "settings": [list(parameters.values()) for _, parameters in settings],
            "validation": trials.errors[family],
            "votes": pack(seconds[family]),
        }
        for family, settings in trials.settings.items()
    }


def votes_to_errors(results: Results, method: str) -> int | None:
    """Errors of the majority vote of all 45 pairs, ties at random; None if a pair is missing."""
    cells = _all_pairs(results)
    if cells is None or any(f"{method}_votes" not in cell for cell in cells.values()):
        return None
    return _errors(cells, {pair: cell[f"{method}_votes"] for pair, cell in cells.items()}, 0)


def shared_choice_errors(results: Results, method: str) -> tuple[int, list[float]] | None:
    """Errors if all pairs have one setting, that of the smallest mean validation error.

    Returns
    -------
    errors : int
        Errors of the majority vote.
    setting : list of float
        The setting, in the order of the record.
    """
    cells = _all_pairs(results)
    family = {"svm": "margin", "rmm": "margin"}.get(method, method)
    if cells is None or any(family not in cell.get("ballots", {}) for cell in cells.values()):
        return None

    def tally(family: str) -> tuple[np.ndarray, list[list[float]]]:
        own = [cell["ballots"][family] for cell in cells.values()]
        return np.mean([one["validation"] for one in own], axis=0), own[0]["settings"]

    means, settings = tally(family)
    if method == "rmm":
        k = best_on_grid(means, settings)
    elif method == "svm":
        k = best_on_grid(means, settings, (1.0,))
    else:
        k = first_least(means)
    if method == "sigma":
        # D = 0 is the support vector machine.
        plain, others = tally("margin")
        svm = best_on_grid(plain, others, (1.0,))
        if plain[svm] <= means[k]:
            family, k, settings = "margin", svm, others
    votes = {pair: cell["ballots"][family]["votes"] for pair, cell in cells.items()}
    return _errors(cells, votes, k), settings[k]


def tie_band(results: Results, draws: int = 20) -> dict[str, float] | None:
    """Errors of the RMM by the rule that parts settings with the same validation error of a pair.

    Returns
    -------
    dict
        Errors with the largest ρ and then the smallest C, with the other end of that order, with
        its middle, and the mean and the range over random ones.
    """
    cells = _all_pairs(results)
    if cells is None or any("margin" not in cell.get("ballots", {}) for cell in cells.values()):
        return None
    votes, tied = {}, {}
    for pair, cell in cells.items():
        record = cell["ballots"]["margin"]
        errors, settings = np.round(record["validation"], 9), record["settings"]
        equal = [k for k in range(len(errors)) if errors[k] == errors.min()]
        tied[pair] = sorted(equal, key=lambda k: (-settings[k][1], settings[k][0]))
        votes[pair] = record["votes"]
    rng = np.random.default_rng(0)
    random = [
        _errors(cells, votes, {pair: int(rng.choice(among)) for pair, among in tied.items()})
        for _ in range(draws)
    ]

    def chosen(place: Callable[[list[int]], int]) -> int:
        return _errors(cells, votes, {pair: place(among) for pair, among in tied.items()})

    return {
        "largest": chosen(lambda among: among[0]),
        "smallest": chosen(lambda among: among[-1]),
        "middle": chosen(lambda among: among[len(among) // 2]),
        "random": float(np.mean(random)),
        "least": min(random),
        "most": max(random),
    }


def capped_errors(results: Results, cap: float) -> int | None:
    """Errors of the Σ-SVM with settings chosen pair by pair among those with D up to a cap.

    D = 0 is the SVM, which is taken unless another setting has a smaller validation error.
    """
    cells = _all_pairs(results)
    if cells is None or any("sigma" not in cell.get("ballots", {}) for cell in cells.values()):
        return None
    votes, position = {}, {}
    for pair, cell in cells.items():
        found = []
        for family, allowed in (("margin", 1.0), ("sigma", None)):
            record = cell["ballots"][family]
            # The second parameter is ρ, which is 1 for the SVM, or D.
            among = [
                k
                for k, (_, second) in enumerate(record["settings"])
                if (second == allowed if allowed else second <= cap)
            ]
            errors = np.round(record["validation"], 9)
            found += [(errors[k], family, k) for k in among]
        # Python keeps the first of equal ones.
        _, family, position[pair] = min(found, key=lambda one: one[0])
        votes[pair] = cell["ballots"][family]["votes"]
    return _errors(cells, votes, position)


def ties(results: Results) -> tuple[float, int] | None:
    """How many margin settings share the smallest validation error of a pair.

    Returns
    -------
    median : float
        Their median number over the pairs.
    pairs : int
        Pairs with an SVM among them.
    """
    cells = _all_pairs(results)
    if cells is None or any("ballots" not in cell for cell in cells.values()):
        return None
    numbers, pairs = [], 0
    for cell in cells.values():
        record = cell["ballots"]["margin"]
        errors = np.round(record["validation"], 9)
        best = errors == errors.min()
        numbers.append(int(best.sum()))
        pairs += any(spread == 1.0 for (_, spread), one in zip(record["settings"], best) if one)
    return float(np.median(numbers)), pairs


def _all_pairs(results: Results) -> dict[tuple, dict] | None:
    cells = {tuple(cell["pair"]): cell for cell in results}
    return cells if set(cells) == set(PAIRS) else None


def _errors(
    cells: dict[tuple, dict], votes: dict[tuple, str], position: int | dict[tuple, int]
) -> int:
    """Errors of the majority of the pairs' votes, at one position of their records or at each's."""
    size = cells[PAIRS[0]]["test_rows"]
    counts = np.zeros((size, 10))
    truth = np.full(size, 9)
    for (a, b), cell in cells.items():
        place = position[a, b] if isinstance(position, dict) else position
        second = _unpack(votes[a, b], size)[place]
        counts[~second, a] += 1
        counts[second, b] += 1
        truth[_unpack(cell["first"], size)[0]] = a
    # A number below one parts ties and nothing else.
    counts += np.random.default_rng(0).uniform(size=counts.shape)
    return int(np.sum(counts.argmax(axis=1) != truth))
