"""Outputs of classifiers on rows that they have not seen, fold by fold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from oblong.batch._calibration_folds import CrossFit
from oblong.batch._one_vs_one import class_scores, pair_outcomes
from oblong.batch._one_vs_rest import OneVsRestMixin
from oblong.batch._pairwise import PairwiseKernelClassifier
from oblong.batch._relative_margin_without import can_leave_out, leave_out, leave_out_linear
from oblong.batch._workers import in_threads
from oblong.batch.linear_relative_margin import LinearRelativeMarginClassifier
from oblong.batch.relative_margin import RelativeMarginClassifier
from oblong.batch.relative_margin_cv import RelativeMarginClassifierCV
from oblong.batch.universum import UniversumSVC

# Models of more folds than this are not kept for the prediction of sets.
MOST_KEPT = 50

# Models from outside ------------------------------------------------------------------------------


def settled(model: Any) -> Any:
    """Return the estimator that a search has settled on, or the estimator itself."""
    return model.best_estimator_ if isinstance(model, RelativeMarginClassifierCV) else model


def _parts(model: Any) -> tuple[list[Any], Any]:
    """Split pipelines, one in the other too, into what comes before the classifier, and it."""
    before = []
    while isinstance(model, Pipeline):
        before += [model[:-1]] if len(model.steps) > 1 else []
        model = model.steps[-1][1]
    return before, model


def is_pairwise(model: Any, n_problems: int) -> bool:
    """Tell whether the outputs of a fitted model belong to pairs of its classes."""
    final = settled(_parts(model)[1])
    k = len(final.classes_)
    if k == 2 or isinstance(final, OneVsRestMixin):
        return False
    if isinstance(final, PairwiseKernelClassifier):
        return final._votes
    pairs = k * (k - 1) // 2
    shape = getattr(final, "decision_function_shape", None)
    return n_problems == pairs and (n_problems != k or shape == "ovo")


def outputs_of(model: Any, X: Any) -> np.ndarray:
    """Outputs of every binary problem in double precision, of shape (n, n_problems)."""
    before, final = _parts(model)
    final = settled(final)
    if isinstance(final, (PairwiseKernelClassifier, OneVsRestMixin)):
        for steps in before:
            X = steps.transform(X)
        return final._outputs(X).astype(np.float64, copy=False)
    outputs = np.asarray(model.decision_function(X), dtype=np.float64)
    return outputs[:, None] if outputs.ndim == 1 else outputs


def predicted(model: Any, X: Any, outputs: np.ndarray) -> np.ndarray:
    """Classes that the model may predict, as truth values of shape (n, n_classes).

    Several are true only in rows where the model breaks a tie at random.
    """
    final = settled(_parts(model)[1])
    classes = np.asarray(final.classes_)
    k = len(classes)
    if not isinstance(final, (PairwiseKernelClassifier, OneVsRestMixin)):
        places = np.searchsorted(classes, model.predict(X))
    elif k == 2:
        places = (outputs[:, 0] > 0).astype(np.intp)
    elif isinstance(final, OneVsRestMixin) or not final._votes:
        places = outputs.argmax(axis=1)
    elif final.break_ties in (True, "confidence"):
        places = class_scores(outputs, k).argmax(axis=1)
    else:
        votes, _ = pair_outcomes(outputs, k)
        if final.break_ties == "random":
            return votes == votes.max(axis=1, keepdims=True)
        places = votes.argmax(axis=1)
    return places[:, None] == np.arange(k)


def _tolerant(model: Any, tol: float) -> Any:
    """Return a model to fit to the folds: what a search has settled on, with their tolerance."""
    model = clone(settled(model))
    final = _parts(model)[1]
    # Of other classifiers ``tol`` says something else, or costs nothing.
    if isinstance(final, (RelativeMarginClassifier, LinearRelativeMarginClassifier, UniversumSVC)):
        final.set_params(tol=tol)
    return model


# Folds --------------------------------------------------------------------------------------------


def cross_fit(
    fitted: Any,
    X: Any,
    y: np.ndarray,
    folds: Sequence[np.ndarray],
    kept: np.ndarray,
    weights: np.ndarray | None,
    fit_params: dict[str, Any],
    *,
    tol: float,
    n_jobs: int | None = None,
    precomputed: bool = False,
) -> CrossFit:
    """Fit a model without each fold, and evaluate it on that fold.

    Parameters
    ----------
    fitted : estimator
        Fitted to all rows.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        All rows.
    y : array of shape (n_samples,)
        Their labels.
    folds : sequence of ndarray of int
        Places in ``kept`` of the rows of each fold; together all of them, once.
    kept : ndarray of int of shape (n,)
        Rows with a weight above zero.
    weights : ndarray of shape (n_samples,) or None
        Weights for the fits.
    fit_params : dict
        What else the fits take.
    tol : float
        Tolerance of the folds.
    n_jobs : int, default=None
        Folds to fit at once.
    precomputed : bool, default=False
        Whether ``X`` holds kernel values of the rows among each other.
    """
    inner = settled(fitted)
    if can_leave_out(inner) and not fit_params:
        keep = len(folds) <= MOST_KEPT
        return leave_out(inner, X, y, kept, weights, folds, tol=tol, keep=keep)
    alone = type(inner) is LinearRelativeMarginClassifier and (
        inner._votes or len(inner.classes_) == 2
    )
    if alone and not fit_params:
        keep = len(folds) <= MOST_KEPT
        return leave_out_linear(
            inner, X, y, kept, weights, folds, tol=tol, keep=keep, n_jobs=n_jobs
        )
    template = _tolerant(fitted, tol)

    def fit(test: np.ndarray) -> tuple[Any, np.ndarray]:
        train = np.delete(kept, test)
        model = clone(template)
        options = {
            key: _some(value, train, key, _num_samples(X)) for key, value in fit_params.items()
        }
        if weights is not None:
            options["sample_weight"] = weights[train]
        rows = _safe_indexing(X, train)
        model.fit(rows[:, train] if precomputed else rows, y[train], **options)
        unseen = _safe_indexing(X, kept[test])
        return model, outputs_of(model, unseen[:, train] if precomputed else unseen)

    found = in_threads(fit, [(test,) for test in folds], n_jobs)
    outputs = np.empty((kept.size, found[0][1].shape[1]))
    for test, (_, values) in zip(folds, found):
        outputs[test] = values
    models = [model for model, _ in found]
    finals = [settled(_parts(model)[1]) for model in models]
    # Of some classifiers of scikit-learn the number is None.
    steps = [getattr(final, "n_iter_", None) for final in finals]
    gaps = [np.max(final.dual_gap_) for final in finals if hasattr(final, "dual_gap_")]
    return CrossFit(
        outputs,
        models if len(folds) <= MOST_KEPT else [],
        float(max(gaps, default=np.nan)),
        int(sum(np.sum(count) for count in steps if count is not None)),
        all(getattr(final, "converged_", True) for final in finals),
        [np.delete(kept, test) for test in folds] if precomputed else None,
    )


def _some(value: Any, rows: np.ndarray, name: str, n_samples: int) -> Any:
    """Values of a parameter for some of the rows, if it has one per row."""
    if name == "X_universum" or not hasattr(value, "__len__") or isinstance(value, (str, dict)):
        return value
    return _safe_indexing(value, rows) if _num_samples(value) == n_samples else value
