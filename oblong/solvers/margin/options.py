"""Tuning constants of the margin solver."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MarginOptions:
    """Tuning constants of the margin solver.

    Attributes
    ----------
    largest_gap : float
        Relative duality gap that a converged solution proves, or ``tol`` if that is larger.
    one_block : int
        Rows up to which the whole problem is one block.
    working_set : int
        Least number of coefficients in a working set of a larger problem.
    large_working_set : int
        A working set may have this many rows, or more while its block is no larger than the cache.
    sample_above : int
        Rows above which the solution of a sample of them is the start.
    sample_fraction : int
        The sample has one row in so many.
    smallest_sample : int
        It has at least this many rows.
    sample_tol : float
        Its tolerance as a multiple of ``tol``.
    patience : int
        Rounds in which neither the violation nor the duality gap falls by a tenth before the
        solver counts as stalled.
    idle_work : float
        The same in work: as much as so many interior point methods on all rows would cost.
    refreshes : int
        Recomputations of the image in double precision before single-precision columns are
        replaced by double ones.
    single_steps : int
        Pair steps per row after which single-precision columns are replaced, too: rounding that
        hides small eigenvalues shows as slow progress.
    rounding_sample : int
        Rows that tell how large the rounding of single precision is.
    beyond_sample : float
        How much larger than in the sample the rounding may be elsewhere: the largest of 10⁶ normal
        deviates is 1.5 times the largest of 256.
    pair_steps : int
        Least number of pair steps before interior point steps take over.
    pair_steps_per_square : float
        The same as a multiple of the squared size of the block: a pair step costs a few
        nanoseconds per row, an interior point method some twenty Cholesky factors.
    interior_point_rows : int
        Largest matrix that interior point steps are taken on.
    interior_point_steps : int
        Most interior point steps in a row; ten to thirty are usual.
    interior_point_breakdown : float
        They end when complementarity and residuals exceed their least value so far by this factor.
    interior_point_patience : int
        They also end when in so many of them complementarity and residuals do not fall by a tenth.
    factor_attempts : int
        Times a matrix is factored, with a ridge a hundred times as large each time.
    tightenings : int
        Times the tolerance is tightened for a solution that meets it but proves too large a gap.
    scaled_penalties : tuple of float
        Penalties for rows in the unit ball: the first that no coefficient reaches stands for an
        infinite one.
    scaled_rows : int
        Rows of the first working set of a scaled margin, and rows added at a time.
    scaled_rounds : int
        Most rounds of its working sets.
    pivot_from, pivot_rows_per_column : int, float
        Rows from which, and rows per column up to which, a scaled margin is found by linear systems
        of the rows that decide on it.
    pivot_patience : int
        How many such systems may pass without fewer rows on the wrong side before all rows are
        left to an interior point method.
    scaled_steps : int
        Most of its steps; 13 to 19 are usual.
    pivot_equal, pivot_slack, pivot_gap : float
        Squared distance of equal rows in the unit ball; how far, in units of its own, a row may be
        too near; and the relative gap of a margin to be content with.
    bound_solves : int
        Most problems of a fixed bound in the search for a variable one.
    bound_free : int
        Free coefficients up to which the derivative of the excess is worth a factorisation.
    bound_accuracy : float
        Tolerance of the problems of the search as a fraction of ``tol``.
    bound_width : float
        Width of the bracket at the end, in ``tol``: larger than ``bound_accuracy``, so that a
        step of that size shows in the solution.
    bound_least_width : float
        Least relative width of the bracket: narrower is rounding.
    bound_gap : float
        Gap, as a fraction of ``tol`` and of the objective, at which one solution is as good as the
        best combination of two.
    bound_searches : int
        Times the search is done, each with a tenth of the tolerance of the one before.
    bound_rounding : float
        Relative difference of the excess from ``D`` that is rounding.
    bound_tries, bound_doubtful_tries : int
        Bounds above one that are tried before one itself, whose problem is the hardest; the
        second number holds while ``D`` is below ``bound_doubt`` times the predicted excess there.
    bound_doubt : float
        See ``bound_doubtful_tries``.
    """

    largest_gap: float = 1e-3
    one_block: int = 1024
    working_set: int = 1024
    large_working_set: int = 4096
    sample_above: int = 4096
    sample_fraction: int = 5
    smallest_sample: int = 2048
    sample_tol: float = 30.0
    patience: int = 40
    idle_work: float = 2.0
    refreshes: int = 8
    single_steps: int = 50
    rounding_sample: int = 256
    beyond_sample: float = 2.0
    pair_steps: int = 20_000
    pair_steps_per_square: float = 0.25
    interior_point_rows: int = 4096
    interior_point_steps: int = 100
    interior_point_breakdown: float = 1e3
    interior_point_patience: int = 15
    factor_attempts: int = 4
    tightenings: int = 6
    scaled_penalties: tuple[float, ...] = (1e4, 1e8, 1e12)
    scaled_rows: int = 1500
    scaled_rounds: int = 50
    pivot_from: int = 100
    pivot_rows_per_column: float = 2.0
    pivot_patience: int = 5
    scaled_steps: int = 40
    pivot_equal: float = 1e-13
    pivot_slack: float = 1e-9
    pivot_gap: float = 1e-5
    bound_solves: int = 80
    bound_free: int = 4096
    bound_accuracy: float = 0.1
    bound_width: float = 0.25
    bound_least_width: float = 1e-9
    bound_gap: float = 1e-3
    bound_searches: int = 3
    bound_rounding: float = 1e-10
    bound_tries: int = 3
    bound_doubtful_tries: int = 8
    bound_doubt: float = 4.0

    def crawl(self, size: int) -> int:
        """Pair steps on a block of this size after which interior point steps take over."""
        return max(self.pair_steps, int(self.pair_steps_per_square * size**2))

    def promise(self, tol: float) -> float:
        """Relative duality gap that a solution converged to ``tol`` proves."""
        return float(max(tol, self.largest_gap))


DEFAULTS = MarginOptions()
