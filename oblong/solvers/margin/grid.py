"""Relative margin problems of one matrix for a grid of penalties and spreads, solved together.

A search over parameters asks for many small problems that differ in two numbers. One compiled
loop goes through all of them, each from the better of two neighbours, and leaves to its caller
only those that pair steps alone are slow on. One product with the matrix then certifies them all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oblong.solvers.margin.grid_loops import ascend_grid, certify, note_theta, write_terms
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.small import SharedColumns
from oblong.solvers.margin.solver import MarginResult, solve_margin

__all__ = ["MarginGrid", "solve_margin_grid"]

_NO_LIMIT = np.iinfo(np.int64).max


class MarginGrid(NamedTuple):
    """Solutions of the relative margin problem for every penalty and spread.

    Attributes
    ----------
    coefs : ndarray of shape (n_different, n)
        Coefficients of the solutions that differ.
    which : ndarray of shape (n_penalties, n_spreads)
        Which of them solves each problem.
    biases, largest : ndarray of shape (n_different,)
        Their biases and largest absolute outputs.
    gap : float
        Largest relative gap of those that did not converge; NaN if all did.
    n_iter : int
        Pair steps in all.
    """

    coefs: np.ndarray
    which: np.ndarray
    biases: np.ndarray
    largest: np.ndarray
    gap: float
    n_iter: int


def solve_margin_grid(
    columns: SharedColumns,
    y: np.ndarray,
    penalties: np.ndarray,
    Cs: np.ndarray,
    spreads: np.ndarray,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    options: MarginOptions = DEFAULTS,
) -> MarginGrid:
    """Solve the relative margin problem of a matrix that is one block for a whole grid.

    For each ``C`` the support vector machine ``min ½|w|² + C Σ v_i [1 - y_i f_i]_+`` is solved,
    and for each spread the same problem under ``|f_i| <= 1 + spread (theta - 1)``, where
    ``theta`` is the largest absolute output of the support vector machine.

    Parameters
    ----------
    columns : SharedColumns
        The kernel matrix, in double precision.
    y : ndarray of shape (n,)
        Labels, -1.0 or +1.0.
    penalties : ndarray of shape (n,)
        Factors ``v`` of ``C``.
    Cs : ndarray
        Penalties, ascending.
    spreads : ndarray
        Spreads between 0 and 1, in any order.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Limit on the pair steps of each problem; -1 for none.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    MarginGrid
        The solutions. The image that their violations are measured with is a fresh product.
    """
    block = columns.block
    if block is None:
        raise ValueError("a grid needs its kernel matrix in double precision")
    order = np.argsort(-spreads, kind="stable")
    grid = _blank(y, penalties, Cs, spreads[order])
    count = grid.source.size
    limit = _NO_LIMIT if max_iter < 0 else max_iter
    solved: dict[int, MarginResult] = {}
    n_iter = newton_steps = place = 0
    while place < count:
        # With the inverse at hand Newton steps come first, and pair steps wait.
        patience = limit if columns.inverse is None else 0
        place, taken, last = ascend_grid(
            block.K,
            block.weights,
            block.diagonal,
            *grid,
            block.work,
            tol,
            block.tiny,
            block.largest,
            patience,
            place,
        )
        n_iter += taken
        if place < count:
            left = limit - last if limit < _NO_LIMIT else -1
            result = solved[place] = _solve_alone(columns, grid, place, tol, left, options)
            n_iter += result.n_iter
            newton_steps += result.n_newton
            if newton_steps >= options.inverted_after and columns.inverse is None:
                columns.invert(options)
                # A matrix that could not be inverted is not tried again.
                newton_steps = -_NO_LIMIT
            place += 1
    different = np.flatnonzero(grid.source == np.arange(count))
    coefs = grid.coefs[different]
    images = coefs @ block.K
    checks = np.empty((different.size, 3))
    certify(*grid, different, images, checks)
    certain = (checks[:, 0] <= tol) & (block.rounding(coefs) <= max(tol, options.largest_error))
    rank = np.full(count, -1)
    rank[different] = np.arange(different.size)
    for place in different[~certain]:
        if place not in solved:
            solved[place] = _solve_alone(columns, grid, place, tol, max_iter, options)
            n_iter += solved[place].n_iter
    for place, result in solved.items():
        k = rank[place]
        coefs[k] = result.coef
        checks[k, 1:] = result.bias, np.abs(result.outputs).max()
    gaps = [result.relative_gap for result in solved.values() if result.status != "converged"]
    which = np.empty((len(Cs), len(spreads)), dtype=np.intp)
    which[:, order] = rank[grid.source].reshape(len(Cs), -1)[:, 1:]
    return MarginGrid(
        coefs, which, checks[:, 1], checks[:, 2], max(gaps, default=float("nan")), n_iter
    )


class _Grid(NamedTuple):
    """The problems, what is known of their solutions, and memory for the terms of one.

    With ``m = n_spreads + 1``, problem ``m a`` is the support vector machine of ``Cs[a]`` and
    those after it have the spreads, descending. ``source`` tells whose solution a problem shares.
    """

    y: np.ndarray
    penalties: np.ndarray
    Cs: np.ndarray
    spreads: np.ndarray
    thetas: np.ndarray
    coefs: np.ndarray
    images: np.ndarray
    converged: np.ndarray
    source: np.ndarray
    p: np.ndarray
    s: np.ndarray


def _blank(y: np.ndarray, penalties: np.ndarray, Cs: np.ndarray, spreads: np.ndarray) -> _Grid:
    n, count = len(y), len(Cs) * (len(spreads) + 1)
    coefs, images = np.empty((2, count, n))
    converged = np.zeros(count, dtype=np.bool_)
    source = np.arange(count)
    p, s = np.empty((n, 4)), np.empty((n, 3))
    thetas = np.empty(len(Cs))
    return _Grid(y, penalties, Cs, spreads, thetas, coefs, images, converged, source, p, s)


def _solve_alone(
    columns: SharedColumns,
    grid: _Grid,
    place: int,
    tol: float,
    limit: int,
    options: MarginOptions,
) -> MarginResult:
    """Solve one problem by the general method, from where its coefficients are."""
    write_terms(*grid, place)
    result = solve_margin(
        columns,
        Pieces(grid.p, grid.s),
        tol=tol,
        max_iter=limit,
        start=grid.coefs[place],
        start_image=grid.images[place],
        polish=False,
        options=options,
    )
    grid.coefs[place] = result.dual_coef
    grid.images[place] = result.image
    grid.converged[place] = result.status == "converged"
    note_theta(*grid, place, result.bias)
    return result
