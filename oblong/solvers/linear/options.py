"""Tuning constants of the linear solvers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinearOptions:
    """Tuning constants of the linear solvers.

    Attributes
    ----------
    largest_gap : float
        Relative gap, rounding included, that a converged solution proves, or ``tol`` if that is
        larger.
    most_columns : int
        Columns up to which the interior point method is chosen.
    dense_work : int
        Sparse rows with more squared columns than this multiple of the entries of a row go to the
        descent: their Gram matrix, made from dense chunks, costs more than its passes.
    rotated : int
        Entries up to which wide rows are rotated into as many columns as there are rows.
    small : int
        Entries up to which the interior point method solves to ``small_gap``.
    small_gap : float
        Relative gap of small problems: the last digits cost next to nothing there.
    kernel_rows : int
        Rows up to which ``"auto"`` tries pair steps on their products first, which take a third of
        the time (``benchmarks/small_fits.py``).
    kernel_penalty : float
        Largest penalty times the mean squared length of a row for that; pair steps crawl beyond.
    kernel_steps : int
        Pair steps per row after which the interior point method takes over.
    kernel_gap : float
        Relative gap that they have to reach.
    kernel_from_limit : int
        Limit on steps that must be allowed: one below it is meant for the interior point method.
    damping : float
        Fraction of the way to the boundary that an interior point step takes at most while the gap
        is large.
    interior_point_steps : int
        Most interior point steps, whatever ``max_iter`` allows; ten to thirty are usual.
    interior_point_patience : int
        Steps without a better certificate after which only rounding is left.
    least_complementarity : float
        Complementarity, relative to the objective, below which there is nothing left to gain.
    complementarity_share : float
        Fraction of ``tol`` that the complementarity is not asked to go below.
    compiled : int
        Rows times squared columns up to which an interior point step is one compiled loop.
    wide : int
        Columns above which BLAS has enough to do in one product for all threads.
    bound_start : float
        Products of slacks and multipliers of the bounds at the start, relative to those of the
        hinge.
    most_passes : int
        Most passes of the descent where ``max_iter`` sets no limit.
    inner_violation : float
        An inner problem is solved to this fraction of the violation it began with.
    settled_bias : float
        The bias moves for the first time once it has changed by no more than this fraction in a
        sweep: before, no accuracy is of use.
    slow : float
        Fraction of the gap that two sweeps may leave before a joint step is taken.
    long : int
        Sweeps after which joint steps are always taken.
    joint_every : int
        Sweeps per joint step.
    joint_patience : int
        Sweeps after which joint steps may cost as much again as before.
    joint_least, joint_most : int
        Conjugate gradient steps that make a joint step worthwhile, and that make it accurate
        enough.
    joint_halvings : int
        Halvings of a joint step before it is given up.
    bound_violation : float
        Rows beyond the bound are visited until their violation has come down to this fraction.
    bound_turns : int
        Most visits of these rows per sweep, and at most as many as there are rows.
    together, groups : int
        Neighbours in memory that are visited one after the other, or fewer, so that at least so
        many groups are left for the random order.
    certificate_gap : float
        A certificate is computed when the estimated gap is this multiple of ``tol``.
    certificate_growth : float
        It is also computed when the number of passes has grown by this factor.
    refresh : int
        Passes after which the weights are summed again.
    strength : float
        Strength of the joint constraints, relative to the mean squared norm of the rows.
    pull : float
        The constraint on the sum of the coefficients is weaker by this number over that of the
        free rows. It couples all of them, and the more they are, the slower single ones move;
        the bias settles fast already when all of them together pull harder than each by itself.
    slow_bias : float
        A bias that still moves by more than this fraction of its last move is pulled harder.
    bands_from : int
        Rows in memory from which the band method is faster than the interior point method.
    band_rows, band_least : float, int
        Rows that the band method keeps between passes, over the square root of their number, and
        at least. Rows of 20 columns with noisy labels need 10, real ones 30 to 80.
    band_columns : int
        Columns up to which its metric is a whole matrix.
    band_safety : float
        Width of a band, over the expected distance from the solution.
    band_sample_gap : float
        Relative gap of the problems of the sample.
    band_inner : float
        Relative gap of the small problems, over ``tol``.
    band_passes : int
        Most passes; four to eight are usual.
    """

    largest_gap: float = 1e-3
    most_columns: int = 3000
    dense_work: int = 1000
    rotated: int = 1 << 22
    small: int = 1 << 18
    small_gap: float = 1e-11

    kernel_rows: int = 200
    kernel_penalty: float = 300.0
    kernel_steps: int = 50
    kernel_gap: float = 1e-8
    kernel_from_limit: int = 100

    damping: float = 0.95
    interior_point_steps: int = 300
    interior_point_patience: int = 6
    least_complementarity: float = 1e-18
    complementarity_share: float = 0.05
    compiled: int = 1 << 20
    wide: int = 512
    bound_start: float = 0.3

    most_passes: int = 100_000
    inner_violation: float = 0.3
    settled_bias: float = 0.3
    slow: float = 0.75
    long: int = 32
    joint_every: int = 2
    joint_patience: int = 8
    joint_least: int = 3
    joint_most: int = 30
    joint_halvings: int = 8
    bound_violation: float = 0.1
    bound_turns: int = 16
    together: int = 64
    groups: int = 256
    certificate_gap: float = 1.1
    certificate_growth: float = 1.4
    refresh: int = 64
    strength: float = 0.5
    pull: float = 100.0
    slow_bias: float = 0.5

    bands_from: int = 300_000
    band_rows: float = 60.0
    band_least: int = 2000
    band_columns: int = 512
    band_safety: float = 0.5
    band_sample_gap: float = 1e-4
    band_inner: float = 0.01
    band_passes: int = 40


DEFAULTS = LinearOptions()
