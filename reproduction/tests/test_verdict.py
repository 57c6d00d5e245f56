from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from oblong_reproduction import (
    after_the_fact,
    claim,
    count_row,
    equivalent,
    fewer_errors,
    mean_row,
    no_difference,
    not_above,
    not_comparable,
    not_run,
    statement,
    value_row,
    wins,
)
from oblong_reproduction._verdict import CLAIM_VERDICTS, paired_p


@pytest.mark.parametrize(
    ("ours", "verdict"), [(1.05, "agrees"), (0.951, "agrees"), (1.06, "differs"), (0.9, "differs")]
)
def test_values_agree_within_the_tolerance(ours, verdict):
    row = value_row("x", 1.0, ours, tolerance=0.05, basis="rounding", digits=2)
    assert row.verdict == verdict
    assert row.paper == "1.00"
    assert "rounding" in row.why


def hundred(mean, deviation):
    """A hundred repetitions with just this mean and deviation."""
    z = np.random.default_rng(0).standard_normal(100)
    return mean + deviation * (z - z.mean()) / z.std(ddof=1)


def test_means_agree_within_two_standard_errors_and_not_within_the_spread():
    # Both means have the standard error 0.3; two of both together and rounding are 0.899.
    options = {"standard_error": 0.3, "printed": "25.0 ± 3.0", "unit": "%"}
    assert mean_row("x", 25.0, hundred(25.89, 3.0), **options).verdict == "agrees"
    row = mean_row("x", 25.0, hundred(25.91, 3.0), **options)
    assert row.verdict == "differs"
    assert (row.paper, row.ours, row.difference) == ("25.0 ± 3.0", "25.9 ± 3.0 %", "+0.9")
    assert "two standard errors of both means" in row.why
    assert "100 repetitions" in row.why
    # A spread over splits would have allowed three points.
    assert mean_row("x", 25.0, hundred(27.0, 3.0), **options).verdict == "differs"


def test_means_without_a_printed_error_have_ours_alone():
    options = {"standard_error": None, "printed": "25.0"}
    assert mean_row("x", 25.0, hundred(25.64, 3.0), **options).verdict == "agrees"
    row = mean_row("x", 25.0, hundred(25.66, 3.0), **options)
    assert row.verdict == "differs"
    assert "of our mean" in row.why


def test_a_spread_of_zero_still_allows_for_rounding_in_print():
    options = {"standard_error": 0.0, "printed": "1.5"}
    assert mean_row("x", 1.5, [1.54] * 5, **options).verdict == "agrees"
    assert mean_row("x", 1.5, [1.56] * 5, **options).verdict == "differs"


def test_means_of_few_or_no_runs_are_not_judged():
    options = {"standard_error": 0.1, "printed": "1.5"}
    assert mean_row("x", 1.5, [], **options).verdict == "not run"
    assert mean_row("x", 1.5, [1.5] * 4, **options).verdict == "too few runs"
    assert claim("x", "y", [], []).verdict == "not run"
    assert claim("x", "lower", [1.0] * 4, [2.0] * 4).verdict == "too few runs"
    assert claim("x", "lower", [1.0], [2.0]).verdict == "too few runs"


def test_claims_are_judged_by_a_paired_test():
    rng = np.random.default_rng(0)
    base = rng.standard_normal(30)
    low, high = base - 0.5 + 0.1 * rng.standard_normal(30), base
    assert claim("x", "lower", low, high).verdict == "confirmed"
    assert claim("x", "lower", high, low).verdict == "contradicted"
    noise = base + rng.standard_normal(30)
    expected = stats.ttest_rel(noise, base)
    assert expected.pvalue > 0.05
    row = claim("x", "lower", noise, base)
    assert row.verdict == "not confirmed"
    assert f"{expected.pvalue:.2g}" in row.why
    interval = expected.confidence_interval()
    assert f"±{(interval.high - interval.low) / 2:.2g} at 95 %" in row.why
    assert claim("x", "lower", low, high, level=1e-300).verdict == "not confirmed"


def test_claims_of_no_difference_fail_on_either_side():
    rng = np.random.default_rng(0)
    base = rng.standard_normal(30)
    low, noise = base - 0.5 + 0.1 * rng.standard_normal(30), base + rng.standard_normal(30)
    assert no_difference("x", "same", noise, base).verdict == "agrees: no difference"
    assert no_difference("x", "same", low, base).verdict == "contradicted"
    assert no_difference("x", "same", base, low).verdict == "contradicted"
    assert not_above("x", "comparable", noise, base).verdict == "agrees: no difference"
    assert not_above("x", "comparable", low, base).verdict == "confirmed"
    assert not_above("x", "comparable", base, low).verdict == "contradicted"


def test_equal_differences_need_no_test():
    assert paired_p([0.3]) is None
    assert paired_p([0.0, 0.0, 0.0]) == 1.0
    assert paired_p([-0.1, -0.1, -0.1]) == 0.0


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [
        (0.0, "agrees: no difference"),
        (-0.79, "agrees: no difference"),
        (0.9, "not confirmed"),
        (-1.1, "not confirmed"),
        (1.21, "contradicted"),
    ],
)
def test_similar_is_an_interval_within_the_margin(mean, verdict):
    # The 95 % interval of a hundred repetitions of deviation one is ±0.198.
    row = equivalent("x", "similar", "", hundred(mean, 1.0), margin=1.0, basis="one")
    assert row.verdict == verdict
    assert equivalent("x", "similar", "", [0.0] * 4, margin=1.0, basis="one").verdict == (
        "too few runs"
    )


@pytest.mark.parametrize(
    ("won", "tied", "lost", "verdict"),
    [
        (7, 0, 0, "confirmed"),
        (6, 1, 0, "not confirmed"),
        (6, 0, 1, "not confirmed"),
        (4, 0, 3, "not confirmed"),
        (0, 7, 0, "not confirmed"),
        (0, 1, 6, "contradicted"),
        (5, 0, 0, "too few runs"),
    ],
)
def test_wins_need_the_published_share_and_more_than_chance(won, tied, lost, verdict):
    values = [-1.0] * won + [0.01, -0.01, 0.0, 0.0, 0.0, 0.0, 0.0][:tied] + [1.0] * lost
    row = wins("sets", (7, 7), [(str(k), d) for k, d in enumerate(values)], tie=0.01)
    assert row.verdict == verdict
    assert row.ours == f"{won} of {won + tied + lost}, {tied} tied, {lost} lost"


def test_as_many_wins_as_published_may_still_be_chance():
    values = [("a", -1.0)] * 8 + [("b", 1.0)] * 4
    assert wins("sets", (8, 12), values).verdict == "not confirmed"


def test_counts_on_the_same_rows_are_not_those_of_two_samples():
    # Two samples with 29 and 44 errors are two deviations apart at most; one test set is not.
    assert count_row("errors", 29, 44).verdict == "differs"
    assert count_row("errors", 44, 29).verdict == "differs"
    assert count_row("errors", 29, 35).verdict == "agrees"
    assert count_row("errors", 0, 0).verdict == "agrees"
    # All five could be errors of one classifier alone, and still be chance.
    assert count_row("errors", 6, 11).verdict == "agrees"
    assert count_row("errors", 5, 11).verdict == "differs"


def test_fewer_errors_need_a_difference_beyond_chance():
    names = [f"degree {k}" for k in range(6)]
    lead = [(name, 40, 60) for name in names]
    assert fewer_errors("x", (6, 6), lead).verdict == "confirmed"
    assert fewer_errors("x", (6, 6), [(n, b, a) for n, a, b in lead]).verdict == "contradicted"
    # Ahead everywhere by one error: kernels on the same rows are one test, not six.
    assert fewer_errors("x", (6, 6), [(name, 99, 100) for name in names]).verdict == "not confirmed"
    row = fewer_errors("x", (6, 6), [*lead[:5], ("last", 60, 60)])
    assert row.verdict == "not confirmed"
    assert row.ours == "5 of 6, 1 tied, 0 lost"
    assert fewer_errors("x", (5, 6), [*lead[:5], ("last", 60, 60)]).verdict == "confirmed"


def test_statements_and_the_rest():
    assert statement("x", "y", "z", True).verdict == "confirmed"
    assert statement("x", "y", "z", False).verdict == "contradicted"
    assert statement("x", "y", "z", None).verdict == "not confirmed"
    assert not_comparable("x", "y", "z", "why").verdict == "not comparable"
    assert not_run("x", "y").ours == ""
    late = after_the_fact(statement("x", "y", "z", True, "every one"))
    assert late.why == "every one; rule made after a result had been seen"
    assert late.verdict in CLAIM_VERDICTS
