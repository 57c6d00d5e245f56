"""Rows of the tables: the published result, ours, and a verdict that is computed.

A printed number *agrees* or *differs*. A claim has one of seven verdicts (`CLAIM_VERDICTS`); every
rule here can come out against the paper and against us.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

NUMBER_VERDICTS = ("agrees", "differs")
CLAIM_VERDICTS = (
    "confirmed",
    "agrees: no difference",
    "not confirmed",
    "contradicted",
    "too few runs",
    "not comparable",
    "not run",
)
LEVEL = 0.05
# With fewer pairs a t-test rests on the assumption that differences are Gaussian, and on luck.
FEWEST = 5
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
        One of `NUMBER_VERDICTS` or `CLAIM_VERDICTS`.
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
        signed(difference, digits),
        verdict,
        f"tolerance {tolerance:.3g}: {basis}",
    )


def mean_row(
    what: str,
    published: float,
    ours: Sequence[float] | np.ndarray,
    *,
    standard_error: float | None,
    printed: str,
    digits: int = 1,
    unit: str = "",
) -> Row:
    """Compare a mean over repetitions with a published mean.

    The tolerance is two standard errors of both means, and half a unit of the last printed digit.

    Parameters
    ----------
    what : str
        The quantity.
    published : float
        Published mean.
    ours : sequence of float
        Our repetitions.
    standard_error : float or None
        Standard error of the published mean; None if the paper does not tell.
    printed : str
        The published result as it is printed.
    digits : int, default=1
        Digits after the point.
    unit : str, default=""
        Printed after the numbers.

    Examples
    --------
    >>> from oblong_reproduction import mean_row
    >>> ours = [14.0, 19.0, 18.0, 16.0, 17.0]
    >>> row = mean_row("heart", 15.2, ours, standard_error=0.31, printed="15.2 ± 3.1")
    >>> row.ours, row.difference, row.verdict
    ('16.8 ± 1.9', '+1.6', 'agrees')
    """
    ours = np.asarray(ours, dtype=float)
    if ours.size == 0:
        return not_run(what, printed)
    mean = float(ours.mean())
    if ours.size < FEWEST:
        why = f"{ours.size} of at least {FEWEST} repetitions"
        return Row(what, printed, _number(mean, digits, unit), "", "too few runs", why)
    deviation = float(ours.std(ddof=1))
    both = float(np.hypot(standard_error or 0.0, deviation / np.sqrt(ours.size)))
    tolerance = 2.0 * both + 0.5 * 10.0**-digits
    whose = "of both means" if standard_error is not None else "of our mean, no other is printed"
    row = value_row(
        what,
        published,
        mean,
        tolerance=tolerance,
        basis=f"two standard errors {whose}, and rounding; {ours.size} repetitions",
        digits=digits,
        unit=unit,
    )
    shown = f"{mean:.{digits}f} ± {deviation:.{digits}f}" + (f" {unit}" if unit else "")
    return replace(row, paper=printed, ours=shown)


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
    >>> rmm, svm = [1.0, 2.0, 1.5, 1.2, 1.9], [3.0, 4.2, 3.4, 3.3, 3.8]
    >>> row = claim("RMM below SVM", "fewer errors", rmm, svm)
    >>> row.verdict, row.why
    ('confirmed', 'paired t-test, p < 0.0001, 5 repetitions, ±0.16 at 95 %')
    """
    judge = {-1: "confirmed", 0: "not confirmed", 1: "contradicted"}
    return _paired(what, published, smaller, larger, level, digits, unit, judge)


def no_difference(
    what: str,
    published: str,
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    *,
    level: float = LEVEL,
    digits: int = 2,
    unit: str = "",
) -> Row:
    """Judge the claim that two quantities do not differ significantly, by a paired t-test.

    A difference in either direction contradicts it.

    Examples
    --------
    >>> from oblong_reproduction import no_difference
    >>> no_difference("A and B", "similar", [1, 2, 3, 4, 5], [2, 1, 4, 3, 5]).verdict
    'agrees: no difference'
    """
    judge = {-1: "contradicted", 0: "agrees: no difference", 1: "contradicted"}
    return _paired(what, published, first, second, level, digits, unit, judge)


def not_above(
    what: str,
    published: str,
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    *,
    level: float = LEVEL,
    digits: int = 2,
    unit: str = "",
) -> Row:
    """Judge the claim that one quantity is comparable to another, or below, by a paired t-test.

    Examples
    --------
    >>> from oblong_reproduction import not_above
    >>> not_above("A and B", "comparable or lower", [1, 2, 3, 4, 5], [2, 1, 4, 3, 5]).verdict
    'agrees: no difference'
    """
    judge = {-1: "confirmed", 0: "agrees: no difference", 1: "contradicted"}
    return _paired(what, published, first, second, level, digits, unit, judge)


def _paired(
    what: str,
    published: str,
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    level: float,
    digits: int,
    unit: str,
    judge: dict[int, str],
) -> Row:
    """A paired t-test; `judge` has the verdicts of below, no difference and above."""
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if a.size == 0:
        return not_run(what, published)
    difference = float(np.mean(a - b))
    ours = f"{_number(a.mean(), digits, unit)} against {_number(b.mean(), digits, unit)}"
    p = paired_p(a - b)
    if p is None or a.size < FEWEST:
        verdict, why = "too few runs", f"{a.size} of at least {FEWEST} repetitions"
    else:
        verdict = judge[0 if p >= level else -1 if difference < 0 else 1]
        reach = stats.t.ppf(0.975, a.size - 1) * np.std(a - b, ddof=1) / np.sqrt(a.size)
        shown = "< 0.0001" if p < 1e-4 else f"= {p:.2g}"
        width = f"{reach:.0f}" if reach >= 10.0 else f"{reach:.2g}"
        why = f"paired t-test, p {shown}, {a.size} repetitions, ±{width} at 95 %"
    return Row(what, published, ours, signed(difference, digits), verdict, why)


def equivalent(
    what: str,
    published: str,
    ours: str,
    differences: Sequence[float] | np.ndarray,
    *,
    margin: float,
    basis: str,
) -> Row:
    """Judge the claim that two quantities are similar: their difference is within a margin.

    The 95 % interval of the mean difference decides: inside the margin there is no difference that
    matters, outside of it there is one, and across its end nothing is confirmed.

    Examples
    --------
    >>> from oblong_reproduction import equivalent
    >>> row = equivalent("A and B", "similar", "", [0.1, 0.0, 0.2, 0.1, 0.1], margin=1, basis="one")
    >>> row.verdict
    'agrees: no difference'
    """
    d = np.asarray(differences, dtype=float)
    if d.size < FEWEST:
        why = f"{d.size} of at least {FEWEST} repetitions"
        return Row(what, published, ours, "", "too few runs", why)
    reach = float(stats.t.ppf(0.975, d.size - 1) * d.std(ddof=1) / np.sqrt(d.size))
    mean = float(d.mean())
    verdict = "not confirmed"
    if abs(mean) + reach <= margin:
        verdict = "agrees: no difference"
    elif abs(mean) - reach > margin:
        verdict = "contradicted"
    why = f"within {margin:.2g}, {basis}; ±{reach:.2g} at 95 %, {d.size} repetitions"
    return Row(what, published, ours, signed(mean, 2), verdict, why)


def statement(what: str, published: str, ours: str, holds: bool | None, why: str = "") -> Row:
    """Judge a claim by a rule that the caller has applied and `why` states; None if undecided.

    Examples
    --------
    >>> from oblong_reproduction import statement
    >>> statement("grows", "always", "in each of 9 steps", True, "every step").verdict
    'confirmed'
    """
    verdict = "not confirmed" if holds is None else "confirmed" if holds else "contradicted"
    return Row(what, published, ours, "", verdict, why)


def after_the_fact(row: Row) -> Row:
    """Say of a row that its rule was made when a result had been seen."""
    return replace(row, why=f"{row.why}; rule made after a result had been seen")


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


def signed(value: float, digits: int) -> str:
    """A difference with its sign, and zero without one."""
    text = f"{value:+.{digits}f}"
    return f"{0:.{digits}f}" if float(text) == 0 else text.replace("-", "−")
