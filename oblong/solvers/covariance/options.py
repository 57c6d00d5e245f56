"""Settings of the classifiers in the geometry of a covariance or an ellipsoid."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CovarianceOptions:
    """Settings of the ellipsoidal kernel machine and of the Σ-SVM.

    The values of the first group were found on ``benchmarks/ellipsoidal_kernel_cost.py``.

    Attributes
    ----------
    linear_from : int
        Rows above which the ellipsoidal kernel machine is solved by its weight vector instead of
        its kernel matrix, if there are enough of them per coordinate.
    linear_rows_per_coordinate : int
        Rows per coordinate that are enough.
    wide : int
        Coordinates from which the products of rows are worth threads.
    linear_gap : float
        Relative gap of the weight vector: smaller than asked for costs a step or two more.
    no_support : float
        Coefficient, over its penalty, below which a row is no support vector: an interior point
        leaves something everywhere.

    chunk : int
        Rows of a chunk of sums over rows.
    closed_form_from : float
        Weight ``D`` of the covariance below which the closed form of the kernel matrix loses too
        many digits: it is a difference over ``D``.
    largest_exact : int
        Rows beyond which a low-rank approximation takes the place of the Σ-SVM's kernel matrix.
    default_rank : int
        Its rank.
    """

    linear_from: int = 4096
    linear_rows_per_coordinate: int = 20
    wide: int = 256
    linear_gap: float = 1e-6
    no_support: float = 1e-6

    chunk: int = 4096
    closed_form_from: float = 1e-3
    largest_exact: int = 10_000
    default_rank: int = 1000
