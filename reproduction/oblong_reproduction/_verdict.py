"""Rows of the tables: the published result, ours, and a verdict that is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

__all__ = [
    "Row",
    "claim",
    "mean_row",
    "not_comparable",
    "not_run",
    "paired_p",
    "statement",
    "value_row",
]

LEVEL = 0.05
# A difference that equals the tolerance in print is within it.
_ROUNDING = 1.0 + 1e-9


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes
    ----------
    what : str
        The quantity or the claim.
    paper, ours : str
        The published result and ours.
    difference : str
        Ours less the published one, or what the claim is about.
    verdict : str
        "agrees" or "differs" for numbers; "holds", "not clear" or "fails" for claims;
        "not comparable" and "not run".
    why : str
        What the verdict rests on.
    """

    what: str
    paper: str
    ours: str
    difference: str
    verdict: str
    why: str = ""


def value_row(
    what: str,
    published: float,
    ours: float,
    *,
    tolerance: float,
    basis: str,
    digits: int = 3,
    unit: str = "",
) -> Row:
    """Compare a number with a published one, within a stated tolerance.

    Parameters
    ----------
    what : str
        The quantity.
    published, ours : float
        The two values.
    tolerance : float
        Largest difference that counts as agreement.
    basis : str
        Where the tolerance comes from.
    digits : int, default=3
        Digits after the point.
    unit : str, default=""
        Printed after the numbers.

    Examples
    --------
    >>> from oblong_reproduction import value_row
    >>> value_row("bound", 0.643, 0.6429, tolerance=0.0005, basis="rounding in print").verdict
    'agrees'
    """
    difference = ours - published
    verdict = "agrees" if abs(difference) <= tolerance * _ROUNDING else "differs"
    return Row(
        what,
        _number(published, digits, unit),
        _number(ours, digits, unit),
        _signed(difference, digits),
        verdict,
        f"tolerance {tolerance:.3g}: {basis}",
    )


def mean_row(
    what: str,
    published: tuple[float, float],
    ours: Sequence[float] | np.ndarray,
    *,
    digits: int = 1,
    unit: str = "",
    basis: str = "the published spread",
    printed: str | None = None,
) -> Row:
    """Compare a mean over repetitions with a published mean and its spread.

    Parameters
    ----------
    what : str
        The quantity.
    published : tuple of two floats
        Published mean and spread, which is the tolerance.
    ours : sequence of float
        Our repetitions.
    digits : int, default=1
        Digits after the point.
    unit : str, default=""
        Printed after the numbers.
    basis : str, default="the published spread"
        What the spread is.
    printed : str, optional
        The published number as it is printed, if that is something else.

    Examples
    --------
    >>> from oblong_reproduction import mean_row
    >>> row = mean_row("heart", (15.2, 3.1), [14.0, 19.0, 18.0])
    >>> row.ours, row.difference, row.verdict
    ('17.0 ± 2.6', '+1.8', 'agrees')
    """
    ours = np.asarray(ours, dtype=float)
    mean, spread = published
    printed = printed or _spread(mean, spread, digits, unit)
    if ours.size == 0:
        return not_run(what, printed)
    difference = float(ours.mean()) - mean
    # Printed numbers are known to half a unit of their last digit only.
    tolerance = max(spread, 0.5 * 10.0**-digits)
    deviation = float(ours.std(ddof=1)) if ours.size > 1 else None
    return Row(
        what,
        printed,
        _spread(float(ours.mean()), deviation, digits, unit),
        _signed(difference, digits),
        "agrees" if abs(difference) <= tolerance * _ROUNDING else "differs",
        f"tolerance {tolerance:.3g}: {basis}; {ours.size} repetitions",
    )


def claim(
    what: str,
    published: str,
    smaller: Sequence[float] | np.ndarray,
    larger: Sequence[float] | np.ndarray,
    *,
    level: float = LEVEL,
    digits: int = 2,
    unit: str = "",
) -> Row:
    """Judge the claim that one quantity is smaller than another, by a paired t-test.

    Parameters
    ----------
    what : str
        The comparison.
    published : str
        What the paper claims.
    smaller, larger : sequences of float
        Paired repetitions: the one claimed to be smaller, and the other.
    level : float, default=0.05
        Two-sided level below which a difference counts.
    digits : int, default=2
        Digits after the point.
    unit : str, default=""
        Printed after the numbers.

    Examples
    --------
    >>> from oblong_reproduction import claim
    >>> row = claim("RMM below SVM", "fewer errors", [1.0, 2.0, 1.5], [3.0, 4.2, 3.4])
    >>> row.verdict, row.why
    ('holds', 'paired t-test, p = 0.0019, 3 repetitions')
    """
    smaller, larger = np.asarray(smaller, dtype=float), np.asarray(larger, dtype=float)
    if smaller.size == 0:
        return not_run(what, published)
    difference = float(np.mean(smaller - larger))
    ours = f"{_number(smaller.mean(), digits, unit)} against {_number(larger.mean(), digits, unit)}"
    p = paired_p(smaller - larger)
    if p is None:
        verdict, why = "not clear", "one repetition"
    else:
        clear = p < level
        verdict = "not clear" if not clear else "holds" if difference < 0 else "fails"
        shown = "< 0.0001" if p < 1e-4 else f"= {p:.2g}"
        why = f"paired t-test, p {shown}, {smaller.size} repetitions"
    return Row(what, published, ours, _signed(difference, digits), verdict, why)


def statement(what: str, published: str, ours: str, holds: bool, why: str = "") -> Row:
    """Judge a claim by a rule that the caller has applied and `why` states.

    Examples
    --------
    >>> from oblong_reproduction import statement
    >>> statement("wins", "on most sets", "9 of 13", 9 > 13 / 2, "more than half").verdict
    'holds'
    """
    return Row(what, published, ours, "", "holds" if holds else "fails", why)


def not_comparable(what: str, published: str, ours: str, why: str) -> Row:
    """Show two results that cannot be compared, and say why."""
    return Row(what, published, ours, "", "not comparable", why)


def not_run(what: str, published: str, why: str = "no results for it") -> Row:
    """Show a published result that we have nothing to set beside."""
    return Row(what, published, "", "", "not run", why)


def paired_p(differences: Sequence[float] | np.ndarray) -> float | None:
    """Two-sided p-value of a paired t-test; None if there are fewer than two pairs."""
    d = np.asarray(differences, dtype=float)
    if d.size < 2:
        return None
    if np.ptp(d) <= 1e-12 * max(1.0, float(np.abs(d).max())):
        return 1.0 if abs(d[0]) <= 1e-12 else 0.0
    return float(stats.ttest_1samp(d, 0.0).pvalue)


def _number(value: float, digits: int, unit: str) -> str:
    return f"{value:.{digits}f}" + (f" {unit}" if unit else "")


def _spread(mean: float, spread: float | None, digits: int, unit: str) -> str:
    if spread is None:
        return _number(mean, digits, unit)
    return f"{mean:.{digits}f} ± {spread:.{digits}f}" + (f" {unit}" if unit else "")


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return f"{0:.{digits}f}" if float(text) == 0 else text.replace("-", "−")
