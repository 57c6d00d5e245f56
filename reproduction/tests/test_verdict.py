from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from oblong_reproduction import claim, mean_row, not_comparable, not_run, statement, value_row
from oblong_reproduction._verdict import paired_p


@pytest.mark.parametrize(
    ("ours", "verdict"), [(1.05, "agrees"), (0.951, "agrees"), (1.06, "differs"), (0.9, "differs")]
)
def test_values_agree_within_the_tolerance(ours, verdict):
    row = value_row("x", 1.0, ours, tolerance=0.05, basis="rounding", digits=2)
    assert row.verdict == verdict
    assert row.paper == "1.00"
    assert "rounding" in row.why


def test_means_agree_within_the_published_spread():
    ours = [1.0, 2.0, 3.0]
    assert mean_row("x", (2.4, 0.5), ours).verdict == "agrees"
    row = mean_row("x", (2.6, 0.5), ours, unit="%")
    assert row.verdict == "differs"
    assert (row.paper, row.ours, row.difference) == ("2.6 ± 0.5 %", "2.0 ± 1.0 %", "−0.6")
    assert "3 repetitions" in row.why


def test_a_spread_of_zero_still_allows_for_rounding_in_print():
    assert mean_row("x", (1.5, 0.0), [1.54]).verdict == "agrees"
    assert mean_row("x", (1.5, 0.0), [1.56]).verdict == "differs"


def test_means_of_nothing_are_not_run():
    assert mean_row("x", (1.5, 0.1), []).verdict == "not run"
    assert claim("x", "y", [], []).verdict == "not run"


def test_claims_are_judged_by_a_paired_test():
    rng = np.random.default_rng(0)
    base = rng.standard_normal(30)
    low, high = base - 0.5 + 0.1 * rng.standard_normal(30), base
    assert claim("x", "lower", low, high).verdict == "holds"
    assert claim("x", "lower", high, low).verdict == "fails"
    noise = base + rng.standard_normal(30)
    expected = stats.ttest_rel(noise, base).pvalue
    row = claim("x", "lower", noise, base)
    assert row.verdict == ("not clear" if expected >= 0.05 else row.verdict)
    assert f"{expected:.2g}" in row.why
    assert claim("x", "lower", low, high, level=1e-300).verdict == "not clear"


def test_one_pair_says_nothing_and_equal_differences_need_no_test():
    assert claim("x", "lower", [1.0], [2.0]).verdict == "not clear"
    assert paired_p([0.3]) is None
    assert paired_p([0.0, 0.0, 0.0]) == 1.0
    assert paired_p([-0.1, -0.1, -0.1]) == 0.0


def test_statements_and_the_rest():
    assert statement("x", "y", "z", True).verdict == "holds"
    assert statement("x", "y", "z", False).verdict == "fails"
    assert not_comparable("x", "y", "z", "why").verdict == "not comparable"
    assert not_run("x", "y").ours == ""
