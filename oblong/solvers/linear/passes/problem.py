"""A linear margin problem of rows that are read in passes, and its solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oblong._core.gap import PrimalDual
from oblong.linalg.first_pass import Frame


@dataclass(frozen=True)
class PassProblem:
    """One binary problem.

    Attributes
    ----------
    codes : tuple of int
        Places of the negative labels, and of the positive one, among the labels.
    C : tuple of float
        Penalties of rows of weight one, of each of these classes.
    B, spread, D
        As for :func:`~oblong.solvers.linear.relative.solve_linear_relative_margin`.
    nu : float or None
        With ``D``: rows of weight ``s`` cost ``D ν s / Σ s`` per unit beyond the bound.
    intercept : bool
        Whether there is a bias.
    frame : Frame or None
        Coordinates in which the weights are short.
    """

    codes: tuple[int, ...]
    C: tuple[float, ...]
    B: float | None = None
    spread: float = 0.5
    D: float | None = None
    nu: float | None = None
    intercept: bool = True
    frame: Frame | None = None


@dataclass(frozen=True)
class PassResult(PrimalDual):
    """A model with its certificate.

    Attributes
    ----------
    coef, bias : ndarray and float
        The model, in the coordinates of the problem.
    t : float
        The bound.
    theta : float
        Largest absolute output of the support vector machine; NaN where it was not solved.
    largest : float
        Largest absolute output of the model.
    objective, dual_objective, rounding : float
        Value for all rows, a lower bound of the best one, and what rounding may hide.
    n_passes, working_rows : int
        Passes over the rows, and most rows that were gathered.
    status : {"converged", "max_iter", "stalled"}
        Why the method stopped.
    closed : bool
        Whether the last pass found no row on another piece of its loss than its group.
    """

    coef: np.ndarray
    bias: float
    t: float
    theta: float
    largest: float
    objective: float
    dual_objective: float
    rounding: float
    n_passes: int
    working_rows: int
    status: str
    closed: bool

    @property
    def B(self) -> float:
        """The bound, by its other name."""
        return self.t
