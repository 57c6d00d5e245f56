"""The classes of oblong.svm in the place of those of scikit-learn."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import parametrize_with_checks

import oblong
import oblong.svm
from oblong.svm import SVC, SVR, LinearSVC

NAMES = ["SVC", "LinearSVC", "SVR"]


@parametrize_with_checks(
    [
        # The variance in gamma="scale" knows no weights, as in scikit-learn.
        SVC(gamma="auto", tol=1e-8),
        SVR(gamma="auto", tol=1e-8),
        LinearSVC(tol=1e-8),
        LinearSVC(loss="hinge", tol=1e-8),
    ]
)
def test_estimator_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


KEYWORD = inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name):
    theirs = inspect.signature(getattr(sklearn.svm, name)).parameters
    ours = inspect.signature(getattr(oblong.svm, name)).parameters
    assert sorted(ours) == sorted(theirs)
    # The order of those by keyword says nothing.
    named = [parameter for parameter in theirs if theirs[parameter].kind != KEYWORD]
    assert list(ours)[: len(named)] == named
    for parameter in theirs:
        assert ours[parameter].kind == theirs[parameter].kind, parameter
        # scikit-learn removes this one, and has no opinion of its default any more.
        if parameter != "probability":
            assert ours[parameter].default == theirs[parameter].default, parameter


@pytest.mark.parametrize("name", NAMES)
def test_attributes(name):
    X, y = load_iris(return_X_y=True)
    theirs = getattr(sklearn.svm, name)().fit(X, y)
    ours = getattr(oblong.svm, name)().fit(X, y)
    gone = {"probA_", "probB_"}
    public = {
        key
        for key in dir(theirs)
        if key.endswith("_") and not key.startswith("_") and key not in gone
    }
    for key in public:
        if key in ("coef_", "unused_param") and not hasattr(theirs, key):
            continue
        mine, expected = getattr(ours, key), getattr(theirs, key)
        if key not in ("support_vectors_", "dual_coef_", "support_"):
            assert np.shape(mine) == np.shape(expected), key
        assert isinstance(mine, type(expected)) or np.isscalar(expected), key
        if isinstance(expected, np.ndarray):
            assert mine.dtype.kind == expected.dtype.kind, key


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
@pytest.mark.parametrize("weighted", [False, True])
def test_svc_gives_the_results_of_scikit_learn(kernel, class_weight, weighted):
    X, y = cancer()
    weights = np.random.default_rng(0).uniform(-0.2, 2.0, len(y)) if weighted else None
    settings = {"kernel": kernel, "class_weight": class_weight, "tol": 1e-6, "coef0": 1.0}
    ours = SVC(**settings).fit(X, y, sample_weight=weights)
    theirs = sklearn.svm.SVC(**settings).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=0, atol=1e-4
    )
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.n_support_, theirs.n_support_, atol=1)
    np.testing.assert_array_equal(ours.class_weight_, theirs.class_weight_)
    assert ours.shape_fit_ == theirs.shape_fit_ == X.shape
    assert ours.fit_status_ == theirs.fit_status_ == 0


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize("break_ties", [False, True])
def test_several_classes(shape, break_ties):
    X, y = load_iris(return_X_y=True)
    if shape == "ovo" and break_ties:
        pytest.skip("an error, as in scikit-learn")
    settings = {"decision_function_shape": shape, "break_ties": break_ties, "tol": 1e-8}
    ours, theirs = SVC(**settings).fit(X, y), sklearn.svm.SVC(**settings).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-5)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.lil_array])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
def test_sparse_rows(kernel, container):
    X = np.random.default_rng(0).normal(size=(90, 5))
    y = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
    X[np.abs(X) < 0.5] = 0.0
    with warnings.catch_warnings():
        # The sigmoid kernel is not positive semidefinite.
        warnings.simplefilter("ignore", ConvergenceWarning)
        dense, sparse = (SVC(kernel=kernel, tol=1e-8).fit(rows, y) for rows in (X, container(X)))
    np.testing.assert_array_equal(sparse.support_, dense.support_)
    np.testing.assert_allclose(sparse.support_vectors_.toarray(), dense.support_vectors_)
    np.testing.assert_allclose(sparse.dual_coef_, dense.dual_coef_, atol=1e-6)
    if kernel == "linear":
        np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_array_equal(sparse.predict(container(X)), dense.predict(X))
    scores = dense.decision_function(X)
    for rows in (X, container(X)):
        np.testing.assert_allclose(sparse.decision_function(rows), scores, atol=1e-5)


def test_unsorted_indices():
    X = sp.csr_array(np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 3.0]]))
    y = [0, 1, 1, 0]
    # The columns of each row in reverse.
    places = np.concatenate([np.arange(*ends)[::-1] for ends in zip(X.indptr, X.indptr[1:])])
    mixed = sp.csr_array((X.data[places], X.indices[places], X.indptr), shape=X.shape)
    assert not mixed.has_sorted_indices
    sorted_, unsorted = (SVC().fit(rows, y) for rows in (X, mixed))
    np.testing.assert_allclose(unsorted.dual_coef_, sorted_.dual_coef_)
    np.testing.assert_allclose(unsorted.decision_function(mixed), sorted_.decision_function(X))


@pytest.mark.parametrize("weighted", [False, True])
def test_svr_gives_the_results_of_scikit_learn(weighted):
    X, y = make_friedman1(200, noise=1.0, random_state=0)
    weights = np.random.default_rng(0).uniform(-0.2, 2.0, len(y)) if weighted else None
    ours = SVR(tol=1e-6).fit(X, y, sample_weight=weights)
    theirs = sklearn.svm.SVR(tol=1e-6).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=0, atol=1e-4)
    # Where rows are left out, LIBSVM counts the others.
    kept = np.arange(200) if weights is None else np.flatnonzero(weights > 0.0)
    np.testing.assert_array_equal(ours.support_, kept[theirs.support_])
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    assert ours.fit_status_ == 0
    assert ours.shape_fit_ == (200, 10)


def test_fit_status_tells_of_the_warning():
    X, y = cancer()
    with pytest.warns(ConvergenceWarning):
        assert SVC(max_iter=1).fit(X, y).fit_status_ == 1


def test_shrinking_is_without_effect():
    X, y = load_iris(return_X_y=True)
    np.testing.assert_array_equal(
        SVC(shrinking=False).fit(X, y).dual_coef_, SVC(shrinking=True).fit(X, y).dual_coef_
    )


def test_svc__probability_is_an_error_of_fit_that_says_what_to_use():
    X, y = load_iris(return_X_y=True)
    model = clone(SVC(probability=True))
    assert model.get_params()["probability"] is True
    with pytest.raises(ValueError, match=r"probability=True.*CalibratedMarginClassifier"):
        model.fit(X, y)
    assert model.set_params(probability=False).fit(X, y).score(X, y) > 0.9
    assert not hasattr(model, "predict_proba")
    with pytest.raises(InvalidParameterError, match="probability"):
        SVC(probability="yes").fit(X, y)


@pytest.mark.parametrize("name", NAMES)
def test_svm__takes_the_parameters_of_an_estimator_of_scikit_learn(name):
    X, y = load_iris(return_X_y=True)
    parameters = getattr(sklearn.svm, name)().get_params()
    getattr(oblong.svm, name)(**parameters).fit(X, y)


def test_svm__says_what_to_use_in_place_of_names_that_are_missing():
    missing = set(sklearn.svm.__all__) - set(oblong.svm.__all__)
    assert missing <= set(oblong.svm._ELSEWHERE)
    for name in oblong.svm._ELSEWHERE:
        with pytest.raises(ImportError, match=rf"no {name}: use .*sklearn\.svm\.{name}"):
            exec(f"from oblong.svm import {name}")
    with pytest.raises(ImportError, match="cannot import name 'NuSVM'"):
        exec("from oblong.svm import NuSVM")
    assert not hasattr(oblong.svm, "NuSVM")


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan, None])
def test_svc__refuses_class_weights_that_are_no_factors(factor):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="class_weight must have numbers above zero"):
        SVC(class_weight={0: factor, 1: 1.0}).fit(X, y)


def test_break_ties_is_true_or_false():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="break_ties"):
        SVC(break_ties="first").fit(X, y)


@pytest.mark.parametrize(
    "model", [SVC(), SVC(kernel="linear"), LinearSVC(), LinearSVC(fit_intercept=False), SVR()]
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_on_disk_and_as_graphs(model, n_classes, tmp_path):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes]
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    oblong.save(pipeline, tmp_path / "model.oblong")
    other = oblong.load(tmp_path / "model.oblong")
    assert type(other[-1]) is type(model)
    np.testing.assert_array_equal(other.predict(X), pipeline.predict(X))
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    session = runtime.InferenceSession(
        oblong.to_onnx(pipeline).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    if isinstance(model, SVR):
        (prediction,) = session.run(["prediction"], {"X": X})
        np.testing.assert_allclose(prediction, pipeline.predict(X), atol=1e-9)
    else:
        labels, scores = session.run(["label", "scores"], {"X": X})
        np.testing.assert_array_equal(labels, pipeline.predict(X))
        np.testing.assert_allclose(scores, pipeline.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("kind", [SVC, SVR])
def test_fit__refuses_complex_weights(kind):
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    with pytest.raises(ValueError, match="Complex data not supported"):
        kind().fit(X, y, sample_weight=np.full(4, 1 + 2j))
