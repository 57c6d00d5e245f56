from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from oblong.cli.comparison.significance import corrected_t_test, holm


def test_by_hand():
    # Mean 0.02 and variance 5e-5 give t = 0.02 / sqrt((1/5 + 1/4) 5e-5) = 4.2164. With 4 degrees
    # of freedom the tails have a closed form: P(|T| > t) = 1 - (3 s - s³) / 2 with
    # s = t / sqrt(4 + t²).
    t = 0.02 / np.sqrt(0.45 * 5e-5)
    s = t / np.sqrt(4 + t**2)
    by_hand = 1 - (3 * s - s**3) / 2
    assert by_hand == pytest.approx(0.013517, abs=1e-6)
    found = corrected_t_test([0.02, 0.01, 0.03, 0.02, 0.02], test_to_train=0.25)
    assert found == pytest.approx(by_hand, rel=1e-9)


def test_without_overlap_it_is_the_paired_t_test():
    d = np.array([0.1, -0.05, 0.2, 0.15])
    assert corrected_t_test(d, 0.0) == pytest.approx(stats.ttest_1samp(d, 0.0).pvalue)
    assert corrected_t_test(-d, 0.25) == pytest.approx(corrected_t_test(d, 0.25))


@pytest.mark.parametrize(("differences", "p"), [([0.0] * 5, 1.0), ([0.1] * 5, 0.0)])
def test_equal_differences(differences, p):
    assert corrected_t_test(differences, 0.25) == p


def test_a_row_in_each_of_two_folds_is_no_clear_difference():
    # t = 1 / sqrt((1/2 + 1) / 6) = 2, and one degree of freedom has the tails of Cauchy.
    found = corrected_t_test([0.01, 0.01], 1.0, step=0.01)
    assert found == pytest.approx(2 * stats.cauchy.sf(2.0))
    assert corrected_t_test([0.2, 0.1], 1.0, step=0.01) == corrected_t_test([0.2, 0.1], 1.0)


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []
