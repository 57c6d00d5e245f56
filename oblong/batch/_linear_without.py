"""The linear relative margin classifier without some of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from oblong._core.threads import available_threads
from oblong.batch._calibration_folds import CrossFit
from oblong.batch._one_vs_one import pairs_of
from oblong.batch._rows import validated_rows
from oblong.batch._workers import in_threads
from oblong.batch.linear_relative_margin import LinearRelativeMarginClassifier


def leave_out_linear(
    model: LinearRelativeMarginClassifier,
    X: Any,
    y: np.ndarray,
    kept: np.ndarray,
    weights: np.ndarray | None,
    folds: Sequence[np.ndarray],
    *,
    tol: float,
    keep: bool,
    n_jobs: int | None,
) -> CrossFit:
    """Solve every pair of classes of a fitted model without each fold.

    The class weights and the bounds remain those of all rows: to find a bound takes a solution
    more. The solutions themselves start again, as an interior point gains nothing by another's.
    Parameters and results are those of
    :class:`~oblong.batch._relative_margin_without.RelativeMarginWithout`.
    """
    X = validated_rows(model, X, reset=False)
    labels, pairs = np.searchsorted(model.classes_, y[kept]), pairs_of(len(model.classes_))
    own = np.ones(kept.size) if weights is None else weights[kept]
    penalties = model._penalties(labels, own)
    held = model.D != 0.0 and model.nu is None and (model.D is not None or model.spread < 1.0)
    parts = [copy(model) for _ in pairs]
    for part, B in zip(parts, model.B_):
        part.tol = tol
        if part.B is None and held:
            part.B, part.D = max(1.0, float(B)), None
    jobs = min(len(folds), effective_n_jobs(n_jobs))
    threads = 1 if jobs > 1 else available_threads()

    def solve(test: np.ndarray) -> tuple[LinearRelativeMarginClassifier, np.ndarray]:
        rest, fits = np.delete(np.arange(kept.size), test), []
        for part, (positive, negative) in zip(parts, pairs):
            first = labels[rest] == positive
            pair = first | (labels[rest] == negative)
            rows, signs = rest[pair], np.where(first[pair], 1.0, -1.0)
            fits.append(part._fit_pair(X[kept[rows]], signs, penalties[rows], own[rows], threads))
        found = copy(model)
        found._store_weights(fits)
        found._keep([fit.solution for fit in fits])
        return found, found._evaluate(X[kept[test]])

    found = in_threads(solve, [(test,) for test in folds], jobs)
    models, outputs = [each for each, _ in found], np.empty((kept.size, len(pairs)))
    for test, (_, values) in zip(folds, found):
        outputs[test] = values
    return CrossFit(
        outputs,
        models if keep else [],
        float(max(each.dual_gap_.max() for each in models)),
        int(sum(each.n_iter_.sum() for each in models)),
        all(each.converged_ for each in models),
    )
