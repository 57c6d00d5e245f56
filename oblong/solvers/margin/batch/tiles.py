"""Rows of the kernel matrix of a group, computed or copied when a step first asks for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from oblong._core.compile import compiled, uncounted
from oblong._core.exp2 import LOG2_E, exp2
from oblong.kernels import Kernel
from oblong.solvers.margin.batch.problem import GramTiles, RowTiles

__all__ = [
    "TINY",
    "Exact",
    "GroupRows",
    "TileSource",
    "fill_tiles",
    "fresh_image",
    "have_row",
    "prepare",
]

# Curvature, over the diagonal, that is rounding of single precision.
TINY = 4.0 * float(np.finfo(np.float32).eps)
_LINEAR, _POLY, _RBF, _DOUBLE, _SINGLE = range(5)
_KINDS = {"linear": _LINEAR, "poly": _POLY, "rbf": _RBF}
# Rounding of an exponent, and sizes of kernel values, that single precision can do.
_SINGLE_EXPONENT_ERROR = 1e-5
_SINGLE_RANGE = (1e-25, 1e30)
# Pairs of rows that are looked at to see whether single precision tells them apart.
_PROBES = 256
# Rows of a tile in double precision.
_BLOCK = 64


class TileSource(NamedTuple):
    """What rows of the kernel matrix come from.

    The rows of the rbf kernel are scaled so that ``2^(x·z - |x|²/2 - |z|²/2)`` is its value. A
    matrix in memory is ``gram`` in double precision, and in the place of the rows in single: with
    the same types, loops are compiled once for all of them.
    """

    kind: int
    degree: int
    coef0: float
    gram: np.ndarray
    X: np.ndarray
    XT: np.ndarray
    half: np.ndarray


class Exact(NamedTuple):
    """What the double-precision check of a solution needs.

    ``single`` and ``double`` are the rounding of a kernel value, in units of the product of two
    ``sizes``, which are roots of the diagonal; ``shift`` was subtracted from the rows of the linear
    kernel.
    """

    rows: np.ndarray
    diagonal: np.ndarray
    sizes: np.ndarray
    shift: np.ndarray
    single: float
    double: float


class GroupRows(NamedTuple):
    """The rows of one group, which of them are at hand, and blocks that groups share.

    ``parts`` has for each segment its first and last row, where it begins in the group, and where
    its block with itself begins in ``own``. ``held`` says that the matrix of the
    group was there from the beginning.

    Of a block of the group ``have`` says which of its own rows are at hand, ``chosen`` which rows
    of the group they are, ``there`` which of these are at hand, and ``matrix`` is that of the
    group; for the group itself ``chosen`` is empty.
    """

    source: TileSource
    parts: np.ndarray
    have: np.ndarray
    own: np.ndarray
    own_have: np.ndarray
    diagonal: np.ndarray
    held: bool
    chosen: np.ndarray
    there: np.ndarray
    matrix: np.ndarray


def prepare(tiles: RowTiles | GramTiles, matrix_rows: int = 0) -> tuple[TileSource, Exact] | None:
    """Bring rows or a matrix to the form that the loops need; None where they cannot do it.

    The matrix of at most ``matrix_rows`` rows takes their place.
    """
    eps, single = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)
    none64 = np.empty((0, 0))
    none, flat = np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.float32)
    if isinstance(tiles, GramTiles):
        diagonal = tiles.K.diagonal().astype(np.float64)
        exact = Exact(none64, diagonal, _sizes(diagonal), np.empty(0), 4.0 * single, 4.0 * eps)
        # In either order the rows of a symmetric matrix are at hand, and one order is compiled.
        K = np.ascontiguousarray(tiles.K.T if tiles.K.flags.f_contiguous else tiles.K)
        source = TileSource(_DOUBLE, 0, 0.0, K, none, none, flat)
        if K.dtype == np.float32:
            source = TileSource(_SINGLE, 0, 0.0, none64, K, none, flat)
        return (source, exact) if _in_range(diagonal) else None
    kernel, X = tiles.kernel, tiles.X
    if kernel.name not in _KINDS or sp.issparse(X):
        return None
    shift = kernel.centre(X)
    rows = np.ascontiguousarray(X if shift is None else X - shift, dtype=np.float64)
    units = 4.0
    if kernel.name == "rbf":
        rows = rows * np.sqrt(2.0 * kernel.gamma * LOG2_E)
    elif kernel.name == "poly":
        rows = rows * np.sqrt(kernel.gamma)
        units += kernel.degree
    half = 0.5 * np.einsum("ij,ij->i", rows, rows)
    with np.errstate(over="ignore"):
        diagonal = 2.0 * half
        if kernel.name == "rbf":
            units += float(half.max(initial=0.0)) / LOG2_E
            diagonal = np.ones(len(rows))
        elif kernel.name == "poly":
            diagonal = (diagonal + kernel.coef0) ** kernel.degree
    if not _in_range(diagonal) or not (units - 4.0) * single <= _SINGLE_EXPONENT_ERROR:
        return None
    if len(rows) and not _apart(rows, kernel, diagonal, units * single):
        return None
    kind, coef0 = _KINDS[kernel.name], float(kernel.coef0)
    if len(rows) <= matrix_rows and kernel.name != "linear":
        # One product for all groups: their double-precision checks would compute most of it twice.
        if kernel.name == "rbf":
            units += 3.0 * float(half.max(initial=0.0))
        K = rows @ rows.T
        _map_all(kind, int(kernel.degree), coef0, K, half)
        source = TileSource(_DOUBLE, 0, 0.0, K, none, none, flat)
        rounding = units * single, units * eps
        return source, Exact(none64, diagonal, _sizes(diagonal), np.empty(0), *rounding)
    X = rows.astype(np.float32)
    # Norms, which distances in double precision come from, lose some digits.
    double = units + 3.0 * float(half.max(initial=0.0)) * (kernel.name == "rbf")
    source = TileSource(
        kind, int(kernel.degree), coef0, none64, X, np.ascontiguousarray(X.T),
        half.astype(np.float32),
    )  # fmt: skip
    own_shift = np.empty(0) if shift is None or kind != _LINEAR else shift
    return source, Exact(rows, diagonal, _sizes(diagonal), own_shift, units * single, double * eps)


def _apart(rows: np.ndarray, kernel: Kernel, diagonal: np.ndarray, rounding: float) -> bool:
    """Whether single precision tells most rows apart that are no neighbours.

    It does for the linear kernel, whose rows are centred.
    """
    if kernel.name == "linear":
        return True
    half = len(rows) // 2
    some, others = (slice(start, start + half, max(1, half // _PROBES)) for start in (0, half))
    with np.errstate(over="ignore", invalid="ignore"):
        if kernel.name == "rbf":
            offsets = rows[some] - rows[others]
            curvatures = -2.0 * np.expm1(-0.5 / LOG2_E * np.einsum("ij,ij->i", offsets, offsets))
        else:
            products = np.einsum("ij,ij->i", rows[some], rows[others]) + kernel.coef0
            curvatures = diagonal[some] + diagonal[others] - 2.0 * products**kernel.degree
    apart = np.count_nonzero(curvatures > 64.0 * rounding * diagonal.max())
    return bool(2 * apart > len(curvatures))


def _sizes(diagonal: np.ndarray) -> np.ndarray:
    return np.sqrt(np.abs(diagonal))


def _in_range(diagonal: np.ndarray) -> bool:
    largest = float(np.abs(diagonal).max(initial=0.0))
    return _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1] and bool(np.isfinite(diagonal).all())


@uncounted
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
def _map_all(kind, degree, coef0, values, half):
    for i in range(len(values)):
        _mapped(kind, degree, coef0, values[i], half[i], half)


@uncounted
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


@uncounted
def _copy(values, out, start):
    into = out[start : start + values.size]
    for j in range(values.size):
        into[j] = values[j]


@uncounted
def have_row(rows, K, i):
    """Make sure that row ``i`` of the matrix of a group, or of a block of it, is there."""
    rows.have[i] = True
    if rows.chosen.size == 0:
        _compute_row(rows, K, np.int64(i))
        return
    row, out = rows.chosen[i], np.uintp(i)
    if not rows.there[row]:
        rows.there[row] = True
        _compute_row(rows, rows.matrix, row)
    for j in range(rows.chosen.size):
        K[out, np.uintp(j)] = rows.matrix[np.uintp(row), np.uintp(rows.chosen[j])]


@uncounted
def _compute_row(rows, K, i):
    source, parts = rows.source, rows.parts
    X, gram = source.X, source.gram
    mine = 0
    for t in range(1, len(parts)):
        if i >= parts[t, 2]:
            mine = t
    local = i - parts[mine, 2]
    row = parts[mine, 0] + local
    for t in range(0 if rows.held else len(parts)):
        start = parts[t, 0]
        size = parts[t, 1] - start
        if source.kind == _SINGLE:
            _copy_part(X, row, start, K, i, parts[t, 2], size)
            continue
        if source.kind == _DOUBLE:
            _copy_part(gram, row, start, K, i, parts[t, 2], size)
            continue
        out = K[i, parts[t, 2] : parts[t, 2] + size]
        place = parts[t, 3] + local * size
        if t != mine or not rows.own_have[row]:
            _products(X[row], source.XT, start, out)
            _mapped(
                source.kind, source.degree, np.float32(source.coef0), out, source.half[row],
                source.half[start : start + size],
            )  # fmt: skip
            if t == mine:
                rows.own_have[row] = True
                _copy(out, rows.own, place)
        else:
            _copy(rows.own[place : place + size], out, 0)


@uncounted
def _copy_part(matrix, row, start, K, i, place, size):
    """Copy part of a row; places that are unsigned cannot count from the end."""
    source, first, out, into = np.uintp(row), np.uintp(start), np.uintp(i), np.uintp(place)
    for j in range(np.uintp(size)):
        K[out, into + j] = matrix[source, first + j]


@uncounted
def _copy_parts(matrix, parts, K):
    for s in range(len(parts)):
        for i in range(parts[s, 1] - parts[s, 0]):
            for t in range(len(parts)):
                _copy_part(
                    matrix, parts[s, 0] + i, parts[t, 0], K, parts[s, 2] + i, parts[t, 2],
                    parts[t, 1] - parts[t, 0],
                )  # fmt: skip


@compiled
def fill_tiles(rows, K, memory):
    """Compute or copy the whole matrix of a small group, by products of its segments."""
    source, parts = rows.source, rows.parts
    if source.kind >= _DOUBLE:
        if source.kind == _SINGLE:
            _copy_parts(source.X, parts, K)
        else:
            _copy_parts(source.gram, parts, K)
        rows.have[:] = True
        return
    for s in range(len(parts)):
        first = parts[s, 0]
        size = parts[s, 1] - first
        for t in range(s + 1):
            start = parts[t, 0]
            width = parts[t, 1] - start
            if size == 0 or width == 0:
                continue
            tile = memory[: size * width]
            there = False
            if s == t:
                tile = rows.own[parts[s, 3] : parts[s, 3] + size * size]
                # A larger group may have computed some rows of the block, but not all.
                there = rows.own_have[first : first + size].all()
            if not there:
                values = tile.reshape(size, width)
                np.dot(source.X[first : first + size], source.X[start : start + width].T, values)
                for i in range(size):
                    _mapped(
                        source.kind, source.degree, np.float32(source.coef0), values[i],
                        source.half[first + i], source.half[start : start + width],
                    )  # fmt: skip
                    rows.own_have[first + i] |= s == t
            for i in range(size):
                _copy(tile[i * width : (i + 1) * width], K[parts[s, 2] + i], parts[t, 2])
                if s != t:
                    # The column of the other part; what it is read from is in cache.
                    for j in range(width):
                        K[parts[t, 2] + j, parts[s, 2] + i] = tile[i * width + j]
    rows.have[:] = True


def _product(x, z):
    total = 0.0
    for k in range(x.size):
        total += x[k] * z[k]
    return total


_product = compiled(_product, reassociate=True)


@compiled
def fresh_image(source, X, index, c, matters, u, w, memory):
    """Write ``K c`` in double precision to ``u``, on the rows that matter.

    ``index`` are the rows of the group by number. For the linear kernel ``w`` becomes the weight
    vector and all rows are written. ``memory`` has room for the rows of the group.
    """
    d = X.shape[1]
    if source.kind == _LINEAR:
        for k in range(d):
            w[k] = 0.0
        for i in range(c.size):
            if c[i] != 0.0:
                for k in range(d):
                    w[k] += c[i] * X[index[i], k]
        for i in range(c.size):
            u[i] = _product(w, X[index[i]])
        return
    # Rows with coefficients first, then those that matter without.
    listed = np.empty(c.size, dtype=np.int64)
    count = total = 0
    for own in (True, False):
        for i in range(c.size):
            if (c[i] != 0.0) == own and (own or matters[i]):
                listed[total] = i
                total += 1
        count = total if own else count
    rows = memory[: total * d].reshape(total, d)
    half, coef, image = np.empty(total), np.empty(total), np.zeros(total)
    for i in range(total):
        coef[i] = c[listed[i]]
        if d > 0:
            rows[i] = X[index[listed[i]]]
            half[i] = 0.5 * _product(rows[i], rows[i])
    tile = np.empty(min(_BLOCK, total) * count)
    for first in range(0, total, _BLOCK):
        last = min(first + _BLOCK, total)
        # The matrix is symmetric: an entry of two rows with coefficients counts for both.
        width = min(last, count)
        values = tile[: (last - first) * width].reshape(last - first, width)
        if d > 0:
            np.dot(rows[first:last], rows[:width].T, values)
        for i in range(first, last):
            row = values[i - first]
            if d > 0:
                _mapped(source.kind, source.degree, source.coef0, row, half[i], half)
            elif source.kind == _SINGLE:
                for j in range(width):
                    row[j] = source.X[index[listed[i]], index[listed[j]]]
            else:
                for j in range(width):
                    row[j] = source.gram[index[listed[i]], index[listed[j]]]
            size = min(i + 1, count)
            image[i] += _product(row[:size], coef[:size])
            if i < count:
                for j in range(i):
                    image[j] += row[j] * coef[i]
    for i in range(total):
        if matters[listed[i]]:
            u[listed[i]] = image[i]
