"""Settings of the solvers of the ellipsoidal support vector machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from oblong.solvers.logdet.options import LogDetOptions


@dataclass(frozen=True)
class EsvmOptions:
    """Settings of all ways to solve the problem.

    The values were found on ``benchmarks/ellipsoidal_svm_against_peers.py`` ("normal" for few
    columns, "adult, Gaussian kernel" for kernels, "adult, resampled" and "covtype" for many rows).

    Attributes
    ----------
    logdet : LogDetOptions
        Settings of the interior point method and of the smoothed problem.

    newton_from : int
        ``"auto"`` never smooths fewer rows than this: the interior point takes milliseconds.
    newton_rows : int
        Rows per squared column from which ``"auto"`` smooths: there the systems with all rows
        cost more than the passes over them ("normal").
    newton_certain : int
        Rows from which ``"auto"`` smooths whatever the columns: matrices of ``n × n`` numbers no
        longer fit into memory.
    sample_from : int
        Rows from which ``"auto"``, where it does not smooth, solves a sample of the rows first
        and then for the rows near the boundary.
    sample_share, sample_gap, sample_inside : float
        Rows of that sample, over those of the problem; the gap over ``r p`` to which it is solved;
        distance of a weight from its bounds, over its cap, from which the row is near the boundary.
    exact_values : int
        Rows times unknowns up to which the interior point method takes over where smoothing gets
        nowhere: it holds two matrices of that many numbers.
    iterations : int
        Default limit; the hardest problem of the tests takes 120 Newton systems.

    wide : int
        Columns from which a triangular factor is worth a triangular product of its own.
    warm_width : float
        Width of the smoothing at a given start, as a fraction of that at a cold one.
    boundary_gap : float
        Gap of the problem of the rows near the boundary, over the tolerance: the held rows need
        their part of it.

    patience, lost, lost_gap : int, int, float
        Iterations without a better gap after which rounding has the last word; and after which
        the method is lost where the gap over ``r p`` is above ``lost_gap``, since residuals fall
        first there.
    slow : float
        Fraction of the gap that a step may leave before rounding ends the kernel form or polishing.
    enough : float
        Fraction of the asked gap at which the interior point method stops.
    last_digits, model_digits : float
        Gaps over ``r p`` of a polished solution, by the interior point method and by models of
        the kernel dual: what rounding leaves of a few hundred rows.
    no_margin, hardly_a_margin : float
        Bounds on a hard margin, in mean lengths of rows, that say that there is none: at once, and
        where the method has stalled.
    hard_start, hard_kernel_start : float
        Size of the first weights of a hard margin, over that of soft ones: for many rows per
        column, and for kernels. Of 144 kernel problems with ``r`` from 0.5 to ``1 - 1e-9``, 1 left
        11 unsolved, 4 left 3, and 100 solved all in 35 Newton systems at most.
    at_bound : float
        Ratio of a weight (or its distance from the cap) to its multiplier, in mean sizes, below
        which it belongs to the bound.

    kernel_rows_per_column, kernel_from : int
        Rows per column up to which, and rows from which, matrices of ``n × n`` numbers are cheaper
        than explicit columns.
    kernel_halvings, kernel_last_halvings : int
        Trial lengths of a step in the kernel form; each costs as much as a system, and where none
        helps, explicit columns go on.
    models_from_limit : int
        Limit on iterations that must be allowed before some are spent on models of the dual.
    evaluations : int
        Evaluations of the dual before the interior point method takes over; 3 to 5 are usual.
    centre_steps : int
        Newton steps to the analytic centre of a hard margin with a kernel; 3 to 16 are usual.
    centre_near : float
        Newton decrement from which every step is taken whole: the value changes by rounding only.
    centre_vanishing : float
        Slack of a row, over the curvature in its weight, from which the weight tends to zero.
    centre_evaluations, centre_rounds : int
        Evaluations of the dual from there before the interior point method takes over, and sets of
        weights at their bounds in a step; 3 to 9 and 1 to 5 are usual.
    centre_dampings : tuple of float
        What is added to the Newton matrix, over the curvature in each weight alone: the first that
        leaves a factor. Rows that are there twice need some.
    moves_per_row : int
        Pairs of weights to move in one model, per row.
    zero_weight : float
        Weights that count as zero, over the usual ones and the tolerance.
    single_condition, single_gap : float
        Largest entry of ``A^½ K A^½`` over ``1 - r`` for single precision, and the smallest gap
        over ``r p`` that it can show.
    double_gap : float
        Gap over ``r p`` below which evaluations are in double precision.
    recentre_gap : float
        Gap over ``r p`` below which a model recomputed may save an evaluation.
    hopeless_gap, hopeless_growth : float
        Gap over ``r p``, and its growth, at which models are given up.
    certify_squared_gap : float
        Squared gap, over the tolerance, from which weights are worth a certificate: the error of a
        model is about the square of what it removes.
    reach, reach_roots : float
        Relative moves ``q δ / r`` that a model allows: so large, or so many roots of the gap.
    recentre_move, recentre_share, recentre_rounds : float, int, int
        Moves from which a model is recomputed around the weights that made them, one in so many of
        all at most, and how often.
    forcing : float
        Fraction of the gap that the optimality conditions of a model may leave.
    vanishing_direction : float
        Length of ``v`` over ``Σ α |φ|`` below which models do not follow it.
    pair_steps, pair_precision : int, float
        Newton steps along one pair of weights, and the relative precision of its move.
    linear_below : float
        Relative fall of a weight beyond which a model is linear in it.
    certificate_rounding, certificate_rows : float
        Fraction of the tolerance that rounding may have in a certificate by the kernel matrix;
        fraction of the rows with a weight up to which the others are left out of it.

    conic_rows, conic_missed : int, float
        Rows that the conic solver of the exact problem takes at once; how far a row of length one
        may lie beyond the boundary before it has to be among them.
    """

    logdet: LogDetOptions = field(default_factory=LogDetOptions)

    newton_from: int = 500
    newton_rows: int = 10
    newton_certain: int = 12_000
    sample_from: int = 1500
    sample_share: float = 0.4
    sample_gap: float = 1e-4
    sample_inside: float = 0.01
    exact_values: int = 10**8
    iterations: int = 500

    wide: int = 200
    warm_width: float = 0.1
    boundary_gap: float = 0.3

    patience: int = 5
    lost: int = 20
    lost_gap: float = 1e-3
    slow: float = 0.5
    enough: float = 0.9
    last_digits: float = 1e-12
    model_digits: float = 1e-10
    no_margin: float = 1e-7
    hardly_a_margin: float = 1e-4
    hard_start: float = 4.0
    hard_kernel_start: float = 100.0
    at_bound: float = 1e-3

    kernel_rows_per_column: int = 4
    kernel_from: int = 20
    kernel_halvings: int = 3
    kernel_last_halvings: int = 4
    models_from_limit: int = 50
    evaluations: int = 12
    centre_steps: int = 36
    centre_near: float = 0.1
    centre_vanishing: float = 0.7
    centre_evaluations: int = 30
    centre_rounds: int = 20
    centre_dampings: tuple[float, ...] = (0.0, 1e-6, 1e-4, 1e-2)
    moves_per_row: int = 40
    zero_weight: float = 0.01
    single_condition: float = 1e5
    single_gap: float = 1e-4
    double_gap: float = 0.1
    recentre_gap: float = 0.01
    hopeless_gap: float = 1.0
    hopeless_growth: float = 2.0
    certify_squared_gap: float = 0.3
    reach: float = 0.25
    reach_roots: float = 10.0
    recentre_move: float = 0.03
    recentre_share: int = 16
    recentre_rounds: int = 2
    forcing: float = 0.05
    vanishing_direction: float = 1e-4
    pair_steps: int = 30
    pair_precision: float = 1e-3
    linear_below: float = -0.4
    certificate_rounding: float = 0.1
    certificate_rows: float = 0.9

    conic_rows: int = 300
    conic_missed: float = 1e-9
