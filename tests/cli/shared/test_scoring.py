"""Whether a model is better than the most frequent class."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import Pipeline

from oblong.cli.shared.scoring import held_out_scores, judged, verdict
from oblong.io.dataset import Schema, Table

ARGS = argparse.Namespace(seed=0, jobs=1, model="logistic")
MODEL = Pipeline([("model", LogisticRegression())])


def made(n, shift, rare=0.5, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < rare).astype(int)
    X = rng.normal(size=(n, 3)) + shift * y[:, None]
    return Table(X, y, ("ja", "nein"), Schema(3), "t")


def test_held_out_scores__rows_that_only_one_of_both_gets_right():
    table = made(200, 1.0)
    scores = held_out_scores(table, MODEL, ARGS, 1)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    right = cross_val_predict(MODEL, table.X, table.y, cv=folds) == table.y
    also = table.y == np.bincount(table.y).argmax()
    assert (scores["wins"], scores["losses"]) == (sum(right & ~also), sum(also & ~right))
    assert scores["majority_error"] == pytest.approx(1 - accuracy_score(table.y, np.zeros(200)))
    assert scores["p"] < 1e-3


def test_verdict__noise_is_no_better():
    """At most one in twenty tables of noise may pass."""
    said = []
    for seed in range(40):
        table = made(60, 0.0, seed=seed)
        said.append(verdict(table, held_out_scores(table, MODEL, ARGS, 1)))
    assert said.count(None) <= 4
    assert all("better than always " in text for text in said if text)


def test_verdict__signal_is_better():
    for n in (30, 300):
        table = made(n, 2.0)
        assert verdict(table, held_out_scores(table, MODEL, ARGS, 1)) is None


def test_verdict__the_best_of_many_has_to_be_better_than_one():
    table = made(100, 0.0)
    one, many = (judged(table, 20, 8, tried) for tried in (1, 72))
    assert verdict(table, one) is None
    assert "not clearly better than always " in verdict(table, many)
    equal = judged(table, 8, 8, 1)
    assert verdict(table, equal).startswith('the model is no better than always "')


def test_verdict__a_rare_class_may_rank_higher():
    table = made(2000, 0.7, rare=0.02)
    text = verdict(table, held_out_scores(table, MODEL, ARGS, 1))
    assert "but it ranks rows of the rarer classes higher (AUC 0.8" in text
    noise = made(2000, 0.0, rare=0.02)
    text = verdict(noise, held_out_scores(noise, MODEL, ARGS, 1))
    assert text.endswith("% of the rows")
