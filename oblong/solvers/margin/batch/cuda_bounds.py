"""Relative margin machines that choose their own bounds, many of them on a CUDA device.

All searches of :mod:`oblong.solvers.margin.variable_bound` go on side by side: what they ask for at
a time is solved in one batch, so that the device has as much to do as for given bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oblong.linalg.expansion import Expansion
from oblong.solvers.margin.batch.cuda import (
    BIAS,
    DUAL,
    HIGH,
    LOW,
    OBJECTIVE,
    ROUNDING,
    SCALE,
    DeviceWork,
)
from oblong.solvers.margin.batch.cuda_newton import excess_slopes
from oblong.solvers.margin.batch.cuda_options import CUDA_DEFAULTS, CudaOptions
from oblong.solvers.margin.batch.problem import STATUS, MarginBatch
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.relative import RelativeMarginResult
from oblong.solvers.margin.result import MarginResult
from oblong.solvers.margin.variable_bound import BoundModel, Expand, Solve, search_bound

__all__ = ["solve_bounds_on_device"]


def solve_bounds_on_device(
    batch: MarginBatch,
    D: float,
    nu: float | None,
    weights: np.ndarray,
    *,
    cache_bytes: float = 2.0**30,
    options: MarginOptions = DEFAULTS,
    device: CudaOptions = CUDA_DEFAULTS,
) -> list[RelativeMarginResult]:
    """Solve the problems of all groups with bounds that cost ``D`` a unit.

    Parameters
    ----------
    batch : MarginBatch
        Groups of one support vector machine each, whose matrix is on a device.
    D, nu : float
        The prices of :func:`~oblong.solvers.margin.variable_bound.solve_variable_bound`.
    weights : ndarray of shape (n,)
        Its weights, of all rows of the batch.
    cache_bytes, options, device
        Those of :func:`~oblong.solvers.margin.batch.cuda.solve_batch_on_device`.

    Returns
    -------
    list of RelativeMarginResult
        The solutions; a linear kernel's biases are those of the rows as they were given.
    """
    every = range(batch.n_groups)
    models = [
        BoundModel.of(
            batch.y(g), batch.Cs[0] * batch.factors(g), D, nu, weights[batch.rows(g)]
        )
        for g in every
    ]  # fmt: skip
    prices = None if nu is None else [model.U for model in models]
    answers = _Answers(DeviceWork(batch, cache_bytes, options, device, prices))
    searches = [search_bound(model, batch.tol, batch.max_iter, options) for model in models]
    results: dict[int, RelativeMarginResult] = {}
    asked = {g: next(search) for g, search in enumerate(searches)}
    while asked:
        answered, asked = answers(asked), {}
        for g, answer in answered.items():
            try:
                asked[g] = searches[g].send(answer)
            except StopIteration as end:
                results[g] = end.value
    return [answers.shifted(results[g]) for g in every]


class _Answers:
    """Answers to what searches ask for, by their groups."""

    def __init__(self, work: DeviceWork) -> None:
        self.work, self.sizes = work, work.batch.sizes
        if work.batch.starts is not None:
            every = np.arange(work.batch.n_groups)
            work.rounds.balance(every)
            work.refresh(every)

    def __call__(self, asked: dict[int, Any]) -> dict[int, Any]:
        """Answer all questions: those of the same kind and tolerance together."""
        kinds: dict[Any, dict[int, Any]] = {}
        for g, question in asked.items():
            kind = question.tol if isinstance(question, Solve) else Expand
            kinds.setdefault(kind, {})[g] = question
        answers: dict[int, Any] = {}
        for kind, some in kinds.items():
            places = np.array(list(some))
            for g, question in some.items():
                if isinstance(question, Expand):
                    self.work.rounds.set_line(g, question.coef, question.image)
                elif question.start is not None:
                    self.work.rounds.set_line(g, question.start.dual_coef, question.start.image)
                self.work.bound[g] = question.t
            answers |= self._expand(places) if kind is Expand else self._solve(places, kind)
        return answers

    def _solve(self, places: np.ndarray, tol: float) -> dict[int, tuple[MarginResult, float]]:
        work = self.work
        work.batch = replace(work.batch, tol=tol)
        work.status[places] = 0
        before = work.rounds.steps.copy()
        work.solve(places)
        slopes = np.zeros(len(work.bound))
        bounded = places[work.bound[places] < np.inf]
        if bounded.size:
            slopes[bounded] = excess_slopes(work.rounds, bounded)
        coefs, images = self._lines()
        answers = {}
        for g in places.tolist():
            values, size = work.values[g], self.sizes[g]
            c, u, scale = coefs[g, :size], images[g, :size], values[SCALE]
            margin = MarginResult(
                coef=scale * c, bias=values[BIAS], outputs=scale * u + values[BIAS], dual_coef=c,
                image=u, scale=scale, bias_interval=(values[HIGH], values[LOW]),
                objective=values[OBJECTIVE], dual_objective=values[DUAL],
                rounding=values[ROUNDING], violation=values[HIGH] - values[LOW],
                n_iter=int(work.rounds.steps[g] - before[g]), n_newton=0, n_rounds=0,
                status=STATUS[work.status[g]],
                direction=scale * work.directions[g] if work.linear else None,
            )  # fmt: skip
            answers[g] = margin, float(slopes[g])
        return answers

    def _expand(self, places: np.ndarray) -> dict[int, Expansion]:
        """Outputs in double precision, with their rounding as the certificates bound it."""
        work = self.work
        work.rounds.set_bounds(work.bound)
        work.refresh(places)
        coefs, images = self._lines()
        unit, roots = work.matrix.unit, np.sqrt(np.abs(work.matrix.diagonal))
        answers = {}
        for g in places.tolist():
            own = roots[work.batch.rows(g)]
            c, u = coefs[g, : own.size], images[g, : own.size]
            weight = float(np.abs(c) @ own)
            if not work.linear:
                answers[g] = Expansion.of(c, u, unit * weight * own)
                continue
            w = work.directions[g]
            length, far = float(np.linalg.norm(w)), float(np.abs(w) @ np.abs(work.matrix.shift))
            norm_error = unit * weight * (2.0 * length + unit * weight)
            answers[g] = Expansion(u, unit * (length * own + far), length**2, norm_error, w)
        return answers

    def _lines(self) -> tuple[np.ndarray, np.ndarray]:
        rounds = self.work.rounds
        return rounds.c.copy_to_host(), rounds.u.copy_to_host()

    def shifted(self, result: RelativeMarginResult) -> RelativeMarginResult:
        """Take the shift of the rows of a linear kernel from the bias."""
        margin = result.margin
        if margin.direction is None:
            return result
        bias = margin.bias - float(margin.direction @ self.work.matrix.shift)
        return replace(result, margin=replace(margin, bias=bias))
