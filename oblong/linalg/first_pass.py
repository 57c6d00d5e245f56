"""The first pass: counts, moments and a sample of the rows of every class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.threads import chunks
from oblong.linalg.row_passes import (
    Part,
    Passes,
    Present,
    check_finite,
    dense_chunks,
    hashed,
)

# Rows of which the first block tells a centre.
_PROBED = 1024
# Rows at either end of each column.
_EXTREMES = 4


@dataclass(frozen=True)
class Frame:
    """Coordinates ``(x - shift) @ map`` that rows are taken to inside a pass."""

    shift: np.ndarray
    map: np.ndarray

    def of(self, X: Any) -> np.ndarray:
        """Rows in these coordinates."""
        return (np.asarray(X, dtype=np.float64) - self.shift) @ self.map


@dataclass(frozen=True)
class Moments:
    """Weighted moments of rows: number, sum of weights, mean, covariance, mean absolute values.

    The covariance is a matrix, or its diagonal for sparse and wide rows.
    """

    count: int
    weight: float
    mean: np.ndarray
    covariance: np.ndarray
    absolute: np.ndarray

    def mapped(self, frame: Frame | None) -> Moments:
        """The same in other coordinates; the absolute values are those of the rows as they were."""
        if frame is None:
            return self
        mean = (self.mean - frame.shift) @ frame.map
        S = self.covariance if self.covariance.ndim == 2 else np.diag(self.covariance)
        return Moments(self.count, self.weight, mean, frame.map.T @ S @ frame.map, self.absolute)


class Metric:
    """The norm of changes of a model by which outputs of rows are bounded.

    With the mean ``m`` and a positive definite ``S`` near the covariance, a change ``(Δw, Δb)`` of
    length ``|Δ|² = Δw'SΔw + (Δb + m·Δw)²`` changes the output of a row by at most ``q |Δ|``,
    ``q² = 1 + (x - m)'S⁻¹(x - m)``.
    """

    def __init__(self, moments: Moments) -> None:
        self.mean = moments.mean
        S = moments.covariance
        self.most = 3.0 * np.sqrt(len(self.mean) + 1.0)
        tiny = np.finfo(float).tiny
        if S.ndim == 1:
            values = 1.000001 * S
            self._roots = np.sqrt(np.maximum(values, max(1e-8 * values.max(), tiny)))
        else:
            values, vectors = np.linalg.eigh(S + 1e-6 * np.diag(S.diagonal()))
            values = np.maximum(values, max(1e-8 * values[-1], tiny))
            self._roots = np.sqrt(values) * vectors
        self._inverse = self._roots if S.ndim == 1 else vectors / np.sqrt(values)

    def length(self, dw: np.ndarray, db: float) -> float:
        """Length of a change."""
        image = dw * self._roots if self._roots.ndim == 1 else dw @ self._roots
        return float(np.sqrt(image @ image + (db + self.mean @ dw) ** 2))

    def factors(self, X: Any) -> np.ndarray:
        """Factors ``q`` of rows; the largest there are, by definition, are ``most``."""
        if sp.issparse(X):
            inverse = 1.0 / self._inverse
            scaled, centre = X.multiply(inverse).tocsr(), self.mean * inverse
            squares = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
            squares += centre @ centre - 2.0 * (scaled @ centre)
        else:
            image = X - self.mean
            image = image / self._inverse if self._inverse.ndim == 1 else image @ self._inverse
            squares = np.einsum("ij,ij->i", image, image)
        return np.minimum(self.most, np.sqrt(1.0 + np.maximum(squares, 0.0)))


@dataclass(frozen=True)
class FirstLook:
    """What the first pass found.

    Attributes
    ----------
    labels : ndarray
        All labels, sorted; one None without labels.
    moments : list of Moments
        Those of each label.
    X, codes, weight, numbers, order : arrays
        The sample, with the places of its labels; `order` are the hashes, which increase.
    extremes : tuple of arrays
        X, codes, weights and numbers of rows at the ends of the columns.
    whole : bool
        Whether the sample is all rows.
    """

    labels: np.ndarray
    moments: list[Moments]
    X: Any
    codes: np.ndarray
    weight: np.ndarray
    numbers: np.ndarray
    order: np.ndarray
    extremes: tuple[Any, np.ndarray, np.ndarray, np.ndarray]
    whole: bool

    def of(self, codes: Sequence[int]) -> Moments:
        """Moments of the rows of some labels together."""
        parts = [self.moments[code] for code in codes]
        weight = sum(part.weight for part in parts)
        shares = np.array([part.weight / weight for part in parts])
        mean = shares @ np.array([part.mean for part in parts])
        absolute = shares @ np.array([part.absolute for part in parts])
        S: Any = 0.0
        for part in parts:
            off = part.mean - mean
            between = off * off if part.covariance.ndim == 1 else np.outer(off, off)
            S = S + part.weight / weight * (part.covariance + between)
        return Moments(sum(part.count for part in parts), weight, mean, S, absolute)


def stacked(parts: Sequence[Any]) -> Any:
    """Rows one above the other."""
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def row_bytes(rows: Present) -> Part:
    """Bytes of a row in double precision, as the rows of a block have them."""
    n, d = rows.X.shape
    return Part({}, {}, 12.0 * rows.X.nnz / max(n, 1) if sp.issparse(rows.X) else 8.0 * d)


def look(passes: Passes, tau: float, *, extremes: bool = False, widest: int = 512) -> FirstLook:
    """Run the first pass.

    Parameters
    ----------
    passes : Passes
        Who runs it.
    tau : float
        Fraction of the rows that is sampled.
    extremes : bool, default=False
        Whether rows at the ends of the columns are wanted as well.
    widest : int, default=512
        Columns up to which the covariance is a matrix.
    """
    lengths = passes.source.lengths
    assert lengths is not None
    filled = next((k for k, length in enumerate(lengths) if length), None)
    if filled is None:
        raise ValueError("there are no rows")
    centre = passes.run(_probe, only=filled).rows
    found = passes.run(_look, tau, centre, extremes, centre is not None and len(centre) <= widest)
    keys = {key[0] for key in found.sums}
    if not keys:
        raise ValueError("no row has a weight above zero")
    if len({isinstance(key, str) for key in keys}) > 1:
        raise ValueError("some labels are words and others are numbers")
    labels = np.array(sorted(keys)) if keys != {None} else np.array([None])
    shift = np.zeros(passes.source.n_features) if centre is None else centre
    moments = [_moments(found.sums, key, shift) for key in labels.tolist()]
    samples = [rows[0] for rows in found.rows]
    X, y, weight, numbers = (stacked([part[i] for part in samples]) for i in range(4))
    order = hashed(numbers)
    place = np.argsort(order, kind="stable")
    ends = [rows[1] for rows in found.rows if rows[1] is not None]
    outer = tuple(stacked([part[i] for part in ends]) for i in range(4)) if ends else ()
    if ends:
        picked = _ends(outer[0])
        outer = tuple(values[picked] for values in outer)
    else:
        outer = (X[:0], y[:0], weight[:0], numbers[:0])

    def codes(y: np.ndarray) -> np.ndarray:
        return np.zeros(len(y), int) if labels[0] is None else np.searchsorted(labels, y)

    drawn = (X[place], codes(y[place]), weight[place], numbers[place], order[place])
    extreme = (outer[0], codes(outer[1]), outer[2], outer[3])
    return FirstLook(labels, moments, *drawn, extreme, tau >= 1.0)


def _probe(rows: Present) -> Part:
    """Tell a centre near the rows, by which moments keep their digits; None for sparse rows."""
    check_finite(rows)
    if sp.issparse(rows.X):
        return Part({}, {}, None)
    head = np.asarray(rows.X[:_PROBED], dtype=np.float64)
    return Part({}, {}, head.mean(axis=0) if len(head) else np.zeros(rows.X.shape[1]))


def _ends(X: np.ndarray) -> np.ndarray:
    """Rows that are among the smallest or the largest of a column, the first of equal ones."""
    parts = list(chunks(len(X), 4096))
    least = max(0, len(parts) - _EXTREMES)
    found = []
    for sign in (1.0, -1.0):
        # At least as many rows as there are parts whose best reaches the limit reach it too.
        best = np.array([(sign * X[start:stop]).max(axis=0) for start, stop in parts])
        limits = np.sort(best, axis=0)[least] if least else np.full(X.shape[1], -np.inf)
        for values, limit in zip(X.T, limits):
            values = sign * values
            reached = np.flatnonzero(values >= limit)
            order = np.argsort(-values[reached], kind="stable")[:_EXTREMES]
            found.append(reached[order])
    return np.unique(np.concatenate(found))


@np.errstate(over="ignore", invalid="ignore")
def _look(rows: Present, tau: float, centre: np.ndarray | None, extremes: bool, full: bool) -> Part:
    check_finite(rows)
    n = rows.X.shape[0]
    y = np.full(n, None) if rows.y is None else rows.y
    labels: list[Any] = [None]
    codes = np.zeros(n, dtype=np.intp)
    if rows.y is not None:
        found, codes = np.unique(y, return_inverse=True)
        labels = found.tolist()
    sums: dict[Any, Any] = {}

    def add(key: Any, value: Any) -> None:
        sums[key] = sums[key] + value if key in sums else value

    for part, X in dense_chunks(rows.X):
        if centre is not None:
            X = X - centre
        for code, label in enumerate(labels):
            mine = codes[part] == code
            if not mine.any():
                continue
            s = rows.weight[part]
            own, s = (X, s) if mine.all() else (X[mine], s[mine])
            raw = own if centre is None else own + centre
            add((label, "count"), len(s))
            add((label, "weight"), float(s.sum()))
            add((label, "first"), s @ own)
            add((label, "absolute"), s @ abs(raw))
            if full:
                add((label, "second"), (own * s[:, None]).T @ own)
            else:
                squares = own.multiply(own).tocsr() if centre is None else own * own
                add((label, "second"), s @ squares)
    keep = np.flatnonzero(hashed(rows.numbers) < tau)
    outer = None
    if extremes and n and centre is not None:
        outer = _some(rows, y, _ends(rows.X))
    return Part(sums, {}, (_some(rows, y, keep), outer))


def _some(rows: Present, y: np.ndarray, places: np.ndarray) -> tuple[Any, ...]:
    return rows.X[places], y[places], rows.weight[places], rows.numbers[places]


@np.errstate(over="ignore", invalid="ignore")
def _moments(sums: dict[Any, Any], label: Any, centre: np.ndarray) -> Moments:
    weight = sums[label, "weight"]
    off = sums[label, "first"] / weight
    second = sums[label, "second"] / weight
    S = second - np.outer(off, off) if second.ndim == 2 else np.maximum(second - off * off, 0.0)
    if not np.isfinite(S).all():
        raise ValueError("the squared norms of the rows are not finite: scale the data")
    return Moments(sums[label, "count"], weight, centre + off, S, sums[label, "absolute"] / weight)
