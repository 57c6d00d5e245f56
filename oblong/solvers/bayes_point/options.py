"""Settings of the solvers of the Bayes point."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BayesPointOptions:
    """Settings of expectation propagation and of the sampler.

    The values were found on part "bayes" of ``benchmarks/ellipsoidal_svm_against_peers.py`` and,
    for thin version spaces, on the tests against exact centres of mass.

    Attributes
    ----------
    damping : float
        Fraction of the way to the new factors that a sweep goes; one oscillates on kernel matrices.
    damping_factor, least_damping : float
        What becomes of it when the residual grows, and the least that is left.
    free_sweeps : int
        First sweeps, in which the residual may grow.
    careful_damping : float
        Fraction of the way where a version space that is not empty made the Gaussian collapse.
    collapsed : float
        ``E|w|²`` over ``p`` below which the factors seem to contradict each other: in a cone the
        mean of ``|w|²`` is ``p``, and the Gaussian of an empty one shrinks to zero.
    narrowest : float
        Precision of a factor, over that of the prior, that has left nothing of its direction.
    far_tail : float
        Argument below which the variance of a cut normal is taken from its series: the formula has
        lost its digits.
    chunk_values : int
        Numbers of a chunk of rows in double precision (8 MB).

    chains : int
        Chains that walk side by side; their disagreement estimates the error.
    warm_up : float
        Draws made first and thrown away, as a fraction of those that count.
    refresh : int
        Steps after which outputs are computed from the weights again.
    reports : int
        Reports of progress in all.
    no_angle : float
        Angle at which the bracket of a slice step has shrunk to the current point.
    start_tol, start_sweeps : float, int
        Residual and limit of the expectation propagation that guides the sampler.
    sampling_tol : float
        Largest relative error of the sampled mean that passes for convergence.

    short_row : float
        Length, over that of the longest row, below which a row is round-off of zero.
    same_normal, same_projection : float
        Differences up to which two unit normals, and their projections, are those of one row.
    interior : float
        Margin below which a version space is empty but for rounding.
    first_rows : int
        Rows of the linear programs that look for a point inside: to begin with and to add.
    """

    damping: float = 0.9
    damping_factor: float = 0.8
    least_damping: float = 0.05
    free_sweeps: int = 4
    careful_damping: float = 0.5
    collapsed: float = 1e-6
    narrowest: float = 1e14
    far_tail: float = -100.0
    chunk_values: int = 1 << 20

    chains: int = 20
    warm_up: float = 0.25
    refresh: int = 100
    reports: int = 20
    no_angle: float = 1e-14
    start_tol: float = 1e-2
    start_sweeps: int = 100
    sampling_tol: float = 0.1

    short_row: float = 1e-12
    same_normal: float = 1e-9
    same_projection: float = 1e-12
    interior: float = 1e-10
    first_rows: int = 200


DEFAULTS = BayesPointOptions()
