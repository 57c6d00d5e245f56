"""Verdicts on counts: of sets that are won, and of errors on the same test rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from oblong_reproduction._verdict import LEVEL, Row, signed

# Two classifiers tested on the same rows share most of their errors. In the stored votes of
# rmm-fig8 a quarter of the errors of SVM and RMM together are not shared (57 of 261 with all rows,
# 72 of 286 with two thirds of them); with one method and other training rows it is less (16 %).
_NOT_SHARED = 0.25


def wins(
    what: str,
    published: tuple[int, int],
    differences: Sequence[tuple[str, float]],
    *,
    tie: float = 0.0,
    digits: int = 2,
    printed: str | None = None,
) -> Row:
    """Judge a count: on so many of so many sets, one method has a lower value than another.

    Confirmed needs as large a share of the sets as in the paper, and more than chance by a sign
    test without the ties. Contradicted are more losses than wins, beyond chance.

    Parameters
    ----------
    what : str
        What is counted.
    published : tuple of two ints
        Wins in the paper, and its number of sets.
    differences : sequence of (name, float)
        The first method's value less the second's, set by set.
    tie : float, default=0.0
        Differences of at most this are ties, which are neither won nor lost.
    digits : int, default=2
        Digits of the differences.
    printed : str, optional
        The published result in other words.

    Examples
    --------
    >>> from oblong_reproduction import wins
    >>> row = wins("sets won", (6, 6), [("a", 0.0), *((k, -1.0) for k in "bcdefg")])
    >>> row.ours, row.verdict
    ('6 of 7, 1 tied, 0 lost', 'not confirmed')
    """
    won = sum(d < -tie for _, d in differences)
    lost = sum(d > tie for _, d in differences)
    number = len(differences)
    p = float(stats.binomtest(won, won + lost).pvalue) if won + lost else 1.0
    if 2.0 * 0.5**number >= LEVEL:
        verdict = "too few runs"
    elif p < LEVEL and lost > won:
        verdict = "contradicted"
    elif p < LEVEL and won * published[1] >= published[0] * number:
        verdict = "confirmed"
    else:
        verdict = "not confirmed"
    return Row(
        what,
        printed or f"{published[0]} of {published[1]}",
        f"{won} of {number}, {number - won - lost} tied, {lost} lost",
        "",
        verdict,
        f"as large a share of wins as claimed, and a sign test, p = {p:.2g}: "
        + ", ".join(f"{name} {signed(d, digits)}" for name, d in differences),
    )


def count_row(what: str, published: int, ours: int) -> Row:
    """Compare a count of errors with a published one on the same test rows.

    A sign test of the errors that are not shared. Which they are is not known of a published count:
    they are taken to be a quarter of all, which is what two methods have here.

    Examples
    --------
    >>> from oblong_reproduction import count_row
    >>> count_row("errors", 29, 44).verdict, count_row("errors", 29, 33).verdict
    ('differs', 'agrees')
    """
    p = _same_rows_p(published, ours)
    verdict = "agrees" if p >= LEVEL else "differs"
    why = f"sign test on the same test rows, p = {p:.2g}"
    return Row(what, str(published), str(ours), signed(ours - published, 0), verdict, why)


def fewer_errors(
    what: str,
    published: tuple[int, int],
    counts: Sequence[tuple[str, int, int]],
) -> Row:
    """Judge that one method makes fewer errors than another, with several kernels on the same rows.

    Kernels share the test rows and much of their errors, so that they are not independent: besides
    the published share of wins, the mean counts have to differ by the test of `count_row`.

    Parameters
    ----------
    what : str
        The comparison.
    published : tuple of two ints
        Wins in the paper, and its number of kernels.
    counts : sequence of (name, int, int)
        Errors of both methods, kernel by kernel.

    Examples
    --------
    >>> from oblong_reproduction import fewer_errors
    >>> fewer_errors("A below B", (2, 2), [("one", 30, 52), ("two", 31, 50)]).verdict
    'confirmed'
    >>> fewer_errors("A below B", (2, 2), [("one", 50, 52), ("two", 49, 50)]).verdict
    'not confirmed'
    """
    first, second = (np.array([row[k] for row in counts], dtype=float) for k in (1, 2))
    mean = float(np.mean(first - second))
    p = _same_rows_p(float(first.mean()), float(second.mean()))
    clear = p < LEVEL
    won, lost, number = int(np.sum(first < second)), int(np.sum(first > second)), len(counts)
    if clear and mean > 0.0:
        verdict = "contradicted"
    elif clear and won * published[1] >= published[0] * number:
        verdict = "confirmed"
    else:
        verdict = "not confirmed"
    signs = ["<" if a < b else ">" if a > b else "=" for _, a, b in counts]
    return Row(
        what,
        f"{published[0]} of {published[1]}",
        f"{won} of {number}, {number - won - lost} tied, {lost} lost",
        signed(mean, 1),
        verdict,
        f"as large a share of wins as claimed, and a sign test of the means on the same rows, p = "
        f"{p:.2g}: "
        + ", ".join(f"{name} {a} {sign} {b}" for (name, a, b), sign in zip(counts, signs)),
    )


def _same_rows_p(first: float, second: float) -> float:
    """Two-sided p-value of a sign test of two counts of errors on the same rows."""
    difference = round(abs(first - second))
    alone = max(round(_NOT_SHARED * (first + second)), difference)
    alone += (alone - difference) % 2
    return float(stats.binomtest((alone + difference) // 2, alone).pvalue) if alone else 1.0
