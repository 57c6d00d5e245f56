from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.linear_model import Perceptron, SGDClassifier
from sklearn.svm import SVC

from oblong import AROWClassifier, ImprovedEllipsoidClassifier, PassiveAggressiveClassifier
from oblong.display import RegretDisplay

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 5)) * np.linspace(0.5, 3.0, 5)
Y = np.where(X @ [2.0, -1.0, 0.5, 0.0, 0.0] > 0, "yes", "no")


@pytest.fixture
def ax():
    return Figure().add_subplot()


def by_hand(learner, X, y):
    """Predict, count, learn: one row at a time."""
    total, counts = 0, []
    learner.partial_fit(X[:1], y[:1], classes=np.unique(y))
    total = 1
    counts.append(total)
    for i in range(1, len(y)):
        total += int(learner.predict(X[i : i + 1])[0] != y[i])
        learner.partial_fit(X[i : i + 1], y[i : i + 1])
        counts.append(total)
    return counts


def test_curves_are_progressive(ax):
    learners = {
        "AROW": AROWClassifier(),
        "perceptron": Perceptron(random_state=0),
        "PA": PassiveAggressiveClassifier(),
    }
    display = RegretDisplay.from_estimator(learners, X, Y, ax=ax)
    np.testing.assert_array_equal(display.rounds, np.arange(1, 151))
    assert list(display.mistakes) == list(learners)
    expected = by_hand(Perceptron(random_state=0), X, Y)
    np.testing.assert_array_equal(display.mistakes["perceptron"], [expected])
    for name, learner in (("AROW", AROWClassifier()), ("PA", PassiveAggressiveClassifier())):
        np.testing.assert_array_equal(display.mistakes[name], [by_hand(learner, X, Y)])
        # The learners given are not touched.
        assert not hasattr(learners[name], "classes_")
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), expected)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[1] == f"perceptron: {expected[-1]}"


def test_fewer_points_are_some_of_all(ax):
    learners = {"AROW": AROWClassifier(), "SGD": SGDClassifier(random_state=0)}
    full = RegretDisplay.from_estimator(learners, X, Y, ax=ax)
    some = RegretDisplay.from_estimator(learners, X, Y, n_points=7, ax=ax)
    assert len(some.rounds) == 7
    assert some.rounds[-1] == 150
    for name in learners:
        wanted = full.mistakes[name][:, some.rounds - 1]
        np.testing.assert_array_equal(some.mistakes[name], wanted)


@pytest.mark.parametrize("wrap", [sp.csr_matrix, sp.csc_array, pd.DataFrame])
def test_containers(ax, wrap):
    # scikit-learn slows the intercept down if rows are sparse.
    other = SGDClassifier(fit_intercept=False, random_state=0)
    learners = {"AROW": AROWClassifier(), "SGD": other}
    plain = RegretDisplay.from_estimator(learners, X, Y, n_points=20, ax=ax)
    other = RegretDisplay.from_estimator(learners, wrap(X), list(Y), n_points=20, ax=ax)
    for name in learners:
        np.testing.assert_array_equal(plain.mistakes[name], other.mistakes[name])


def test_repeats_share_their_orders(ax):
    learners = {"a": AROWClassifier(), "b": AROWClassifier(), "SGD": SGDClassifier(random_state=0)}
    options = {"n_repeats": 4, "n_points": 10, "batch_size": 15, "ax": ax}
    display = RegretDisplay.from_estimator(learners, X, Y, random_state=0, **options)
    assert display.mistakes["a"].shape == (4, 10)
    np.testing.assert_array_equal(display.mistakes["a"], display.mistakes["b"])
    assert len({tuple(curve) for curve in display.mistakes["a"]}) > 1
    # The line is the mean, and there is one band a learner.
    np.testing.assert_allclose(ax.lines[0].get_ydata(), display.mistakes["a"].mean(axis=0))
    assert len(ax.collections) == 3
    again = RegretDisplay.from_estimator(learners, X, Y, random_state=0, **options)
    for name in learners:
        np.testing.assert_array_equal(display.mistakes[name], again.mistakes[name])


def test_batches_count_the_first_as_wrong(ax):
    model = SGDClassifier(random_state=0)
    display = RegretDisplay.from_estimator(model, X, Y, batch_size=40, ax=ax)
    counts = display.mistakes["SGDClassifier"][0]
    np.testing.assert_array_equal(counts[:40], np.arange(1, 41))
    model.partial_fit(X[:40], Y[:40], classes=["no", "yes"])
    np.testing.assert_array_equal(
        counts[40:80] - 40, np.cumsum(model.predict(X[40:80]) != Y[40:80])
    )


def test_label_sets(ax):
    labels = (X @ RNG.normal(size=(5, 3)) > 0).astype(int)
    learner = ImprovedEllipsoidClassifier()
    display = RegretDisplay.from_estimator(learner, X, labels, ax=ax)
    counts = display.mistakes["ImprovedEllipsoidClassifier"][0]
    assert counts[-1] == learner.partial_fit(X, labels).n_mistakes_
    made = RegretDisplay.from_predictions(labels, 1 - labels, ax=ax)
    np.testing.assert_array_equal(made.mistakes["predictions"], [np.arange(1, 151)])


def test_predictions(ax):
    truth = np.array(["a", "b", "b", "a"])
    display = RegretDisplay.from_predictions(
        truth, {"right": truth, "so so": ["a", "a", "b", "b"]}, rate=True, ax=ax
    )
    np.testing.assert_array_equal(display.mistakes["right"], [[0, 0, 0, 0]])
    np.testing.assert_array_equal(display.mistakes["so so"], [[0, 1, 1, 2]])
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [0, 1 / 2, 1 / 3, 1 / 2])
    assert ax.get_ylabel() == "fraction of mistakes"
    assert ax.get_legend().get_texts()[1].get_text() == "so so: 50.0%"


def test_bad_input(ax):
    with pytest.raises(TypeError, match=r"'SVC' \(SVC\) has no partial_fit"):
        RegretDisplay.from_estimator(SVC(), X, Y, ax=ax)
    with pytest.raises(ValueError, match="empty mapping"):
        RegretDisplay.from_estimator({}, X, Y, ax=ax)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RegretDisplay.from_estimator(AROWClassifier(), X, Y[:-1], ax=ax)
    for name in ("n_repeats", "n_points", "batch_size"):
        with pytest.raises(ValueError, match=f"{name} must be an integer"):
            RegretDisplay.from_estimator(AROWClassifier(), X, Y, ax=ax, **{name: 0})
    with pytest.raises(ValueError, match="the predictions of 'a' have shape"):
        RegretDisplay.from_predictions([0, 1], {"a": [0]}, ax=ax)
    with pytest.raises(ValueError, match="at least one row"):
        RegretDisplay.from_predictions([], [], ax=ax)
    with pytest.raises(ValueError, match="at least one learner"):
        RegretDisplay.from_predictions([0, 1], {}, ax=ax)
    with pytest.raises(ValueError, match="the mistakes of 'a' have shape"):
        RegretDisplay(rounds=np.arange(3), mistakes={"a": [1, 2]})


def test_new_figure_by_default():
    display = RegretDisplay.from_predictions([0, 1], [0, 0])
    assert isinstance(display.figure_, Figure)
    from matplotlib import pyplot

    pyplot.close(display.figure_)


def test_without_matplotlib(monkeypatch):
    display = RegretDisplay(rounds=np.array([1]), mistakes={"a": np.array([1])})
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "oblong\[plot\]"'):
        display.plot()
