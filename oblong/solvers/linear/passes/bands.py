"""One pass of the band method: which rows can change their piece of the loss, and sums of the rest.

The loss of a row is linear in its output ``f`` between the kinks ``f = y`` and ``f = ±T``. The
piece that a row is on, with its class, is its code. Rows near a kink are gathered; all others go
into the weighted mean of their code, one row of a small problem of the same form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oblong.linalg.first_pass import Frame, Metric, stacked
from oblong.linalg.row_passes import (
    Part,
    Present,
    combined,
    dense_chunks,
    hashed,
    known_labels,
)

# Scales of a model for which the loss is summed: a hard bound may ask for a smaller one.
SCALES = 1.0 - np.concatenate([[0.0], np.logspace(-12.0, -0.01, 24), [1.0]])
# How far beyond a hard bound an output is not rounding.
_BEYOND = 1.0 + 1e-9
# Share of the band next to a hard bound whose rows are gathered whatever the sample.
_ALWAYS = 0.25


@dataclass(frozen=True)
class Point:
    """A model with the bound ``T``, and how far it may move: in the metric, and the bound."""

    w: np.ndarray
    b: float
    T: float
    delta: float
    delta_t: float


@dataclass(frozen=True)
class BandQuestion:
    """What a pass is asked about one binary problem.

    Attributes
    ----------
    codes : tuple of int
        Places of the negative labels, and of the positive one.
    C : tuple of float
        Penalties of rows of weight one, of each of these classes.
    U : float or None
        Penalty of an output beyond the bound for a row of weight one; None makes the bound hard.
    points : tuple of Point
        The models of earlier questions whose rows were gathered, and the one to judge.
    metric : Metric
        That of the rows.
    share : tuple of float
        Shares of the negative and the positive rows that take part, by which penalties are divided.
    scaled : bool
        Whether the sum of losses is wanted for all scales.
    frame : Frame or None
        Coordinates of the rows.
    """

    codes: tuple[int, ...]
    C: tuple[float, ...]
    U: float | None
    points: tuple[Point, ...]
    metric: Metric
    share: tuple[float, float] = (1.0, 1.0)
    scaled: bool = False
    frame: Frame | None = None


def near(
    f: np.ndarray, y: np.ndarray, q: np.ndarray | float, point: Point, hard: bool
) -> np.ndarray:
    """Whether outputs can come to a kink while the model stays within reach of the point."""
    reach = point.delta * q
    found = np.abs(1.0 - y * f) <= reach
    if np.isfinite(point.T):
        over, reach = np.abs(f) - point.T, reach + point.delta_t
        found |= over >= -reach if hard else np.abs(over) <= reach
    return found


def pieces(f: np.ndarray, y: np.ndarray, T: float) -> np.ndarray:
    """Codes of rows: two classes, two sides of the margin, three sides of the bound."""
    found = 3 * (y * f < 1.0) + 6 * (y > 0.0)
    if np.isfinite(T):
        found += (f > T) + 2 * (f < -T)
    return found


def places_among(codes: np.ndarray, chosen: tuple[int, ...], n_labels: int) -> np.ndarray:
    """Where the code of each row stands among the chosen ones; -1 where it does not."""
    places = np.full(n_labels, -1)
    places[list(chosen)] = np.arange(len(chosen))
    return places[codes]


def answer_bands(rows: Present, questions: dict[int, BandQuestion], labels: np.ndarray) -> Part:
    """Answer the questions of all problems about one block."""
    codes = known_labels(rows, labels)
    order = hashed(rows.numbers)
    totals = {j: Part({}, {}) for j in questions}
    gathered: dict[int, list[Any]] = {j: [] for j in questions}
    for part, X in dense_chunks(rows.X):
        for j, question in questions.items():
            place = places_among(codes[part], question.codes, len(labels))
            mine = place >= 0
            every = mine.all()
            own, picked = (X, part) if every else (X[mine], part.start + np.flatnonzero(mine))
            own = own if question.frame is None else question.frame.of(own)
            y = np.where(codes[picked] == question.codes[-1], 1.0, -1.0)
            weight = rows.weight[picked]
            C = weight * np.array(question.C)[place if every else place[mine]]
            found = _chunk(question, own, y, C, weight, order[picked])
            totals[j] = combined(totals[j], found)
            gathered[j].append(found.rows)
    joined = {
        j: tuple(stacked([part[i] for part in parts]) for i in range(4)) if parts else None
        for j, parts in gathered.items()
    }
    sums = {(j, key): value for j, part in totals.items() for key, value in part.sums.items()}
    largest = {(j, key): value for j, part in totals.items() for key, value in part.largest.items()}
    return Part(sums, largest, joined)


def _chunk(
    question: BandQuestion,
    X: Any,
    y: np.ndarray,
    C: np.ndarray,
    weight: np.ndarray,
    order: np.ndarray,
) -> Part:
    hard = question.U is None
    U = np.zeros(len(y)) if question.U is None else weight * question.U
    *earlier, now = question.points
    metric = question.metric
    # One product at a time: the bits of a column must not depend on how many there are.
    outputs = [X @ point.w + point.b for point in question.points]
    close = np.zeros(len(y), dtype=bool)
    for point, f in zip(question.points, outputs):
        close |= near(f, y, metric.most, point, hard)
    q = np.zeros(len(y))
    q[close] = metric.factors(X[close])
    inside = np.zeros(len(y), dtype=bool)
    before = None
    for point, f in zip(earlier, outputs):
        piece = pieces(f, y, point.T)
        inside |= near(f, y, q, point, hard)
        if before is not None:
            inside |= piece != before
        before = piece
    f = outputs[-1]
    size = np.abs(f)
    piece = pieces(f, y, now.T)
    wrong = np.zeros(len(y), dtype=bool) if before is None else piece != before
    if hard:
        wrong |= size > now.T * _BEYOND
    wrong &= ~inside
    new = (near(f, y, q, now, hard) | wrong) & ~inside
    rest = ~(inside | new)
    stands_for = np.ones(len(y))
    if min(question.share) < 1.0:
        share = np.where(y > 0.0, question.share[1], question.share[0])
        drawn = order < share
        always = np.zeros(len(y), dtype=bool)
        if hard and np.isfinite(now.T) and np.isfinite(now.delta):
            always = (size > now.T - _ALWAYS * now.delta * q) & close & ~drawn
        new, rest = (new & drawn) | always, rest & drawn
        stands_for = np.where(always, 1.0, 1.0 / share)
    margins = y * f
    losses = np.array([C @ np.maximum(1.0 - margins, 0.0)])
    if question.scaled:
        # A row has a loss for all scales below 1 / (y f).
        from_scale = np.searchsorted(-SCALES, -1.0 / np.maximum(margins, 0.5), side="right")
        sizes = np.cumsum(np.bincount(from_scale, C, len(SCALES) + 1)[:-1])
        slopes = np.cumsum(np.bincount(from_scale, C * margins, len(SCALES) + 1)[:-1])
        losses = np.concatenate([losses, (sizes - SCALES * slopes)[1:]])
    over = 0.0 if hard else float(U @ np.maximum(size - now.T, 0.0))
    sums: dict[Any, Any] = {
        "loss": losses,
        "over": over,
        "wrong": int(np.count_nonzero(wrong)),
    }
    C, U = C * stands_for, U * stands_for
    place = np.flatnonzero(rest)
    counts = np.bincount(piece[place], minlength=12)
    present = np.flatnonzero(counts)
    group = (np.cumsum(counts > 0) - 1)[piece[place]]
    table = np.zeros((len(present), len(y)))
    table[group, place] = C[place]
    beyond = np.bincount(group, U[place], len(present))
    for code, total, C_sum, U_sum in zip(present.tolist(), table @ X, table.sum(axis=1), beyond):
        sums["group", code] = np.concatenate([total, [C_sum, U_sum]])
    return Part(
        sums,
        {"output": float(size.max(initial=0.0))},
        (X[new], y[new], C[new], U[new]),
    )
