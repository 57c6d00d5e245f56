"""Scores of a model on held-out rows, and whether it is better than no model at all."""

import argparse
import warnings
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn import model_selection as selection
from sklearn.base import clone
from sklearn.metrics import make_scorer
from sklearn.pipeline import Pipeline

from oblong._core.text import quote
from oblong.cli.comparison.significance import LEVEL, RARE, corrected_t_test, mcnemar
from oblong.io.dataset import Table

_FOLDS = 5
# Rows above which a fifth of them is held out once, in place of cross-validation.
_MANY_ROWS = 50_000


def fewest(table: Table) -> int:
    """Rows of the smallest class."""
    return int(np.unique(table.y, return_counts=True)[1].min())


def lone_class(table: Table) -> str:
    """The smallest class, for a message about its single row."""
    return quote(table.target_names[int(np.unique(table.y, return_counts=True)[1].argmin())])


def folds(table: Table, args: argparse.Namespace, k: int = _FOLDS) -> selection.StratifiedKFold:
    """So many folds, or as many as the smallest class has rows."""
    k = min(k, fewest(table))
    return selection.StratifiedKFold(k, shuffle=True, random_state=args.seed)


def held_out_scores(
    table: Table, pipeline: Pipeline, args: argparse.Namespace, tried: int
) -> dict[str, Any] | None:
    """Scores on held-out rows, of models fitted to the others; None where there cannot be any.

    `tried` is the number of models of which this is the best on the same rows.
    """
    if fewest(table) < 2:
        return None
    splitter: Any = folds(table, args)
    how = f"{splitter.n_splits} folds"
    if len(table.y) > _MANY_ROWS:
        splitter = selection.StratifiedShuffleSplit(1, test_size=0.2, random_state=args.seed)
        how = "a fifth, held out once"
    if args.model is None:
        how += ", on rows that were also used to choose the model"
    two = len(table.target_names) == 2
    scoring: dict[str, Any] = {"error": "accuracy", "balanced_error": "balanced_accuracy"}
    if hasattr(pipeline, "predict_proba"):
        scoring |= {"auc": "roc_auc" if two else "roc_auc_ovr", "log_loss": "neg_log_loss"}
    elif two:
        scoring["auc"] = "roc_auc"
    scoring |= against_majority(table)
    with warnings.catch_warnings(action="ignore"), parallel_config("threading"):
        # A fold may lack what a score or a fit needs; then there is none.
        found = selection.cross_validate(
            clone(pipeline), table.X, table.y, cv=splitter, scoring=scoring, n_jobs=args.jobs or -1
        )

    def mean(name: str) -> float | None:
        values = found.get(f"test_{name}")
        return None if values is None or np.isnan(values).any() else float(np.mean(values))

    accuracy, balanced, loss, auc = map(mean, ("error", "balanced_error", "log_loss", "auc"))
    if accuracy is None or balanced is None:
        return None
    ranks = False
    if auc is not None and auc > 0.5 and len(found["test_auc"]) > 1:
        ratio = 1.0 / (len(found["test_auc"]) - 1)
        ranks = tried * corrected_t_test(found["test_auc"] - 0.5, ratio) < LEVEL
    return {
        "error": 1.0 - accuracy,
        "balanced_error": 1.0 - balanced,
        "auc": auc,
        "log_loss": None if loss is None else -loss,
        "how": how,
        "ranks": ranks,
    } | judged(table, int(found["test_wins"].sum()), int(found["test_losses"].sum()), tried)


def _majority(table: Table) -> tuple[str, Any, float]:
    """The most frequent class, its label, and the fraction of rows of other classes."""
    labels, counts = np.unique(table.y, return_counts=True)
    most = int(counts.argmax())
    return table.target_names[most], labels[most], float(1.0 - counts[most] / counts.sum())


def against_majority(table: Table) -> dict[str, Any]:
    """Scorers: rows that only a model predicts rightly, and that only the majority class does."""
    _, label, _ = _majority(table)

    def wins(truth: np.ndarray, predicted: np.ndarray) -> int:
        return int(np.sum((predicted == truth) & (truth != label)))

    def losses(truth: np.ndarray, predicted: np.ndarray) -> int:
        return int(np.sum((predicted != truth) & (truth == label)))

    return {"wins": make_scorer(wins), "losses": make_scorer(losses)}


def judged(table: Table, wins: int, losses: int, tried: int) -> dict[str, Any]:
    """How a model compares with the majority class, by the rows that only one of them gets right.

    The best of several models is better than it should be: each of them has had its chance.
    """
    p = min(1.0, tried * mcnemar(wins, losses))
    return {"majority_error": _majority(table)[2], "wins": wins, "losses": losses, "p": p}


def verdict(table: Table, scores: dict[str, Any]) -> str | None:
    """A note on a model that is no better than the most frequent class; None on a better one."""
    if scores["p"] < LEVEL:
        return None
    name, _, error = _majority(table)
    better = "not clearly better" if scores["wins"] > scores["losses"] else "no better"
    text = f"the model is {better} than always {quote(name)}, which is wrong for "
    text += f"{100 * error:.2f} % of the rows"
    counts = np.unique(table.y, return_counts=True)[1]
    if scores.get("ranks") and counts.min() < RARE * counts.sum():
        text += (
            f"; but it ranks rows of the rarer classes higher (AUC {scores['auc']:.3f}), and "
            "--class-weight balanced or --threshold balanced finds more of them"
        )
    return text
