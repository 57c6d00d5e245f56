"""Files that say what no model says: numbers that fit their place and not each other."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Normalizer, PolynomialFeatures, StandardScaler

import oblong
from oblong.persistence import ModelFileError, load
from oblong.svm import SVC

from .forging import edited, forged_tree, refused, saved
from .models import fitted, rows

FEW = 4_000_000


def state_of(state, *names):
    """The attributes of an object in the attributes of another."""
    for name in names:
        state = state[name]["object"]["state"]
    return state


def step_of(state, place):
    return state["steps"][place]["tuple"][1]["object"]["state"]


def sets(*path, **values):
    """An edit of an object inside a model."""
    return lambda state: state_of(state, *path).update(values)


def pipeline():
    X, y = rows()
    return make_pipeline(StandardScaler(), oblong.RelativeMarginClassifier()).fit(X, y)


def precomputed(kind):
    X, y = rows()
    return kind(kernel="precomputed").fit(X @ X.T, y)


CALIBRATED = "CalibratedMarginClassifier"
KERNEL, ONLINE = "RelativeMarginClassifier", "AROWClassifier"


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        (KERNEL, sets(kernel="poly", degree=-3)),
        (KERNEL, sets(kernel="poly", degree=2**31)),
        (KERNEL, sets(kernel="poly", degree=2**70)),
        (KERNEL, sets(C=-1.0)),
        (KERNEL, sets(C="much")),
        (KERNEL, sets(tol={"float": "nan"})),
        (KERNEL, sets(_gamma="wide")),
        (KERNEL, sets(converged_=1.0)),
        (KERNEL, sets(_parameter_constraints={"dict": []})),
        (KERNEL, sets(_kernel=1)),
        (KERNEL, sets(_title="SVM")),
        (KERNEL, sets(theta_=None)),
        (KERNEL, lambda s: s.update(B_=s["support_"])),
        (KERNEL, lambda s: s.update(dual_coef_=s["support_vectors_"])),
        ("MinimumVolumeEllipsoid", lambda s: s.update(center_=s["weights_"])),
        ("MinimumVolumeEllipsoid", sets(offset_={"float": "nan"})),
        ("EllipsoidalSVC", sets("_map", pivots=None)),
        (CALIBRATED, sets(temperature_=-1.0)),
        (CALIBRATED, sets(_one_vs_one=None)),
        (CALIBRATED, lambda s: s.update(estimator_=s["_models"][0], _models=s["_labels"])),
        (CALIBRATED, lambda s: s["_models"].pop()),
        (CALIBRATED, sets("estimator_", n_features_in_=2)),
        ("RelativeMarginClassifierCV", sets(n_features_in_=4)),
        (ONLINE, sets("_state", settings=None)),
        ("KernelConfidenceWeightedClassifier", sets("_state", budget=2**80)),
        ("OnlineEllipsoidalSVC", lambda s: state_of(s, "_state").update(P=s["classes_"])),
    ],
)
def test_check_sound__refuses(tmp_path, name, edit):
    path = edited(tmp_path / "m", edit, fitted(name, {}))
    assert "damaged" in refused(path, at_most=FEW)


@pytest.mark.parametrize("kind", [SVC, oblong.KernelFisherClassifier, oblong.EllipsoidalSVC])
@pytest.mark.parametrize("place", [48, 4029, 2**30, -1, -(2**30)])
def test_check_sound__columns_of_a_kernel_matrix(tmp_path, kind, place):
    model = precomputed(kind)
    model.support_[0] = place
    assert "support_" in refused(saved(model, tmp_path / "m"), at_most=FEW)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_check_sound__a_batch_that_never_ends(tmp_path, number, value):
    model = fitted("OnlineEllipsoidalSVC", {})
    model._state.numbers[number] = value
    assert "numbers" in refused(saved(model, tmp_path / "m"), at_most=FEW)


@pytest.mark.parametrize(
    "model",
    [
        Normalizer().fit(sp.csr_matrix((2, 3))),
        make_pipeline(Normalizer(), oblong.AROWClassifier()).fit(*rows()),
        ColumnTransformer([("a", Normalizer(), slice(0, None))]).fit(rows()[0]),
    ],
    ids=["step", "pipeline", "columns"],
)
@pytest.mark.parametrize("count", [200_000_000, 2**31 - 1])
def test_check_sound__columns_that_no_array_stands_for(tmp_path, model, count):
    def widen(node):
        if isinstance(node, dict):
            if "n_features_in_" in node:
                node["n_features_in_"] = count
            for value in node.values():
                widen(value)
        elif isinstance(node, list):
            for value in node:
                widen(value)

    refused(edited(tmp_path / "m", widen, model), at_most=FEW)


def test_check_sound__columns_are_counted_together(tmp_path):
    step = Normalizer().fit(sp.csr_matrix((1, 1000)))
    union = FeatureUnion([(str(k), step) for k in range(1049)])
    with pytest.raises(ModelFileError, match="1,048,576 columns, and no numbers for them"):
        oblong.save(union, tmp_path / "m")
    assert "more columns than" in refused(saved(union, tmp_path / "m"), at_most=FEW)


def test_check_sound__wide_sparse_rows_are_no_bomb(tmp_path):
    columns = np.random.default_rng(0).integers(0, 1 << 24, size=400).astype(np.int32)
    columns = np.sort(columns.reshape(40, 10), axis=1).ravel()
    X = sp.csr_matrix((np.ones(400), columns, np.arange(0, 401, 10)), shape=(40, 1 << 24))
    model = oblong.RelativeMarginClassifier().fit(X, np.arange(40) % 2)
    oblong.save(model, tmp_path / "m")
    found = load(tmp_path / "m").decision_function(X)
    np.testing.assert_array_equal(found, model.decision_function(X))
    vectors = model.support_vectors_
    model.n_features_in_ = 10**9
    model.support_vectors_ = sp.csr_matrix(
        (vectors.data, vectors.indices, vectors.indptr), shape=(vectors.shape[0], 10**9)
    )
    assert "1,000,000,000 columns for" in refused(saved(model, tmp_path / "m"), at_most=FEW)
    model.n_features_in_ = 1 << 24
    model.support_vectors_ = vectors
    vectors.indices[:2] = vectors.indices[1::-1].copy()
    vectors.has_sorted_indices = vectors.has_canonical_format = False
    assert "in order" in refused(saved(model, tmp_path / "m"), at_most=FEW)


@pytest.mark.parametrize(
    "edit",
    [
        {"n_features": 0},
        {"n_features": -1},
        {"n_features": 2**40},
        {"input": "filename"},
        {"tokenizer": "split"},
        {"token_pattern": "(a+)+$"},
        {"token_pattern": "a?a?a?a?a?a?"},
        {"token_pattern": "["},
        {"ngram_range": {"tuple": [1, 10**9]}},
        {"ngram_range": {"tuple": [0, 1]}},
        {"analyzer": "chars"},
        {"dtype": {"type": "str"}},
    ],
    ids=str,
)
def test_check_sound__words(tmp_path, edit):
    texts, labels = ["a word", "another word"], [0, 1]
    model = make_pipeline(HashingVectorizer(n_features=8), oblong.AROWClassifier())
    path = edited(tmp_path / "m", lambda s: step_of(s, 0).update(edit), model.fit(texts, labels))
    assert "damaged" in refused(path, at_most=FEW)


@pytest.mark.parametrize("pattern", [r"(?u)\b\w\w+\b", r"\w+", "[^, ]+", r"[A-Z]\w*", r"\S+"])
def test_check_sound__patterns_that_end(tmp_path, pattern):
    step = HashingVectorizer(n_features=8, token_pattern=pattern)
    model = make_pipeline(step, oblong.AROWClassifier(covariance="diag"))
    oblong.save(model.fit(["Some word, another", "some word"], [0, 1]), tmp_path / "m")
    assert load(tmp_path / "m")[0].token_pattern == pattern


@pytest.mark.parametrize(
    "edit",
    [
        {"n_output_features_": 10**12, "_n_out_full": 10**12},
        {"_max_degree": 10**9},
        {"_max_degree": 10**9, "interaction_only": True},
        {"n_features_in_": 10**6, "n_output_features_": 10**12, "_n_out_full": 10**12},
        {"_min_degree": -1},
    ],
    ids=str,
)
def test_check_sound__products_of_columns(tmp_path, edit):
    X, y = rows()
    model = make_pipeline(PolynomialFeatures(), oblong.RelativeMarginClassifier()).fit(X, y)
    path = edited(tmp_path / "m", lambda s: step_of(s, 0).update(edit), model)
    assert "damaged" in refused(path, at_most=FEW)


@pytest.mark.parametrize("kind", ["sklearn.Normalizer", "sklearn.KFold", "oblong.SigmaSVC"])
@pytest.mark.parametrize("place", [0, 1])
def test_check_sound__steps_that_are_none(tmp_path, kind, place):
    def swap(state):
        state["steps"][place]["tuple"][1]["object"]["class"] = kind

    assert "damaged" in refused(edited(tmp_path / "m", swap, pipeline()), at_most=FEW)


@pytest.mark.parametrize("steps", [[], 5, [{"tuple": ["a"]}], [["a", None]], None])
def test_check_sound__lists_of_steps(tmp_path, steps):
    path = edited(tmp_path / "m", lambda s: s.update(steps=steps), pipeline())
    assert "damaged" in refused(path, at_most=FEW)


def test_check_usable__models_that_do_not_say_how_wide_they_are(tmp_path):
    X, _ = rows()
    step = VarianceThreshold().fit(X)
    step.variances_ = step.variances_[:2]
    del step.n_features_in_
    assert "n_features_in_" in refused(saved(step, tmp_path / "m"), at_most=FEW)
    model = pipeline()
    model.steps[0] = ("first", Normalizer())
    assert "n_features_in_" in refused(saved(model, tmp_path / "m"), at_most=FEW)
    oblong.save(Normalizer(), tmp_path / "m")
    assert load(tmp_path / "m").transform(X).shape == X.shape


def test_check_sound__names_without_end(tmp_path):
    """A format of names may ask for spaces by the gigabyte."""
    X, _ = rows()
    step = ColumnTransformer([("a", StandardScaler(), [0])]).fit(X)
    path = edited(
        tmp_path / "m", sets(verbose_feature_names_out="{feature_name:>9999999999}"), step
    )
    assert "damaged" in refused(path, at_most=FEW)


def test_decoder__starts_no_processes_and_reads_no_cache(tmp_path):
    X, y = rows()
    union = FeatureUnion([("a", StandardScaler()), ("b", StandardScaler())], n_jobs=None)
    model = make_pipeline(union, oblong.RelativeMarginClassifier()).fit(X, y)

    def ask(state):
        state["memory"] = str(tmp_path / "cache")
        step_of(state, 0)["n_jobs"] = 1000
        step_of(state, 1)["n_jobs"] = {"tuple": []}

    found = load(edited(tmp_path / "m", ask, model))
    assert found.memory is found[0].n_jobs is found[1].n_jobs is None
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "tree",
    [
        None,
        5,
        [],
        {"dict": []},
        {"slice": [0, 1, 2]},
        {"sparse": {"kind": {"a": 1}, "shape": [1, 1], "data": 1, "indices": 1, "indptr": 1}},
        {"type": "float64"},
        {"object": {"class": "sklearn.KFold", "state": {"n_splits": 5}}},
        {
            "object": {
                "class": "oblong.Kernel",
                "state": {"name": "rbf", "gamma": 1.0, "degree": 3, "coef0": 0.0},
            }
        },
    ],
    ids=str,
)
def test_load__what_is_no_model(tmp_path, tree):
    assert "damaged" in refused(forged_tree(tmp_path / "m", tree), at_most=FEW)


def test_load__many_classes_need_little_memory(tmp_path):
    """Coefficients of all pairs would be 250 MB, for a file of 2 MB."""
    X, y = rows()
    model = oblong.KernelFisherClassifier().fit(X, y)
    k = 400
    pairs = k * (k - 1) // 2
    model.classes_ = np.arange(k)
    model.support_, model.n_support_ = np.zeros(k, np.int32), np.ones(k, np.int32)
    model.support_vectors_ = np.ones((k, 3))
    model.dual_coef_ = np.ones((k - 1, k))
    for name in ("intercept_", "dual_gap_", "objective_", "loo_error_"):
        setattr(model, name, np.zeros(pairs))
    model.n_iter_ = np.zeros(pairs, dtype=np.int64)
    path = saved(model, tmp_path / "m")
    load(path)
    tracemalloc.start()
    try:
        load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000_000
