"""Is a difference in cross-validated error more than chance."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

# Chance of calling a difference clear where there is none, at most.
LEVEL = 0.05
# Fraction of the rows below which a class is rare.
RARE = 0.1


def corrected_t_test(
    differences: Sequence[float] | np.ndarray, test_to_train: float, step: float = 0.0
) -> float:
    r"""Two-sided p-value that paired fold errors differ by chance alone.

    Folds share training rows, so their differences :math:`d_1, \ldots, d_J` vary less than
    independent ones would. The corrected resampled t-test widens the variance of the mean
    accordingly:

    .. math::

        t = \bar d \Big/ \sqrt{\left(\frac1J + \frac{n_\text{test}}{n_\text{train}}\right) s^2},
        \qquad J - 1 \text{ degrees of freedom},

    with the sample variance :math:`s^2`.

    Parameters
    ----------
    differences : sequence of float
        Error of one model minus that of the other, fold by fold.
    test_to_train : float
        Test rows over training rows of a fold.
    step : float, default=0.0
        What both errors are multiples of, one over the test rows of a fold. Their rounding alone
        gives the difference a variance of ``step² / 6``, and :math:`s^2` is not taken for less:
        one row in each of a few folds is no clear difference.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the Generalization Error, Machine Learning 52, 2003.

    Examples
    --------
    >>> from oblong.cli.comparison.significance import corrected_t_test
    >>> round(corrected_t_test([0.02, 0.01, 0.03, 0.02, 0.02], test_to_train=0.25), 4)
    0.0135
    """
    d = np.asarray(differences, dtype=float)
    mean, variance = d.mean(), max(d.var(ddof=1), step**2 / 6.0)
    # Equal differences have a variance of rounding errors only.
    if variance <= 1e-24:
        return 1.0 if abs(mean) <= 1e-12 else 0.0
    t = mean / np.sqrt((1.0 / len(d) + test_to_train) * variance)
    return float(2.0 * stats.t.sf(abs(t), df=len(d) - 1))


def mcnemar(wins: int, losses: int) -> float:
    """Probability that chance alone makes a model as much better than another; 1 if it is not.

    McNemar's exact test. Against a constant answer it has power where folds are too few for a test
    of theirs.

    Parameters
    ----------
    wins, losses : int
        Held-out rows that only the model predicts rightly, and that only the other one does.

    Examples
    --------
    >>> from oblong.cli.comparison.significance import mcnemar
    >>> mcnemar(wins=7, losses=1)
    0.0703125
    """
    return float(stats.binomtest(wins, wins + losses).pvalue) if wins > losses else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    r"""Correct p-values for being several, by Holm's step-down rule.

    The k-th smallest of m is multiplied by :math:`m - k + 1`, and none may fall below a smaller
    one; the chance of any false alarm then stays at the level.

    Examples
    --------
    >>> from oblong.cli.comparison.significance import holm
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(corrected, 1.0).tolist()
