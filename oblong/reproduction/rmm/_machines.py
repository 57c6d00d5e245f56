"""Machines of one kernel matrix for whole grids of parameters, which share what they can."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong.solvers.covariance.kernel_fisher import solve_kernel_fisher
from oblong.solvers.covariance.sigma import solve_sigma_kernel
from oblong.solvers.covariance.sigma_geometry import SigmaFactor
from oblong.solvers.margin.grid import solve_margin_grid
from oblong.solvers.margin.path import solve_relative_margin_path
from oblong.solvers.margin.small import SharedColumns

__all__ = ["Machines", "fisher_machines", "margin_machines", "sigma_machines"]

# Up to this many rows the whole problem is one block.
_ONE_BLOCK = 1024


class Machines(NamedTuple):
    """Machines ``f(x) = Σ c_i k(x_i, x) + b`` of the same training rows.

    Attributes
    ----------
    coef : ndarray of shape (n_machines, n)
        Coefficients.
    bias : ndarray of shape (n_machines,)
        Biases.
    """

    coef: np.ndarray
    bias: np.ndarray

    def take(self, k: int) -> Machines:
        """One of the machines."""
        return Machines(self.coef[k : k + 1], self.bias[k : k + 1])


def margin_machines(
    K: np.ndarray,
    y: np.ndarray,
    penalties: Sequence[float],
    spreads: Sequence[float],
    start: np.ndarray | None = None,
) -> Machines:
    """Relative margin machines for every penalty, ascending, and spread, which varies fastest.

    ``y`` is -1 or +1; ``start`` are coefficients of sum zero that the first support vector
    machine may have.
    """
    Cs, spreads = np.asarray(penalties, dtype=np.float64), np.asarray(spreads, dtype=np.float64)
    columns = SharedColumns(K)
    if columns.n <= _ONE_BLOCK:
        grid = solve_margin_grid(columns, y, np.ones(len(y)), Cs, spreads)
        _warn(grid.gap)
        which = grid.which.ravel()
        return Machines(grid.coefs[which], grid.biases[which])
    solved, path = [], None
    for C in Cs:
        path = solve_relative_margin_path(
            columns, y, np.full(len(y), C), spreads, near=path, start=start, polish=False
        )
        solved += path.margins
    for margin in solved:
        if margin.status != "converged":
            _warn(margin.relative_gap)
    return Machines(
        np.array([margin.coef for margin in solved]),
        np.array([margin.bias for margin in solved]),
    )


def sigma_machines(
    K: np.ndarray, y: np.ndarray, penalties: Sequence[float], shares: Sequence[float]
) -> Machines:
    """Σ-SVMs for every share ``D`` and penalty, ascending, which varies fastest."""
    found = []
    for D in shares:
        factor, last = SigmaFactor.of(K, D), None
        for C in penalties:
            last = solve_sigma_kernel(factor, y, np.full(len(y), C), D, near=last, polish=False)
            found.append(last)
    for result in found:
        if result.margin.status != "converged":
            _warn(result.margin.relative_gap)
    return Machines(
        np.array([result.coef for result in found]), np.array([result.bias for result in found])
    )


def fisher_machines(K: np.ndarray, y: np.ndarray, ridges: Sequence[float]) -> Machines:
    """Kernel Fisher discriminants for several ridges."""
    ones = np.ones(len(y))
    found = [solve_kernel_fisher(K, y, ones, ridge, leave_one_out=False) for ridge in ridges]
    return Machines(
        np.array([result.coef for result in found]), np.array([result.bias for result in found])
    )


def _warn(gap: float) -> None:
    if not np.isnan(gap):
        warnings.warn(
            f"a machine did not converge: relative gap {gap:.3g}", ConvergenceWarning, stacklevel=3
        )
