"""What is odd about a table, in a sentence each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from oblong._core.text import listed, quote
from oblong.io.numbers import is_number

if TYPE_CHECKING:
    from oblong.io.dataset import Table

# Columns are named by chance in at most so many of all tables whose labels have nothing to do with
# the columns.
_CHANCE = 1e-3
# One row in so many may be an exception to what a column says of the class.
_EXCEPTION = 1000
# Rows on which columns are tried before all rows are looked at, and the exceptions among them.
_TRIAL, _TRIAL_EXCEPTIONS = 2000, 10
# Different values of a column from which on a class for each of them is no rule.
_MOST_VALUES = 1000
# Numbers are amounts rather than classes if there are more than so many of them, and fewer than so
# many rows of each.
_MANY_CLASSES, _ROWS_OF_EACH = 20, 20
REGRESSION = "MarginRegressor in Python: the commands predict classes only"
# What is named in one sentence.
_NAMED = 3


def remarks(table: Table) -> list[str]:
    """What may not be as it was meant, as notes with the parameters of the library."""
    found = []
    for padded in table.facts.padded:
        text = f"has numbers with leading zeros, such as {quote(padded.text)} in row {padded.row}"
        advice = "if they are codes, name it in categorical= or leave it out with drop="
        found.append(f"column {padded.column} {text}; {advice}")
    for each in table.facts.sentinels:
        text = f"has {each.value} in {each.n_rows:,} rows, far from its other values"
        advice = f"if that means unknown, missing= {each.value} and impute= treat it so"
        found.append(f"column {each.column} {text}; {advice}")
    return found + _on_classes(table) + _on_telltales(table)


def _on_classes(table: Table) -> list[str]:
    """Classes that may be none."""
    n, names, lone = len(table.y), table.target_names, table.facts.lone_classes
    # Even more are refused.
    many = max(_MANY_CLASSES, n // _ROWS_OF_EACH) < len(names) <= n // 2
    if many and all(map(is_number, names)):
        text = f"the labels are {len(names)} different numbers, each a class; if they are amounts"
        return [f"{text}, use {REGRESSION}"]
    if len(lone) > 1:
        shown = listed([f"{quote(each.name)} (row {each.row})" for each in lone])
        return [f"{len(lone)} classes have a single row: {shown}"]
    for name, row, last in lone:
        what = f"a single row, row {row}" + (", the last" if last else "")
        return [f"class {quote(name)} has {what}; if it is no class, remove the row"]
    return []


def _on_telltales(table: Table) -> list[str]:
    told = list(telltale_columns(table))
    names = table.schema.feature_names
    found = []
    for j, exceptions in told[:_NAMED]:
        label = str(j + 1) if names is None else quote(names[j])
        rows = f"all rows but {exceptions}" if exceptions else "every row"
        advice = "if it is known only after the class, leave it out with drop="
        found.append(f"column {label} alone tells the class of {rows}; {advice}")
    if len(told) > _NAMED:
        found.append(f"{len(told) - _NAMED} more columns alone tell the class")
    return found


def telltale_columns(table: Table) -> Iterator[tuple[int, int]]:
    """Features that alone tell the class of nearly every row, and the number of other rows.

    A rule is a class for each value of a column, or for each of as many intervals as there are
    classes. A table of n rows has n! / (n_1! ... n_k!) orders of its labels; a column is named if
    no more than a small part of them follow any rule of any column.
    """
    X: Any = table.X
    n, d = X.shape
    # Sparse columns are words, and no word alone is more than a part of what tells the class.
    if hasattr(X, "nnz") or d < 2:
        return
    codes = np.unique(table.y, return_inverse=True)[1]
    counts = np.bincount(codes)
    orders = math.lgamma(n + 1) - sum(math.lgamma(count + 1) for count in counts.tolist())
    limit = orders + math.log(_CHANCE) - math.log(2 * d)
    trial = np.arange(n)
    if n > _TRIAL:
        trial = np.random.default_rng(0).choice(n, _TRIAL, replace=False)
    for j in range(d):
        k = len(counts)
        if n > _TRIAL and _fewest_exceptions(X[trial, j], codes[trial], k)[0] > _TRIAL_EXCEPTIONS:
            continue
        exceptions, rules = _fewest_exceptions(X[:, j], codes, k)
        if exceptions > n // _EXCEPTION:
            continue
        # The labels that differ from those of a rule in so many rows.
        others = _log_choices(n, exceptions) + exceptions * math.log(k)
        if rules + others <= limit:
            yield j, exceptions


def _fewest_exceptions(column: np.ndarray, codes: np.ndarray, k: int) -> tuple[int, float]:
    """Rows that the best rule of a column leaves out, and the logarithm of the number of rules."""
    n = len(codes)
    # Gaps are one value, above all numbers.
    values = np.unique(column, return_inverse=True)[1]
    m = int(values.max()) + 1
    found = (n, 0.0)
    if m <= _MOST_VALUES:
        table = np.bincount(values * k + codes, minlength=m * k).reshape(m, k)
        found = n - int(table.max(axis=1).sum()), m * math.log(k)
    if m < k:
        return found
    order = np.lexsort((codes, values))
    ordered, ends = codes[order], np.flatnonzero(np.diff(values[order]))
    if k == 2:
        # One interval for each class, either way round.
        wrong = np.cumsum(1 - 2 * ordered)[ends] + int(codes.sum())
        exceptions = int(min(wrong.min(), n - wrong.max()))
    else:
        changes = np.flatnonzero(np.diff(ordered))
        pure = len(changes) == k - 1 and np.isin(changes, ends).all()
        exceptions = 0 if pure else n
    return min(found, (exceptions, _log_choices(m - 1, k - 1) + math.lgamma(k + 1)))


def _log_choices(n: int, k: int) -> float:
    """Logarithm of the number of ways to choose k of n things."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
