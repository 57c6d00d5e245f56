"""Digits: test errors of all pairs together (table 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from oblong_reproduction._counts import count_row, fewer_errors
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results
from oblong_reproduction._papers import RMM
from oblong_reproduction._verdict import Row, after_the_fact, not_comparable, not_run
from oblong_reproduction.rmm._pairs import (
    kernels_of,
    predict_chosen,
    splits_of,
    try_all,
    unit_rows,
    vote_all,
)
from oblong_reproduction.rmm._products import Products
from oblong_reproduction.rmm._votes import (
    PAIRS,
    ballots,
    pack,
    shared_choice_errors,
    tie_band,
    ties,
    votes_to_errors,
)

POLYNOMIALS = tuple(f"poly{degree}" for degree in range(2, 8))
_KERNELS = ("poly1", *POLYNOMIALS, "rbf")
# Test errors for the kernels above; the KLDA row of OPT repeats that of the SVM.
PUBLISHED = {
    "optdigits": {
        "svm": (71, 57, 54, 47, 40, 46, 46, 51),
        "sigma": (61, 48, 41, 36, 35, 31, 29, 47),
        "klda": (71, 57, 54, 47, 40, 46, 46, 45),
        "rmm": (71, 36, 32, 31, 33, 30, 29, 51),
    },
    "usps": {
        "svm": (145, 109, 109, 103, 100, 95, 93, 104),
        "sigma": (132, 108, 99, 94, 89, 87, 90, 97),
        "klda": (132, 119, 121, 117, 114, 118, 117, 101),
        "rmm": (153, 109, 94, 91, 91, 90, 90, 98),
    },
    "mnist-1000": {
        "svm": (696, 511, 422, 380, 362, 338, 332, 670),
        "sigma": (671, 470, 373, 341, 322, 309, 303, 673),
        "klda": (1663, 848, 591, 481, 430, 419, 405, 1597),
        "rmm": (689, 342, 319, 301, 298, 290, 296, 613),
    },
    "mnist-two-thirds": {
        "svm": (552, 237, 200, 183, 178, 177, 164, 166),
        "rmm": (534, 164, 148, 140, 123, 129, 129, 144),
    },
    "mnist-full": {
        "svm": (536, 198, 170, 156, 157, 141, 136, 146),
        "rmm": (521, 146, 140, 130, 119, 116, 115, 129),
    },
}
TITLES = {"svm": "SVM", "sigma": "Σ-SVM", "klda": "KLDA", "rmm": "RMM"}
BULKY = ("first", "ballots", *(f"{m}_votes" for m in (*TITLES, "svm_full", "rmm_full")))
_REPEATED = "the printed row repeats that of the SVM"
# What each method chooses, the name of its grid, and the ends beyond which nothing changes.
_CHOSEN: dict[str, dict[str, tuple[str, tuple[float, ...]]]] = {
    "svm": {"C": ("penalties", ())},
    "rmm": {"C": ("penalties", ())},
    # With a larger D no prediction changes: seven pairs of mnist-1000 that choose this one.
    "sigma": {"C": ("sigma_penalties", ()), "D": ("shares", (0.0, 0.999999))},
    # With a smaller ridge next to no prediction changes: pairs of optdigits and USPS, degrees 3, 6.
    "klda": {"alpha": ("ridges", (1e-4,))},
}
GRID = {
    "penalties": (0.1, 1.0, 10.0, 100.0, 1000.0),
    "sigma_penalties": (1.0, 10.0, 100.0),
    "shares": (0.5, 0.9, 0.99, 0.999),
    "ridges": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
    "scales": (1.0, 3.0, 9.0),
}
QUICK_GRID = {
    "penalties": (1.0, 100.0),
    "sigma_penalties": (10.0,),
    "shares": (0.9, 0.99),
    "ridges": (1e-3, 1e-1),
    "scales": (2.0,),
}


def load_pair(sets: Sets, name: str, pair: list[int]) -> tuple[np.ndarray, ...]:
    """Training rows of two digits, all test rows and all test labels."""
    data: Any = sets.load(name)
    rows = np.isin(data.y, pair)
    y = (data.y[rows] == pair[1]).astype(int)
    return unit_rows(data.X[rows]), y, unit_rows(data.X_test), data.y_test


def _vote(result: dict, name: str, votes: np.ndarray, labels: np.ndarray, pair: list[int]) -> None:
    """Record the votes on all test rows, and the errors on those of the pair."""
    own = np.isin(labels, pair)
    result[f"{name}_votes"] = pack(votes)
    result[f"{name}_pair_errors"] = int(np.sum(votes[own] != (labels[own] == pair[1])))


def _pair_cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    set: str,
    pair: list[int],
    kernel: str,
    rows: int | None,
    splits: int,
    grid: dict,
    methods: Sequence[str] | None = None,
) -> dict:
    """All methods, or some, on one pair of digits with one kernel."""
    name = set.split("-")[0]
    X, y, Z, labels = load_pair(sets, name, pair)
    if rows is not None:
        chosen = rng.permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    small = name != "mnist" or set == "mnist-1000"
    train = {"mnist-1000": 1000, "mnist-two-thirds": 2 * len(y) // 3}.get(set, 4 * len(y) // 5)
    parts = list(splits_of(rng, len(y), splits, min(train, 4 * len(y) // 5)))
    kernels = kernels_of(kernel, X[parts[0][0]], grid["scales"])
    methods = methods or (("svm", "rmm", "sigma", "klda") if small else ("svm", "rmm"))
    # On MNIST the model that did best on the validation rows is tested as it is.
    mnist = name == "mnist"
    products = _products(X, Z, parts[0][0] if set == "mnist-1000" else None)
    trials = try_all(kernels, products, y, parts, grid, methods=methods, further=mnist)
    picks = trials.picks()
    result: dict = {"test_rows": len(labels), "first": pack(labels == pair[0])}
    votes = trials.seconds
    if not mnist:
        # The chosen setting is fitted to all rows, and so is every other one, for the vote with
        # one setting for all pairs.
        votes = vote_all(kernels, products, y, grid, methods=methods)
    result["ballots"] = ballots(trials, votes)
    seconds = {method: votes[pick.family][pick.position] for method, pick in picks.items()}
    if set == "mnist-two-thirds":
        full = predict_chosen(picks, products, y)
        seconds.update((f"{method}_full", second) for method, second in full.items())
    for method, second in seconds.items():
        _vote(result, method, second, labels, pair)
    for method, pick in picks.items():
        result[f"{method}_chosen"] = pick.described()
    return result


# The inner products of the pair before, which the cells of its other kernels ask for next.
_KEPT: list[tuple[tuple, Products]] = []


def _products(X: np.ndarray, Z: np.ndarray, trained: np.ndarray | None) -> Products:
    asked = (X, Z, np.arange(len(X)) if trained is None else trained)
    if _KEPT and all(np.array_equal(a, b) for a, b in zip(_KEPT[0][0], asked)):
        return _KEPT[0][1]
    # Make room first: these are large.
    _KEPT.clear()
    _KEPT.append((asked, Products(X, Z, trained)))
    return _KEPT[0][1]


def pair_cells(
    set: str,
    kernel: str,
    rows: int | None,
    splits: int,
    grid: dict,
    owner: str | None = None,
    methods: Sequence[str] | None = None,
) -> list[Cell]:
    """One cell for each of the 45 pairs of digits, with one kernel, of all methods or some."""
    grid = {name: list(values) for name, values in grid.items()}
    some = {} if methods is None else {"methods": list(methods)}
    return [
        Cell(
            f"{set}/{kernel}/{a}-{b}",
            _pair_cell,
            {
                "set": set,
                "pair": [a, b],
                "kernel": kernel,
                "rows": rows,
                "splits": splits,
                "grid": grid,
                **some,
            },
            data=(set.split("-")[0],),
            draw=f"{set}/{a}-{b}",
            owner=owner,
        )
        for a, b in PAIRS
    ]


def table_2_cells(quick: bool) -> list[Cell]:
    """Every set with every kernel, pair by pair."""
    if quick:
        return [
            cell
            for set in ("optdigits", "usps")
            for cell in pair_cells(set, "poly3", 300, 1, QUICK_GRID)
        ]
    big = {**GRID, "penalties": (1.0, 10.0, 100.0)}
    found: list[Cell] = []
    for set, splits, grid in (
        ("optdigits", 5, GRID),
        ("usps", 5, GRID),
        ("mnist-1000", 1, GRID),
        ("mnist-two-thirds", 1, big),
    ):
        # The kernels of a pair in succession, as they share the inner products of its rows.
        columns = (pair_cells(set, kernel, None, splits, grid) for kernel in _KERNELS)
        found += [cell for cells in zip(*columns) for cell in cells]
    return found


def condensed(results: Results) -> list[dict[str, Any]]:
    """Errors of the votes, which need all pairs together: what the rows rest on."""
    found: list[dict[str, Any]] = []
    for set, methods in PUBLISHED.items():
        full = set == "mnist-full"
        for kernel in _KERNELS:
            cells = results.where(set="mnist-two-thirds" if full else set, kernel=kernel)
            for method in methods:
                record = {"set": set, "kernel": kernel, "method": method}
                errors = votes_to_errors(cells, f"{method}_full" if full else method)
                if errors is not None:
                    found.append({**record, "errors": errors})
                shared = None if full else shared_choice_errors(cells, method)
                if shared is not None:
                    found.append({**record, "shared_errors": shared[0]})
            counted = None if full else ties(cells)
            if counted is not None:
                found.append({"set": set, "kernel": kernel, "ties": counted})
            band = None if full else tie_band(cells)
            if band is not None:
                found.append({"set": set, "kernel": kernel, "band": band})
    return found


def _table_2_rows(results: Results) -> Iterator[Row]:
    """Rows from the condensed results."""
    ours = errors_of(results, "errors")
    for set, methods in PUBLISHED.items():
        for method, published in methods.items():
            for kernel, number in zip(_KERNELS, published):
                what = f"{set}, {kernel}, {TITLES[method]}"
                errors = ours.get((set, kernel, method))
                if errors is None:
                    yield not_run(what, str(number))
                elif set == "optdigits" and method == "klda" and kernel != "rbf":
                    yield not_comparable(what, str(number), str(errors), _REPEATED)
                else:
                    yield count_row(what, number, errors)
    yield from comparisons(ours, "")
    for set in PUBLISHED:
        counted = [results.where(set=set, kernel=k).having("ties") for k in POLYNOMIALS]
        shown = [f"{one[0]['ties'][0]:g} and {one[0]['ties'][1]}" for one in counted if one]
        if len(shown) == len(counted):
            yield not_comparable(
                f"{set}, degrees 2 to 7: settings with the smallest validation error of a pair "
                "(median), pairs with an SVM among them",
                "not stated",
                ", ".join(shown),
                "the paper does not say which of equal settings it takes",
            )
    for one in results.having("band"):
        band = one["band"]
        number = PUBLISHED[one["set"]]["rmm"][_KERNELS.index(one["kernel"])]
        row = not_comparable(
            f"{one['set']}, {one['kernel']}, RMM by the rule for equal settings: largest ρ and "
            "smallest C (the rule of this table), the other end, the middle, at random",
            str(number),
            f"{band['largest']}, {band['smallest']}, {band['middle']}, {band['random']:.1f} "
            f"({band['least']} to {band['most']} in 20 draws)",
            "the paper does not say which of equal settings it takes",
        )
        yield after_the_fact(row)
    shared = errors_of(results, "shared_errors")
    for set, methods in PUBLISHED.items():
        for method in methods if set != "mnist-full" else ():
            yield _shared_row(set, method, shared)
    for row in comparisons(shared, "one setting for all pairs, "):
        yield after_the_fact(row)


def errors_of(results: Results, key: str) -> dict[tuple[str, str, str], int]:
    """Errors of the condensed results by set, kernel and method."""
    found = results.having(key)
    return {(one["set"], one["kernel"], one["method"]): one[key] for one in found}


def _shared_row(set: str, method: str, shared: dict[tuple[str, str, str], int]) -> Row:
    """All kernels of a set and method, if all pairs have the same setting."""
    what = f"{set}, {TITLES[method]}, one setting for all pairs: degrees 1 to 7, RBF"
    printed = PUBLISHED[set][method]
    text = " ".join(str(number) for number in printed)
    ours = {k: shared[set, k, method] for k in _KERNELS if (set, k, method) in shared}
    if len(ours) < len(_KERNELS):
        return not_run(what, text)
    row = numbers_row(what, printed, ours)
    if set == "optdigits" and method == "klda":
        return not_comparable(what, text, row.ours, _REPEATED)
    return after_the_fact(row)


def numbers_row(what: str, printed: Sequence[int], ours: dict[str, int]) -> Row:
    """Errors with several kernels in one row."""
    rows = [count_row(k, number, ours[k]) for k, number in zip(ours, printed)]
    out = [row.what for row in rows if row.verdict == "differs"]
    return Row(
        what,
        " ".join(str(number) for number in printed),
        " ".join(str(errors) for errors in ours.values()),
        " ".join(row.difference for row in rows),
        "differs" if out else "agrees",
        "sign test on the same test rows" + (f"; different: {', '.join(out)}" if out else ""),
    )


def comparisons(ours: dict[tuple[str, str, str], int], prefix: str) -> Iterator[Row]:
    """Who makes fewer errors with polynomials of degree 2 and more, set by set."""
    for set, printed in PUBLISHED.items():
        for first, second in (("rmm", "svm"), ("sigma", "svm"), ("rmm", "sigma")):
            pairs = [
                (kernel, ours[set, kernel, first], ours[set, kernel, second])
                for kernel in POLYNOMIALS
                if (set, kernel, first) in ours and (set, kernel, second) in ours
            ]
            if not pairs:
                continue
            places = [_KERNELS.index(kernel) for kernel, _, _ in pairs]
            before = sum(printed[first][k] < printed[second][k] for k in places)
            row = fewer_errors(
                f"{prefix}{set}: polynomials of degree {degrees([p[0] for p in pairs])} with fewer "
                f"errors of {TITLES[first]} than {TITLES[second]}",
                (before, len(pairs)),
                pairs,
            )
            led = sum(a < b for a, b in zip(printed[first][1:7], printed[second][1:7]))
            if 2 * led <= len(POLYNOMIALS):
                why = "no lead over degrees 2 to 7 in print either, hence no claim"
                row = not_comparable(row.what, row.paper, row.ours, why)
            yield row


def degrees(kernels: Sequence[str]) -> str:
    """Degrees of polynomial kernels in words."""
    numbers = [kernel.removeprefix("poly") for kernel in kernels]
    return "2 to 7" if list(kernels) == list(POLYNOMIALS) else ", ".join(numbers)


def digit_choices(results: Results) -> Iterator[Choice]:
    """Parameters that were chosen pair by pair."""
    for cell in results:
        grid = cell["grid"]
        for method, keys in _CHOSEN.items():
            chosen = cell.get(f"{method}_chosen", {})
            for key, (name, natural) in keys.items():
                if key in chosen and (method != "sigma" or chosen.get("D")):
                    what = f"{cell['set']}, {TITLES[method]}, {key}"
                    # D = 0, the SVM, is always among them.
                    values = (0.0, *grid[name]) if key == "D" else tuple(grid[name])
                    # No value can have fewer validation errors than none.
                    ends = natural if chosen["validation"] > 0.0 else values
                    yield Choice(what, chosen[key], values, ends)


TABLE_2 = Experiment(
    name="rmm-table2",
    paper=RMM,
    title="test errors on three sets of digits, eight kernels, SVM, Σ-SVM, KLDA and RMM",
    cells=table_2_cells,
    condense=condensed,
    rows=_table_2_rows,
    choices=digit_choices,
    bulky=BULKY,
    minutes=170,
    data=("optdigits", "usps", "mnist"),
    protocol=(
        "Images of length one; kernels scaled so that the trace is the number of rows; 45 pairs, "
        "majority vote, ties at random. optdigits and USPS: parameters of each pair by five "
        "random 80:20 splits, then all its rows. mnist-1000: 1,000 rows per pair, chosen on the "
        "rest; mnist-two-thirds: two thirds, chosen on the rest; mnist-full: those parameters and "
        "all rows. Grids, which the paper does not state: C 10⁻¹ to 10³ (MNIST beyond 1,000 rows: "
        "1 to 100); ρ 1, 0.5, 0.25, 0.1, 0.05, 0.02, 0 with B = 1 + ρ(θ − 1); Σ-SVM C 1 to 100, "
        "D 0, 0.5, 0.9, 0.99, 0.999; KLDA ridge 10⁻⁴ to 10; Gaussians γ = 1, 3 or 9 over the "
        "median squared distance. Kernel matrices of more than 3,000 rows are in single precision; "
        "all models meet the default tolerance of 10⁻³ on their outputs. Of settings with the "
        "same validation error the one with the largest ρ, then the smallest C, is taken. The rows "
        "with one setting for all pairs take that of the smallest validation error averaged over "
        "the pairs; they were added when the result of optdigits with a choice pair by pair was "
        "known, and so count for less."
    ),
    finding=(
        "With settings chosen pair by pair, as the paper's text has it, the RMM gains less on the "
        "SVM of optdigits than in print; with one setting for all 45 pairs the printed numbers of "
        "all polynomials come out. The held-out rows of a pair are few and easy, "
        "many settings share the smallest validation error, and for most pairs an SVM is among "
        "them, which is what is taken then (the rows on equal settings). Other rules for equal "
        "settings move the RMM by several errors, and none that was tried reaches the printed "
        "numbers. On mnist-1000, with "
        "thousands of held-out rows, that is so for next to no pair, and both ways of choosing "
        "give the same picture. The lead of the RMM over the Σ-SVM is not confirmed: with D up to "
        "0.999 the Σ-SVM is level with it, as it is with wider grids of C and D "
        "(rmm-table2-wider), and better than in print on mnist-1000 with degree 2. "
        "So are KLDA, whose ridge the paper does not state, and the "
        "Gaussian kernel on mnist-1000 with all methods; a narrower grid of D, "
        "ridges and widths in the paper would explain that, which cannot be checked."
    ),
    quick="optdigits and USPS only, degree 3, 300 rows per pair, one split, small grids",
)
