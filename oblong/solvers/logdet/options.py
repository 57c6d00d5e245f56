"""Settings of the methods for problems with a log-determinant."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LogDetOptions:
    """Settings that the ellipsoids and the ellipsoidal support vector machine share.

    The values were found on ``benchmarks/ellipsoid_against_peers.py`` and
    ``benchmarks/ellipsoidal_svm_against_peers.py``; where another script is behind one, it says so.

    Attributes
    ----------
    patience : int
        Iterations without a better gap after which the interior point method stops: what is left
        is rounding. Fewer stop on the way to the central path, where the gap may rise.
    to_boundary : float
        Fraction of the way to the boundary that an interior point step goes (Mehrotra's 0.99).
    halvings, last_halvings : int
        Lengths to try along the corrected step, and along the centred one after it.
    refinements : int
        Rounds of iterative refinement where the primal Newton system subtracts large numbers; two
        reach the last digit for caps that differ by ten orders of magnitude.
    dual_rows : float
        Rows per quadratic feature up to which the Newton system is one in the weights.
    dual_digits : int
        Rows up to which it becomes one where the other has no digits left for a step.
    follow_from : float
        Length of ``v``, in complementarity products, from which ``w`` follows ``v`` inside the
        ball. Below it, ``v`` may still vanish, and ``w`` needs a step of its own.
    follow_until : float
        Complementarity products, in lengths of ``v``, below which the distance of ``w`` from the
        sphere is rounding.
    sampled_rows : int
        Rows per unknown in the Hessian of the smoothed problem; a sample stands for more. Fewer
        save time in a step and cost more steps (adult and covtype).
    hessian_block : int
        Rows of a block of the Hessian: its features fit into the second cache.
    direct_unknowns : int
        Unknowns up to which the Hessian is formed and factored; more use conjugate gradients.
    residual_left : float
        Fraction of the gradient at which conjugate gradients stop: Newton's method needs no more.
    most_products : int
        Limit on the products of conjugate gradients.
    decrement : float
        Newton decrement, over the width of the smoothing times the caps, at which the width
        shrinks.
    shrink : float
        Factor by which the width shrinks.
    barrier : float
        Weight of the barrier of the ball, over the width times the caps: with much less, ``w``
        gets stuck at the sphere.
    sample : int
        Rows of the sample on which a problem of more than three times as many starts.
    sample_gap : float
        Relative gap to which the problem of the sample is solved.
    close : float
        Relative gap at which the rows near the boundary are solved for exactly. Smoothing gets
        slower from there, as fewer rows than unknowns are left where the corner is rounded.
    boundary_rows : int
        Rows near the boundary to solve for, per unknown.
    boundary_least, boundary_most : int
        Limits on their number: a few cost nothing, and many do not fit into memory.
    boundary_rounds : int
        Attempts to solve for the rows near the boundary.
    boundary_failures : int
        Attempts in a row that may fail before what is left of the gap is taken for rounding.
    boundary_progress : float
        Fraction of the gap that an attempt may leave; otherwise the problem is smoothed less first.
    """

    patience: int = 5
    to_boundary: float = 0.99
    halvings: int = 6
    last_halvings: int = 30
    refinements: int = 2
    dual_rows: float = 1.5
    dual_digits: int = 500
    follow_from: float = 50.0
    follow_until: float = 1e-10
    sampled_rows: int = 3
    hessian_block: int = 512
    direct_unknowns: int = 2500
    residual_left: float = 0.1
    most_products: int = 60
    decrement: float = 0.0025
    shrink: float = 0.25
    barrier: float = 0.05
    sample: int = 40_000
    sample_gap: float = 3e-3
    close: float = 1e-3
    boundary_rows: int = 3
    boundary_least: int = 250
    boundary_most: int = 6000
    boundary_rounds: int = 12
    boundary_failures: int = 3
    boundary_progress: float = 0.3
