"""Compiled loops of the margin solver: pairwise ascent inside one dense block."""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled, fast_max, fast_min, inlined, uncounted
from oblong.solvers.margin.batch.tiles import have_row
from oblong.solvers.margin.problem import write_slopes

# Coefficients looked at together: the place of an extremum is looked for in one strip alone.
_STRIP = 128


@inlined
def _place(p, s, i, c):
    """Right and left slope of term ``i`` at ``c``, and the next breakpoints above and below."""
    row = np.uintp(i)
    # With all of them at hand the choice needs no branches, which nothing would predict.
    p0, p1, p2, p3 = p[row, 0], p[row, 1], p[row, 2], p[row, 3]
    s0, s1, s2 = s[row, 0], s[row, 1], s[row, 2]
    right = s0 if c < p1 else (s1 if c < p2 else (s2 if c < p3 else -np.inf))
    above = p1 if c < p1 else (p2 if c < p2 else (p3 if c < p3 else np.inf))
    left = s2 if c > p2 else (s1 if c > p1 else (s0 if c > p0 else np.inf))
    below = p2 if c > p2 else (p1 if c > p1 else (p0 if c > p0 else -np.inf))
    return right, left, above, below


@inlined
def snapped(p, i, c, snap):
    """Return a coefficient, or the breakpoint that is so near."""
    for k in range(4):
        if abs(c - p[i, k]) <= snap:
            c = p[i, k]
    return c


@inlined
def _pair_step(p, s, i, ci, j, cj, up, low, curvature, snap):
    """Raise ``ci`` and lower ``cj`` by the exact maximiser of the dual along that line.

    ``up`` and ``low`` are the right slope at ``ci`` and the left slope at ``cj`` less the images.
    The dual is piecewise quadratic along the line: walk from kink to kink, landing exactly on
    each, until its derivative is no longer positive. Returns the coefficients with their right
    and left slopes, less the images they had before.
    """
    right_i, left_i, above, _ = _place(p, s, i, ci)
    right_j, left_j, _, below = _place(p, s, j, cj)
    ui = right_i - up
    uj = left_j - low
    moved = 0.0
    # Two coefficients pass eight breakpoints at most.
    for _ in range(9):
        rise = right_i - left_j + (uj - ui) - curvature * moved
        if not rise > 0.0:
            break
        step = rise / curvature
        room_i = above - ci
        room_j = cj - below
        inside = step < room_i and step < room_j
        if inside:
            ci = snapped(p, i, ci + step, snap)
            cj = snapped(p, j, cj - step, snap)
        elif room_i <= room_j:
            moved += room_i
            cj = snapped(p, j, cj - room_i, snap)
            ci = above
        else:
            moved += room_j
            ci = snapped(p, i, ci + room_j, snap)
            cj = below
        right_i, left_i, above, _ = _place(p, s, i, ci)
        right_j, left_j, _, below = _place(p, s, j, cj)
        if inside:
            break
    return ci, right_i - ui, left_i - ui, cj, right_j - uj, left_j - uj


# The places that the loops below take are unsigned, and cannot count from the end.


@inlined
def _first_equal(values, first, last, target):
    found = last
    for k in range(first, last):
        found = min(found, k if values[k] == target else last)
    return found


@inlined
def _shift(up, low, di, K, i, dj, j, first, last):
    """Subtract a change of the image; return the largest of ``up`` and the least of ``low``."""
    highest = -np.inf
    lowest = np.inf
    for k in range(first, last):
        change = di * K[i, k] + dj * K[j, k]
        above = up[k] - change
        below = low[k] - change
        up[k] = above
        low[k] = below
        highest = fast_max(highest, above)
        lowest = fast_min(lowest, below)
    return highest, lowest


@inlined
def _gains(top, low, diagonal, K, i, tiny, gains, first, last):
    """Gains, to second order, of pairing a coefficient with each of the others."""
    largest = 0.0
    own = diagonal[i]
    for k in range(first, last):
        gap = fast_max(top - low[k], 0.0)
        gain = gap * gap / fast_max(own + diagonal[k] - 2.0 * K[i, k], tiny)
        gains[k] = gain
        largest = fast_max(largest, gain)
    return largest


@uncounted
def _ascend_pairs(K, diagonal, p, s, c, up, low, gains, tol, tiny, snap, max_steps, source):
    """Ascend the dual of one block by maximal violating pairs, second-order choice.

    ``up`` and ``low`` are the right and left slopes at ``c`` less the image; the three arrays
    are updated in place, ``gains`` is memory. Returns the steps taken and the violation reached,
    NaN if values are not finite.
    """
    q = np.uintp(c.size)
    strip = np.uintp(_STRIP)
    di = dj = 0.0
    i = j = np.uintp(0)
    step = 0
    if source is not None:
        # Nothing moves yet, but what it is multiplied by has to be a number.
        i = j = np.uintp(np.argmax(source.have))
        if not source.have[i]:
            have_row(source, K, i)
    while True:
        top = -np.inf
        bottom = np.inf
        place = np.uintp(0)
        for first in range(np.uintp(0), q, strip):
            last = min(q, first + strip)
            highest, lowest = _shift(up, low, di, K, i, dj, j, first, last)
            bottom = min(bottom, lowest)
            if highest > top:
                top, place = highest, first
        i = _first_equal(up, place, min(q, place + strip), top)
        violation = top - bottom
        # A place that was not found is past the strip: some value is not a number.
        if not violation < np.inf or i == min(q, place + strip):
            violation = np.nan
        if not violation > tol or step == max_steps:
            return step, violation
        step += 1
        best = 0.0
        if source is not None and not source.have[i]:
            have_row(source, K, i)
        for first in range(np.uintp(0), q, strip):
            last = min(q, first + strip)
            largest = _gains(top, low, diagonal, K, i, tiny, gains, first, last)
            if largest > best:
                best, place = largest, first
        j = _first_equal(gains, place, min(q, place + strip), best)
        if j == min(q, place + strip):
            return step, np.nan
        if source is not None and not source.have[j]:
            have_row(source, K, j)
        curvature = max(diagonal[i] + diagonal[j] - 2.0 * K[i, j], tiny)
        ci, up_i, low_i, cj, up_j, low_j = _pair_step(
            p, s, i, c[i], j, c[j], up[i], low[j], curvature, snap
        )
        di = ci - c[i]
        dj = cj - c[j]
        c[i], up[i], low[i] = ci, up_i, low_i
        c[j], up[j], low[j] = cj, up_j, low_j


@uncounted
def _rise(right, left, u, first, share, second):
    """How steeply the dual rises along ``first + share second``."""
    rise = 0.0
    for k in range(u.size):
        d = first[k] + share * second[k]
        if d != 0.0:
            rise += d * ((right[k] if d > 0.0 else left[k]) - u[k])
    return rise


@uncounted
def _stride(p, s, c, u, right, left, before, image, last, last_image, snap):
    """Go on in the direction that the steps since ``before`` have led, to the first kink.

    Near the optimum pair steps zigzag towards it along a few directions, and their sum points
    the way. Together with the last such move, of steps and stride, it spans a plane, and the way
    leads to the maximum there, as in the method of conjugate gradients. The images of both are
    changes of the image, so that nothing has to be multiplied.

    ``before`` and its ``image`` become the sum of the steps and its image, ``last`` and
    ``last_image`` the move.
    """
    own = both = old = 0.0
    for k in range(c.size):
        before[k] = c[k] - before[k]
        image[k] = u[k] - image[k]
        own += before[k] * image[k]
        both += last[k] * image[k]
        old += last[k] * last_image[k]
    rise = _rise(right, left, u, before, 0.0, last)
    share = 0.0
    if own * old - both * both > 1e-6 * own * old and rise > -np.inf:
        other = _rise(right, left, u, last, 0.0, last)
        ahead = rise * old - other * both
        across = other * own - rise * both
        # Minus infinity where the last move would lead out of a domain. To go farther along it
        # than it went would amplify the rounding of its image, from stride to stride.
        if other > -np.inf and ahead > 0.0 and abs(across) <= own * old - both * both:
            share = across / ahead
            combined = _rise(right, left, u, before, share, last)
            if combined > 0.0:
                rise = combined
                own += share * (2.0 * both + share * old)
            else:
                share = 0.0
    for k in range(c.size):
        last[k] = before[k] + share * last[k]
        last_image[k] = image[k] + share * last_image[k]
    step = 0.0
    if rise > 0.0 and own > 0.0:
        step = rise / own
        row = -1
        end = 0.0
        for k in range(c.size):
            d = last[k]
            if d != 0.0:
                _, _, above, below = _place(p, s, k, c[k])
                place = above if d > 0.0 else below
                if (place - c[k]) / d < step:
                    step = (place - c[k]) / d
                    row = k
                    end = place
        for k in range(c.size):
            u[k] += step * last_image[k]
            if last[k] != 0.0:
                c[k] = snapped(p, k, c[k] + step * last[k], snap)
        if row >= 0:
            c[row] = end
        write_slopes(p, s, c, right, left)
    for k in range(c.size):
        last[k] = before[k] + step * last[k]
        last_image[k] = image[k] + step * last_image[k]


@compiled
def ascend(
    K,
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
    max_steps,
    stride,
    source=None,
):
    """Ascend the dual of one block by pair steps, with a long stride now and then.

    Maximises ``Σ g_i(c_i) - ½ c'Kc`` over ``c`` with ``Σc`` fixed, until
    ``max(right - u) - min(left - u) <= tol``.

    Parameters
    ----------
    K : ndarray of shape (q, q or more)
        The block; columns beyond it are ignored.
    diagonal : ndarray of shape (q,)
        Diagonal of ``K``.
    p, s : ndarray of shape (q, 4) and (q, 3)
        Breakpoints and slopes of the terms.
    c, u, right, left : ndarray of shape (q,)
        Coefficients, image and slopes, updated in place. The image of coefficients that cannot
        move stays as it is.
    work : tuple of ndarray
        Five arrays of length ``q``; the last may be longer.
    tol, tiny, snap : float
        Violation to reach, least curvature, and least distance to a breakpoint.
    max_steps, stride : int
        Most pair steps, and pair steps between strides.

    Returns
    -------
    steps : int
        Steps taken.
    violation : float
        Violation reached; NaN if the values are not finite.
    """
    up, low, before, image, gains = work
    last, last_image = np.zeros(c.size), np.zeros(c.size)
    write_slopes(p, s, c, right, left)
    steps = 0
    while True:
        for k in range(c.size):
            up[k] = right[k] - u[k]
            low[k] = left[k] - u[k]
            before[k] = c[k]
            image[k] = u[k]
        allowed = min(stride, max_steps - steps)
        taken, violation = _ascend_pairs(
            K, diagonal, p, s, c, up, low, gains, tol, tiny, snap, allowed, source
        )
        steps += taken
        write_slopes(p, s, c, right, left)
        for k in range(c.size):
            if right[k] > -np.inf:
                u[k] = right[k] - up[k]
            elif left[k] < np.inf:
                u[k] = left[k] - low[k]
        if not violation > tol or steps >= max_steps:
            return steps, violation
        _stride(p, s, c, u, right, left, before, image, last, last_image, snap)
