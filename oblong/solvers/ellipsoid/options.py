"""Settings of the solvers of ellipsoids."""

from dataclasses import dataclass, field

from oblong.solvers.logdet.options import LogDetOptions


@dataclass(frozen=True)
class EllipsoidOptions:
    """Settings of ellipsoids around all rows or most of them.

    The values were found on ``benchmarks/ellipsoid_against_peers.py``: the first group on its
    ellipsoids around all rows (up to 1,000,000 x 50), the second on those around most of them.

    Attributes
    ----------
    logdet : LogDetOptions
        Settings of the interior point method and of the smoothed problem. The problem of the rows
        near the boundary is cheaper than that of the ellipsoidal support vector machine, so that it
        takes more of them.

    first_rows, added_rows : int
        Working rows at the start and rows added in a round, per dimension.
    rounds : int
        Rounds of working rows after which the solver gives up; five are usual.
    inner_gap : float
        Gap of the working rows' problem, as a fraction of the gap that the last round left.
    pass_rows : int
        Rows that come back from a block of a source that is read in passes, per dimension.
    cover_features : float
        Quadratic features of the rows that such passes gather near a boundary, about.
    copied_share : int
        Rows that can still matter are copied once they are so many, over the number of columns, as
        this multiple of all rows.
    weak_direction : float
        Mean square of whitened working rows in a direction below which extreme rows of it join.
    tiny_weights : tuple of float
        Weights that count as traces of the interior point method, in units of their rows'
        distances from the boundary; the first for which the gap allows it.

    direct_products : float
        Products of quadratic features in a Newton matrix up to which all rows go into it.
    direct_features : float
        Quadratic features that may be in memory at once, some three times over (4e6 are 32 MB).
    direct_rows : int
        Rows per unknown up to which all rows go into the Newton matrix whatever its size.
    few_outside_gap, direct_gap, boundary_gap : float
        Gaps asked of the interior point method, over the tolerance: the rest is left for snapping
        weights to their bounds, and for the rows that are held.
    scales, interpolated_scales : int
        Scales tried for one that agrees with its own solution; how many of them by interpolation
        before bisection.
    finest_gap : float
        Smallest gap that is asked of the solution for a scale.

    rank_probes : int
        Rows whose medians are the first guess of the centre.
    clear_eigenvalue : float
        Smallest eigenvalue of the correlations above which the Gram matrix has told the rank; it
        has half of the digits.
    rounding_units : float
        Rounding of a feature, in units of its precision, that a direction has to exceed.
    smallest_scale : float
        Smallest squared radius per dimension, for ellipsoids that are a point.

    ball_chunk : int
        Rows of a chunk of distances.
    ball_first, ball_joining : int
        Points of the first working set of the ball, and points that join it, per dimension.
    ball_no_weight : float
        Weight, over the mean, below which a point leaves the working set.
    ball_newton_steps : int
        Limit on the steps of the ball's interior point method.
    ball_to_boundary : float
        Fraction of the way to the boundary that such a step goes.
    """

    logdet: LogDetOptions = field(
        default_factory=lambda: LogDetOptions(boundary_least=1500, boundary_most=2**31)
    )

    first_rows: int = 8
    added_rows: int = 4
    rounds: int = 200
    pass_rows: int = 16
    cover_features: float = 2e7
    inner_gap: float = 1e-2
    copied_share: int = 4
    weak_direction: float = 1e-3
    tiny_weights: tuple[float, ...] = (1.0, 1e-2, 1e-4)

    direct_products: float = 2e8
    direct_features: float = 4e6
    direct_rows: int = 8
    few_outside_gap: float = 0.1
    direct_gap: float = 0.05
    boundary_gap: float = 0.2
    scales: int = 60
    interpolated_scales: int = 12
    finest_gap: float = 1e-12

    rank_probes: int = 101
    clear_eigenvalue: float = 1e-8
    rounding_units: float = 4.0
    smallest_scale: float = 1e-12

    ball_chunk: int = 16_384
    ball_first: int = 4
    ball_joining: int = 2
    ball_no_weight: float = 1e-9
    ball_newton_steps: int = 60
    ball_to_boundary: float = 0.99


DEFAULTS = EllipsoidOptions()
