"""Tuning constants of the batch solver on a CUDA device."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CUDA_DEFAULTS", "CudaOptions"]


@dataclass(frozen=True)
class CudaOptions:
    """Tuning constants of the solver on a device.

    Attributes
    ----------
    working_set : int
        Coefficients of a working set, a power of two and at most 1024.
    tile : int
        Threads of the kernels that do not reduce.
    panel : int
        Columns of a panel of a Cholesky factor.
    memory_share : float
        Share of the free memory that columns may take.
    side_by_side : int
        Problems whose working sets are in memory at a time.
    wave : int
        Problems that are solved side by side before those of larger penalties start from them.
    look : int
        Rounds between two looks at the violations: a look waits for the device.
    accuracy : float
        Share of the violation to which a working set is solved.
    round_steps : int
        Most pair steps of a round.
    newton_after, newton_every : int
        Rounds before the first Newton step, and between two.
    newton_cheap, newton_rows : int
        Most free coefficients of a Newton step, until ``newton_late`` rounds have passed, and then.
    newton_late : int
        See ``newton_cheap``.
    interior_after, interior_patience : int
        Rounds after which support vector machines over most rows of a matrix go to the interior
        point method: where they are sixteen or more, and where they are fewer.
    landmarks : int
        Rows of its preconditioner, a multiple of ``panel``.
    landmarks_miss : float
        Share of the diagonal that these may miss: where they miss more, as with many columns, the
        matrix is far from singular, and pair steps are fast.
    newton_bytes : float
        Memory of the matrices of Newton steps that are taken side by side.
    patience, patience_per_set : int
        Rounds without a violation lower by a tenth after which a problem is left to the cores, and
        how many more for every working set that its rows would fill.
    sample_above, sample_step : int
        Rows of a problem above which, if the matrix does not fit, the start comes from the outputs
        of the solution for one row in so many.
    sample_ramp : float
        Margins over which the coefficients of that start fall from their caps to zero, halved.
    cached_accuracy : float
        The ``accuracy`` where columns have to be computed again: rounds cost more there.
    """

    working_set: int = 1024
    tile: int = 256
    panel: int = 64
    memory_share: float = 0.7
    side_by_side: int = 264
    wave: int = 132
    look: int = 4
    accuracy: float = 0.1
    round_steps: int = 20_000
    newton_after: int = 32
    newton_every: int = 16
    newton_cheap: int = 1024
    newton_rows: int = 4096
    newton_late: int = 400
    interior_after: int = 32
    interior_patience: int = 80
    landmarks: int = 512
    landmarks_miss: float = 0.3
    newton_bytes: float = 8e9
    patience: int = 400
    patience_per_set: int = 8
    sample_above: int = 40_000
    sample_step: int = 8
    sample_ramp: float = 0.05
    cached_accuracy: float = 0.02


CUDA_DEFAULTS = CudaOptions()
