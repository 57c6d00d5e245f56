"""Rows of the kernel matrix of a group, computed or copied when a step first asks for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from oblong._core.compile import compiled
from oblong._core.exp2 import LOG2_E, exp2
from oblong.solvers.margin.batch.problem import GramTiles, RowTiles

__all__ = ["GroupRows", "TileSource", "fill_tiles", "fresh_image", "have_row", "prepare"]

_GRAM, _LINEAR, _POLY, _RBF = range(4)
# Rounding of an exponent, and sizes of kernel values, that single precision can do.
_SINGLE_EXPONENT_ERROR = 1e-5
_SINGLE_RANGE = (1e-25, 1e30)
# Columns of a transposed tile that are written together.
_TILE = 32


class TileSource(NamedTuple):
    """What rows of the kernel matrix come from, in single and in double precision.

    The rows of the rbf kernel are scaled so that ``2^(x·z - |x|²/2 - |z|²/2)`` is its value.
    """

    kind: int
    degree: int
    coef0: float
    gram: np.ndarray
    X: np.ndarray
    XT: np.ndarray
    half: np.ndarray
    wide: np.ndarray
    diagonal: np.ndarray
    # Rounding of a kernel value, in units of the geometric mean of two diagonal values.
    single: float
    double: float
    # What was subtracted from the rows of the linear kernel: outputs are rounded to its size, too.
    shift: np.ndarray


class GroupRows(NamedTuple):
    """The rows of one group, which of them are at hand, and blocks that groups share."""

    source: TileSource
    segments: np.ndarray
    begins: np.ndarray
    have: np.ndarray
    # Blocks of a segment with itself: which ones they are, where they begin, what is there.
    names: np.ndarray
    places: np.ndarray
    own: np.ndarray
    own_have: np.ndarray


def prepare(tiles: RowTiles | GramTiles) -> TileSource | None:
    """Bring rows or a matrix to the form that the loops need; None where they cannot do it."""
    none = np.empty((0, 0), dtype=np.float32)
    eps, single = np.finfo(np.float64).eps, np.finfo(np.float32).eps
    if isinstance(tiles, GramTiles):
        diagonal = tiles.K.diagonal().astype(np.float64)
        if not _in_range(diagonal):
            return None
        return TileSource(
            _GRAM, 0, 0.0, tiles.K, none, none, none.ravel(), np.empty((0, 0)), diagonal,
            4.0 * single, 4.0 * eps, np.empty(0),
        )  # fmt: skip
    kernel, X = tiles.kernel, tiles.X
    if kernel.name not in ("linear", "poly", "rbf") or sp.issparse(X):
        return None
    shift = kernel.centre(X)
    wide = np.ascontiguousarray(X if shift is None else X - shift, dtype=np.float64)
    units = 4.0
    coef0 = float(kernel.coef0)
    if kernel.name == "rbf":
        wide *= np.sqrt(2.0 * kernel.gamma * LOG2_E)
    elif kernel.name == "poly":
        wide = wide * np.sqrt(kernel.gamma)
        units += kernel.degree
    half = 0.5 * np.einsum("ij,ij->i", wide, wide)
    if kernel.name == "rbf":
        largest = float(half.max(initial=0.0)) / LOG2_E
        if not largest * single <= _SINGLE_EXPONENT_ERROR:
            return None
        units += largest
        diagonal = np.ones(len(wide))
    elif kernel.name == "poly":
        with np.errstate(over="ignore"):
            diagonal = (2.0 * half + coef0) ** kernel.degree
    else:
        diagonal = 2.0 * half
    if not _in_range(diagonal):
        return None
    X = wide.astype(np.float32)
    kind = {"linear": _LINEAR, "poly": _POLY, "rbf": _RBF}[kernel.name]
    return TileSource(
        kind, int(kernel.degree), coef0, none, X, np.ascontiguousarray(X.T),
        half.astype(np.float32), wide, diagonal, units * single, units * eps,
        shift if kind == _LINEAR else np.empty(0),
    )  # fmt: skip


def _in_range(diagonal: np.ndarray) -> bool:
    largest = float(np.abs(diagonal).max(initial=0.0))
    return _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1] and bool(np.isfinite(diagonal).all())


@compiled
def _mapped(kind, degree, coef0, values, left, right):
    """Turn products of a row with others into kernel values; ``left``, ``right`` are half norms."""
    if kind == _RBF:
        for j in range(values.size):
            values[j] = exp2(values[j] - left - right[j])
    elif kind == _POLY:
        for j in range(values.size):
            base = values[j] + coef0
            power = values.dtype.type(1.0)
            for _ in range(degree):
                power *= base
            values[j] = power


@compiled
def _products(x, XT, start, out):
    """Products of one row with consecutive others, whose transpose is given."""
    for j in range(out.size):
        out[j] = 0.0
    d = x.size
    whole = d - d % 4
    stop = start + out.size
    for k in range(0, whole, 4):
        a, b, c, e = x[k], x[k + 1], x[k + 2], x[k + 3]
        first, second = XT[k, start:stop], XT[k + 1, start:stop]
        third, fourth = XT[k + 2, start:stop], XT[k + 3, start:stop]
        for j in range(out.size):
            out[j] += a * first[j] + b * second[j] + c * third[j] + e * fourth[j]
    for k in range(whole, d):
        a, first = x[k], XT[k, start:stop]
        for j in range(out.size):
            out[j] += a * first[j]


@compiled
def _segment_of(begins, i):
    found = 0
    for t in range(1, begins.size - 1):
        if i >= begins[t]:
            found = t
    return found


@compiled
def have_row(rows, K, i):
    """Make sure that row ``i`` of the group's matrix is there."""
    if rows.have[i]:
        return
    rows.have[i] = True
    source = rows.source
    mine = _segment_of(rows.begins, i)
    row = rows.segments[mine, 0] + i - rows.begins[mine]
    for t in range(rows.begins.size - 1):
        start, size = rows.segments[t, 0], rows.begins[t + 1] - rows.begins[t]
        out = K[i, rows.begins[t] : rows.begins[t + 1]]
        if source.kind == _GRAM:
            values = source.gram[row, start : start + size]
            for j in range(size):
                out[j] = values[j]
        elif t == mine:
            local = i - rows.begins[mine]
            name = rows.names[t]
            place = rows.places[name] + local * size
            kept = rows.own[place : place + size]
            if not rows.own_have[row]:
                rows.own_have[row] = True
                _products(source.X[row], source.XT, start, kept)
                _mapped(
                    source.kind,
                    source.degree,
                    np.float32(source.coef0),
                    kept,
                    source.half[row],
                    source.half[start : start + size],
                )
            for j in range(size):
                out[j] = kept[j]
        else:
            _products(source.X[row], source.XT, start, out)
            _mapped(
                source.kind,
                source.degree,
                np.float32(source.coef0),
                out,
                source.half[row],
                source.half[start : start + size],
            )


@compiled
def _tile(source, first, last, start, stop, out):
    """Compute the kernel values of two ranges of rows at once."""
    np.dot(source.X[first:last], source.X[start:stop].T, out)
    for i in range(last - first):
        _mapped(
            source.kind,
            source.degree,
            np.float32(source.coef0),
            out[i],
            source.half[first + i],
            source.half[start:stop],
        )


@compiled
def fill_tiles(rows, K, memory):
    """Compute the whole matrix of a small group by products of its segments."""
    source, segments, begins = rows.source, rows.segments, rows.begins
    for s in range(begins.size - 1):
        first, last = segments[s, 0], segments[s, 1]
        size = last - first
        if size == 0:
            continue
        place = rows.places[rows.names[s]]
        own = rows.own[place : place + size * size].reshape(size, size)
        if not rows.own_have[first:last].all():
            _tile(source, first, last, first, last, own)
            rows.own_have[first:last] = True
        for i in range(size):
            out = K[begins[s] + i, begins[s] : begins[s + 1]]
            for j in range(size):
                out[j] = own[i, j]
        for t in range(s):
            start, stop = segments[t, 0], segments[t, 1]
            width = stop - start
            if width == 0:
                continue
            tile = memory[: size * width].reshape(size, width)
            _tile(source, first, last, start, stop, tile)
            for i in range(size):
                out = K[begins[s] + i, begins[t] : begins[t + 1]]
                for j in range(width):
                    out[j] = tile[i, j]
            for j0 in range(0, size, _TILE):
                j1 = min(size, j0 + _TILE)
                for i in range(width):
                    out = K[begins[t] + i, begins[s] + j0 : begins[s] + j1]
                    for j in range(j1 - j0):
                        out[j] = tile[j0 + j, i]
    for i in range(begins[-1]):
        rows.have[i] = True


@compiled
def fresh_image(rows, index, c, matters, u, w, wide, values):
    """Write ``K c`` in double precision to ``u``, on the rows that matter.

    ``index`` are the rows of the group by number. For the linear kernel ``w`` becomes the weight
    vector and all rows are written. ``wide`` and ``values`` are memory for the transpose of the
    rows with a coefficient and for their kernel values.
    """
    source = rows.source
    q = c.size
    X = source.wide
    if source.kind == _LINEAR:
        w[:] = 0.0
        for i in range(q):
            if c[i] != 0.0:
                x = X[index[i]]
                for k in range(w.size):
                    w[k] += c[i] * x[k]
        for i in range(q):
            x = X[index[i]]
            total = 0.0
            for k in range(w.size):
                total += w[k] * x[k]
            u[i] = total
        return
    support = np.empty(q, dtype=np.int64)
    count = 0
    for i in range(q):
        if c[i] != 0.0:
            support[count] = i
            count += 1
    d = X.shape[1]
    if source.kind != _GRAM:
        for j in range(count):
            x = X[index[support[j]]]
            for k in range(d):
                wide[k, j] = x[k]
    out = values[:count]
    for i in range(q):
        if not matters[i]:
            continue
        if source.kind == _GRAM:
            row = source.gram[index[i]]
            for j in range(count):
                out[j] = row[index[support[j]]]
        elif source.kind == _RBF:
            # Differences keep their digits where norms would lose them.
            out[:] = 0.0
            x = X[index[i]]
            for k in range(d):
                a, column = x[k], wide[k, :count]
                for j in range(count):
                    difference = a - column[j]
                    out[j] += difference * difference
            for j in range(count):
                out[j] = exp2(-0.5 * out[j])
        else:
            _products(X[index[i]], wide, 0, out)
            _mapped(source.kind, source.degree, source.coef0, out, 0.0, out)
        first = second = third = fourth = 0.0
        whole = count - count % 4
        for j in range(0, whole, 4):
            first += out[j] * c[support[j]]
            second += out[j + 1] * c[support[j + 1]]
            third += out[j + 2] * c[support[j + 2]]
            fourth += out[j + 3] * c[support[j + 3]]
        for j in range(whole, count):
            first += out[j] * c[support[j]]
        u[i] = (first + second) + (third + fourth)
