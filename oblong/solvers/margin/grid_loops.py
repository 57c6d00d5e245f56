"""Compiled loops over a grid of relative margin problems with one matrix.

The arguments from ``y`` to ``s`` are the fields of the grid: labels, factors of the penalties, the
penalties and spreads, the largest outputs of the support vector machines, coefficients and their
images by problem, whether they converged, whose solution they share, and memory for the terms of
one problem. With ``m = n_spreads + 1``, problem ``m a`` is the support vector machine of ``Cs[a]``
and those after it have the spreads, descending.
"""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled
from oblong.solvers.margin.block import balance, interval, snap_distance
from oblong.solvers.margin.pair_steps import ascend
from oblong.solvers.margin.problem import dual_objective, write_slopes

__all__ = ["ascend_grid", "certify", "note_theta", "write_terms"]


@compiled
def write_terms(y, penalties, Cs, spreads, thetas, coefs, images, converged, source, p, s, place):
    """Write the terms of a problem; return whether it has a bound that is felt."""
    a, k = divmod(place, spreads.size + 1)
    bound = np.inf
    if k > 0:
        bound = max(1.0, 1.0 + spreads[k - 1] * (thetas[a] - 1.0))
        if thetas[a] <= bound:
            bound = np.inf
    bounded = bound < np.inf
    for i in range(y.size):
        end = y[i] * (Cs[a] * penalties[i])
        p[i, 1] = min(end, 0.0)
        p[i, 2] = max(end, 0.0)
        p[i, 0] = -np.inf if bounded else p[i, 1]
        p[i, 3] = np.inf if bounded else p[i, 2]
        s[i, 0] = bound if bounded else y[i]
        s[i, 1] = y[i]
        s[i, 2] = -bound if bounded else y[i]
    return bounded


@compiled
def note_theta(
    y, penalties, Cs, spreads, thetas, coefs, images, converged, source, p, s, place, bias
):
    """Keep the largest absolute output if the problem is a support vector machine."""
    a, k = divmod(place, spreads.size + 1)
    if k == 0:
        u = images[place]
        thetas[a] = 0.0
        for i in range(u.size):
            thetas[a] = max(thetas[a], abs(u[i] + bias))


@compiled
def _begin(y, penalties, Cs, spreads, thetas, coefs, images, converged, source, p, s, place):
    """Settle a problem with a solution at hand, or write its terms and a start.

    Returns whether there is something left to solve.
    """
    m = spreads.size + 1
    a, k = divmod(place, m)
    bounded = write_terms(
        y, penalties, Cs, spreads, thetas, coefs, images, converged, source, p, s, place
    )
    near = place - m
    twin = -1
    if k > 0 and not bounded:
        twin = place - k
    elif a > 0 and converged[near] and (k == 0 or source[place - k] < place - k):
        # Short of the smaller penalties the terms are the same, and so is what is optimal.
        twin = near
        for i in range(y.size):
            if not y[i] * coefs[near, i] < Cs[a - 1] * penalties[i]:
                twin = -1
                break
    start = twin
    if twin < 0:
        start = place - 1 if k > 0 else near
        if k > 0 and a > 0:
            other = dual_objective(p, s, coefs[near], images[near])
            if other > dual_objective(p, s, coefs[start], images[start]):
                start = near
    for i in range(y.size):
        coefs[place, i] = coefs[start, i] if start >= 0 else 0.0
        images[place, i] = images[start, i] if start >= 0 else 0.0
    if twin < 0:
        return True
    source[place] = source[twin]
    converged[place] = converged[twin]
    if k == 0:
        thetas[a] = thetas[a - 1]
    return False


@compiled
def ascend_grid(
    K,
    weights,
    diagonal,
    y,
    penalties,
    Cs,
    spreads,
    thetas,
    coefs,
    images,
    converged,
    source,
    p,
    s,
    work,
    tol,
    tiny,
    largest,
    limit,
    first,
):
    """Solve the problems from number ``first`` on by pair steps.

    Returns
    -------
    place : int
        Number of the first problem that pair steps are slow on, or of all problems.
    total, last : int
        Pair steps in all, and those of that problem.
    """
    n = y.size
    right, left = np.empty(n), np.empty(n)
    total = 0
    for step in range(source.size - first):
        place = first + step
        if not _begin(
            y, penalties, Cs, spreads, thetas, coefs, images, converged, source, p, s, place
        ):
            continue
        c, u = coefs[place], images[place]
        snap = snap_distance(p, c, tol, largest)
        steps = 0
        violation = np.inf
        # As long as Newton steps would take, pair steps are given a chance.
        allowed = min(limit, max(200, 4 * n))
        for _ in range(2):
            taken, violation = ascend(
                K,
                weights,
                diagonal,
                p,
                s,
                c,
                u,
                right,
                left,
                work,
                tol,
                tiny,
                snap,
                allowed,
                max(50, n // 2),
            )
            steps += taken
            free = 0
            for i in range(n):
                free += right[i] == left[i]
            allowed = min(limit, free**3 // (10 * n)) - steps
            if not violation > tol or allowed <= 0:
                break
        total += steps
        balance(c, right, left)
        quadratic = 0.0
        for i in range(n):
            quadratic += c[i] * u[i]
        if not violation <= tol or not quadratic >= 0.0:
            return place, total, steps
        converged[place] = True
        m, M = interval(right, left, u)
        note_theta(
            y,
            penalties,
            Cs,
            spreads,
            thetas,
            coefs,
            images,
            converged,
            source,
            p,
            s,
            place,
            0.5 * (m + M),
        )
    return source.size, total, 0


@compiled
def certify(
    y, penalties, Cs, spreads, thetas, coefs, images, converged, source, p, s, places, fresh, out
):
    """Write the violation, the bias and the largest absolute output for fresh images."""
    right, left = np.empty(y.size), np.empty(y.size)
    for row in range(places.size):
        place = places[row]
        write_terms(
            y, penalties, Cs, spreads, thetas, coefs, images, converged, source, p, s, place
        )
        write_slopes(p, s, coefs[place], right, left)
        u = fresh[row]
        m, M = interval(right, left, u)
        bias = 0.5 * (m + M)
        size = 0.0
        for i in range(u.size):
            size = max(size, abs(u[i] + bias))
        out[row, 0], out[row, 1], out[row, 2] = m - M, bias, size
