"""One shape matrix for several classes: shared, and joint, against explicit dense computations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.base import clone

from oblong import AROWClassifier, ClassicalEllipsoidClassifier, ImprovedEllipsoidClassifier
from oblong.persistence import load, save
from oblong.solvers.online.rules import respond
from oblong.solvers.online.variances import difference_variances
from tests.online.learners import LEARNERS, SECOND_ORDER, clouds, label_sets

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
K = 4
SHARED = [name for name in SECOND_ORDER if "ELLIP" not in name]


def explicit(model, X, y, joint, classes=K, steps=1):
    """The learner on all weights at once, with ``z = (e_b - e_a) ⊗ (1, x)``, by inverses."""
    Z = np.column_stack([np.ones(len(X)), X])
    d = Z.shape[1]
    rule = model._rule(d - 1)
    p, memory = np.array(rule[1:5]), np.array([rule.memory])
    w = np.zeros((classes, d))
    size = classes * d if joint else d
    S = first = model._variance() * np.eye(size)
    updates = 0
    for t, (x, label) in enumerate(zip(Z, y), start=1):
        taken = {label}
        for _ in range(steps):
            f = w @ x
            rivals = [k for k in np.argsort(-f, kind="stable") if k not in taken]
            if not rivals:
                break
            rival = rivals[0]
            taken.add(rival)
            sign = np.zeros(classes)
            sign[label], sign[rival] = 1.0, -1.0
            z = np.kron(sign, x) if joint else x
            m = f[label] - f[rival]
            if m >= p[0]:
                continue
            for again in range(2):
                v = z @ S @ z * (1 if joint else 2)
                alpha, tau, factor = respond(rule.code, m, v, 1.0, p, memory, t, again)
                if factor != 0.0:
                    break
                S = first
            if alpha <= 0.0:
                continue
            updates += 1
            s = S @ z
            w = w + alpha * (s.reshape(classes, d) if joint else np.outer(sign, s))
            grown = np.linalg.inv(S) + (tau if joint else 2 * tau / classes) * np.outer(z, z)
            S = factor * np.linalg.inv(grown)
    return w, S, updates


def compare(model, w, S, updates, joint):
    assert model.n_updates_ == updates
    np.testing.assert_allclose(model.coef_, w[:, 1:], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, w[:, 0], rtol=1e-7, atol=1e-9)
    d = w.shape[1]
    if not joint:
        np.testing.assert_allclose(model.covariance_, S[1:, 1:], rtol=1e-6, atol=1e-9)
        return
    # The part that all classes have in common is nobody's.
    P = np.kron(np.eye(len(w)) - 1.0 / len(w), np.eye(d))
    rest = np.tile(np.arange(d) > 0, len(w))
    expected = (P @ S @ P)[np.ix_(rest, rest)]
    np.testing.assert_allclose(model.covariance_, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", SECOND_ORDER)
@pytest.mark.parametrize("steps", [1, 3])
def test_joint_shape(name, steps):
    # Inverses lose digits where shapes collapse on noise.
    X, y = clouds(60, d=3, classes=K, noise=0.0)
    model = clone(LEARNERS[name]).set_params(covariance="joint", k_best=3)
    model.set_params(multi_class="top1" if steps == 1 else "kbest")
    model.partial_fit(X, y, classes=range(K))
    compare(model, *explicit(model, X, y, True, steps=steps), True)


@pytest.mark.parametrize("name", SHARED)
def test_shared_shape(name):
    X, y = clouds(60, d=3, classes=K, noise=0.0)
    model = clone(LEARNERS[name]).set_params(covariance="shared")
    model.partial_fit(X, y, classes=range(K))
    compare(model, *explicit(model, X, y, False), False)


@pytest.mark.parametrize("covariance", ["shared", "joint"])
def test_two_classes_have_one_shape_anyway(covariance):
    X, y = clouds(100)
    one = AROWClassifier(covariance=covariance).partial_fit(X, y, classes=[0, 1])
    full = AROWClassifier().partial_fit(X, y, classes=[0, 1])
    assert np.array_equal(one.coef_, full.coef_)
    assert np.array_equal(one.covariance_, full.covariance_)


def test_joint_shape_of_classes_that_do_not_compete():
    X, y = clouds(100, classes=3)
    options = {"multi_class": "ovr", "random_state": 0}
    joint = AROWClassifier(covariance="joint", **options).fit(X, y)
    np.testing.assert_array_equal(joint.coef_, AROWClassifier(**options).fit(X, y).coef_)
    shared = AROWClassifier(covariance="shared", **options).partial_fit(X, y, classes=range(3))
    Z = np.column_stack([np.ones(100), X])
    w, precision = np.zeros((3, 7)), np.eye(7)
    for z, label in zip(Z, y):
        for k in range(3):
            sign = 1.0 if label == k else -1.0
            margin, s = sign * (w[k] @ z), np.linalg.solve(precision, z)
            if margin < 1.0:
                w[k] += sign * (1.0 - margin) / (z @ s + 1.0) * s
                precision += np.outer(z, z) / 3.0
    np.testing.assert_allclose(shared.coef_, w[:, 1:], rtol=1e-9)


@pytest.mark.parametrize("name", ["AROW", "CW-Stdev"])
def test_probabilities_know_what_classes_have_in_common(name):
    X, y = clouds(150, classes=3)
    model = clone(LEARNERS[name]).set_params(covariance="joint", fit_intercept=False)
    model.partial_fit(X, y, classes=range(3))
    f, p = model.decision_function(X), model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    S = model.covariance_
    np.testing.assert_allclose(S.reshape(3, 6, 3, 6).sum(axis=0), 0.0, atol=1e-12 * abs(S).max())
    for i in range(20):
        order = np.argsort(-f[i])
        found = []
        for k in range(3):
            rival = order[1] if k == order[0] else order[0]
            z = np.kron(np.eye(3)[k] - np.eye(3)[rival], X[i])
            found.append(ndtr((f[i, k] - f[i, rival]) / np.sqrt(z @ S @ z)))
        np.testing.assert_allclose(p[i], np.divide(found, np.sum(found)), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(sp.csr_array(X)), p, rtol=1e-6, atol=1e-12)
    variances = np.array([[x @ S[6 * k :][:6, 6 * k :][:, :6] @ x for k in range(3)] for x in X])
    np.testing.assert_allclose(model.margin_variance(X), variances, rtol=1e-7)


@pytest.mark.parametrize("covariance", ["shared", "joint"])
@pytest.mark.parametrize("name", ["AROW", "CW-Stdev"])
def test_features_and_classes_that_come_later(covariance, name):
    X, y = clouds(200, d=12, classes=3, noise=0.0)
    X[:60, 8:] = 0.0
    options = {"covariance": covariance, "fit_intercept": False}
    model = clone(LEARNERS[name]).set_params(**options)
    known = model.partial_fit(X[:1, :8] * 0, [0], classes=[0, 1, 2])
    for row, label in zip(X, y):
        known.learn_one({j: row[j] for j in np.flatnonzero(row)}, label)
    whole = clone(LEARNERS[name]).set_params(**options)
    whole.partial_fit(X, y, classes=[0, 1, 2])
    order = [known._vocabulary[j] for j in range(12)]
    np.testing.assert_allclose(known.coef_[:, order], whole.coef_, rtol=1e-8, atol=1e-11)
    X, y = clouds(300, classes=3, noise=0.0)
    grown = AROWClassifier(covariance=covariance)
    for i in [*np.argsort(y == 1, kind="stable"), *range(300)]:
        grown.learn_one(X[i], int(y[i]))
    assert grown.classes_.tolist() == [0, 1, 2]
    assert grown.score(X, y) > 0.9


def test_a_new_class_leaves_the_differences_of_the_others_alone():
    X, y = clouds(100, classes=3)
    labels = np.array([0, 2, 3])
    model = AROWClassifier(covariance="joint").partial_fit(X, labels[y], classes=labels)
    before, variance = model.decision_function(X), []
    for _ in range(2):
        places = np.searchsorted(model.classes_, [0, 2])
        rivals = np.tile(places[::-1], (len(X), 1))
        v = model.margin_variance(X)
        every = np.zeros(v.shape, dtype=int)
        every[:, places] = rivals
        variance.append(difference_variances(model._state, X, v, every)[:, places[0]])
        if 1 not in model.classes_:
            model._insert_class(1)
    np.testing.assert_allclose(variance[1], variance[0], rtol=1e-9)
    after = model.decision_function(X)[:, [0, 2, 3]]
    np.testing.assert_allclose(after, before, rtol=1e-12)
    fresh = AROWClassifier(covariance="joint").partial_fit(X[:0:-1] * 0, y[:0:-1], classes=range(3))
    fresh._insert_class(7)
    four = AROWClassifier(covariance="joint").partial_fit(X[:1] * 0, y[:1], classes=range(4))
    np.testing.assert_allclose(fresh.covariance_, four.covariance_, atol=1e-12)


@pytest.mark.parametrize("covariance", ["shared", "joint"])
def test_merged_precisions_add_up(covariance):
    X, y = clouds(300, d=3, classes=3)
    parts = [
        AROWClassifier(covariance=covariance, fit_intercept=False).partial_fit(
            X[i::3], y[i::3], classes=range(3)
        )
        for i in range(3)
    ]
    precisions = [np.linalg.pinv(part.covariance_, rcond=1e-9) for part in parts]
    prior = np.eye(3)
    if covariance == "joint":
        prior = np.kron(np.eye(3) - 1.0 / 3.0, prior)
    total = sum(precisions) - 2 * prior
    if covariance == "joint":
        target = sum(P @ part.coef_.ravel() for P, part in zip(precisions, parts))
        expected = (np.linalg.pinv(total, rcond=1e-9) @ target).reshape(3, 3)
    else:
        target = sum(P @ part.coef_.T for P, part in zip(precisions, parts))
        expected = np.linalg.solve(total, target).T
    merged = parts[0].merge(*parts[1:])
    np.testing.assert_allclose(merged.covariance_, np.linalg.pinv(total, rcond=1e-9), atol=1e-9)
    np.testing.assert_allclose(merged.coef_, expected, rtol=1e-6, atol=1e-9)
    assert merged.t_ == 300
    merged.partial_fit(X, y)


def test_label_sets_have_a_joint_shape_too():
    X, Y = label_sets(150)
    model = ImprovedEllipsoidClassifier(covariance="joint", multilabel="rank", b=1.0)
    assert (model.fit(X, Y).predict(X) == Y).mean() > 0.8
    # Four labels and the threshold.
    assert model.covariance_.shape == (30, 30)


def test_what_there_is_no_room_or_meaning_for():
    X = sp.random(6, 40_000, density=1e-3, format="csr", random_state=0)
    with pytest.raises(ValueError, match="joint"):
        AROWClassifier(covariance="joint").fit(X, [0, 1, 2, 0, 1, 2])
    with pytest.raises(ValueError, match="covariance"):
        ClassicalEllipsoidClassifier(covariance="shared").fit(*clouds(30, classes=3))


def test_a_joint_shape_that_collapses_stays_sound():
    X, y = clouds(2000, d=4, classes=3, noise=0.1)
    model = clone(LEARNERS["CW-Stdev"]).set_params(covariance="joint")
    model.partial_fit(X, y, classes=range(3))
    S = model._state.shape[0]
    assert S.shape == (10, 10)
    assert np.isfinite(S).all()
    assert np.array_equal(S, S.T)
    scale = np.sqrt(S.diagonal())
    assert np.linalg.eigvalsh(S / np.outer(scale, scale)).min() > 0.0
    assert model._state.exponent > 20
    assert model.n_skipped_ == 0


@pytest.mark.parametrize("covariance", ["shared", "joint"])
@pytest.mark.parametrize("calibration", [None, "platt"])
def test_models_on_disk_go_on(covariance, calibration, tmp_path):
    X, y = clouds(200, classes=3)
    model = AROWClassifier(covariance=covariance, calibration=calibration)
    model.partial_fit(X[:100], y[:100], classes=range(3))
    save(model, tmp_path / "model.oblong")
    again = load(tmp_path / "model.oblong")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    again.partial_fit(X[100:], y[100:])
    model.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(again.coef_, model.coef_)
