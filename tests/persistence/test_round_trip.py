from __future__ import annotations

import os
import warnings
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.base import is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import oblong
from oblong.persistence import ModelFileError, read_manifest
from oblong.svm import SVC, SVR, LinearSVC

from .models import CASES, ESTIMATORS, IDS, fitted, rows

NEW = np.random.default_rng(1).normal(scale=6.0, size=(40, 3))


def again(model, folder):
    oblong.save(model, folder / "model.oblong")
    return oblong.load(folder / "model.oblong")


def assert_same_predictions(model, other, X=NEW):
    for method in ("predict", "decision_function", "predict_proba", "score_samples"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(other, method)(X), getattr(model, method)(X))


@pytest.mark.parametrize(("name", "settings", "n_classes"), CASES, ids=IDS)
def test_every_estimator_comes_back_with_identical_predictions(name, settings, n_classes, tmp_path):
    model = fitted(name, settings, n_classes)
    other = again(model, tmp_path)
    assert type(other) is type(model)
    assert_same_predictions(model, other)
    assert set(other.get_params()) == set(model.get_params())
    assert repr(other) == repr(model)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_path_comes_back(kernel, tmp_path):
    X, y = rows(2)
    path = oblong.relative_margin_path(X, y, spreads=(1.0, 0.3), kernel=kernel)
    other = again(path, tmp_path)
    assert_same_predictions(path, other)
    np.testing.assert_array_equal(other.dual_gap, path.dual_gap)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_pipelines_around_every_estimator(name, tmp_path):
    X, y = rows()
    model = make_pipeline(StandardScaler(), PCA(2), fitted(name, {}))
    # Whatever stands before it, the estimator is fitted again.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y if is_regressor(model) else np.array(["a", "b", "c"])[y])
    assert_same_predictions(model, again(model, tmp_path))


def test_unfitted_estimators_come_back_too(tmp_path):
    for kind in ESTIMATORS.values():
        other = again(kind(), tmp_path)
        assert repr(other) == repr(kind())


@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(),
        MinMaxScaler(clip=True),
        MaxAbsScaler(),
        RobustScaler(),
        QuantileTransformer(n_quantiles=10),
        PolynomialFeatures(2),
    ],
    ids=lambda scaler: type(scaler).__name__,
)
def test_transformers_before_a_classifier(scaler, tmp_path):
    X, y = rows()
    model = make_pipeline(scaler, oblong.AROWClassifier(random_state=0)).fit(X, y)
    assert_same_predictions(model, again(model, tmp_path))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_drop_in_svc(kernel, sparse, tmp_path):
    X, y = rows()
    model = SVC(kernel=kernel).fit(sp.csr_matrix(X) if sparse else X, y)
    other = again(model, tmp_path)
    assert_same_predictions(model, other, sp.csr_matrix(NEW) if sparse else NEW)


@pytest.mark.parametrize("model", [SVR(), LinearSVC()], ids=lambda model: type(model).__name__)
def test_drop_in_regressor_and_linear_svc(model, tmp_path):
    X, y = rows()
    model.fit(X, y)
    assert_same_predictions(model, again(model, tmp_path))


def test_svm_of_scikit_learn_is_not_saved(tmp_path):
    """LIBSVM reads its arrays unchecked."""
    X, y = rows()
    with pytest.raises(ModelFileError, match=r"a sklearn\.svm\._classes\.SVC, which a"):
        oblong.save(svm.SVC().fit(X, y), tmp_path / "m")


def test_logistic_regression(tmp_path):
    X, y = rows()
    model = LogisticRegression().fit(X, y)
    assert_same_predictions(model, again(model, tmp_path))


def test_columns_of_text_and_gaps(tmp_path):
    X = np.array(
        [[1.0, "red"], [np.nan, "blue"], [3.0, "red"], [2.0, "blue"], [1.5, ""]], dtype=object
    )
    y = [1, 0, 1, 0, 0]
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [0]),
            ("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [1]),
        ]
    )
    model = Pipeline([("columns", columns), ("model", oblong.RelativeMarginClassifier())])
    model.fit(X, y)
    new = np.array([[2.0, "green"], [np.nan, "red"]], dtype=object)
    assert_same_predictions(model, again(model, tmp_path), new)


def test_feature_names_of_a_frame(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = rows()
    frame = pandas.DataFrame(X, columns=["u", "v", "w"])
    model = oblong.RelativeMarginClassifier().fit(frame, y)
    other = again(model, tmp_path)
    assert other.feature_names_in_.tolist() == ["u", "v", "w"]
    assert_same_predictions(model, other, frame)
    assert read_manifest(tmp_path / "model.oblong")["feature_names"] == ["u", "v", "w"]


@pytest.mark.parametrize("name", ["AROWClassifier", "KernelConfidenceWeightedClassifier"])
def test_learning_goes_on_where_it_stopped(name, tmp_path):
    X, y = rows(3, 90)
    model = ESTIMATORS[name](random_state=0)
    model.partial_fit(X[:40], y[:40], classes=[0, 1, 2])
    other = again(model, tmp_path)
    for learner in (model, other):
        learner.partial_fit(X[40:], y[40:])
    assert_same_predictions(model, other)
    assert other.n_updates_ == model.n_updates_


def test_learning_one_by_one_goes_on_with_named_features(tmp_path):
    stream = [({"a": 1.0, "b": 2.0}, "x"), ({"b": -1.0}, "y"), ({"c": 0.5, "a": -2.0}, "z")] * 5
    model = oblong.AROWClassifier(covariance="diag")
    for x, y in stream[:8]:
        model.learn_one(x, y)
    other = again(model, tmp_path)
    for x, y in [*stream[8:], ({"d": 1.0}, "x")]:
        model.learn_one(x, y)
        other.learn_one(x, y)
    for x, _ in stream:
        assert other.predict_one(x) == model.predict_one(x)
    np.testing.assert_array_equal(other.coef_, model.coef_)


def test_a_learner_that_waits_for_its_second_class(tmp_path):
    model = oblong.AROWClassifier(covariance="diag").learn_one({"a": 1.0}, "x")
    other = again(model, tmp_path)
    assert other.predict_one({"a": 1.0}) == "x"
    other.learn_one({"a": -1.0}, "y")
    assert other.predict_one({"a": -1.0}) == "y"


def test_sparse_support_vectors(tmp_path):
    X, y = rows()
    X = sp.csr_matrix(np.where(np.abs(X) < 3, 0.0, X))
    model = oblong.RelativeMarginClassifier().fit(X, y)
    assert_same_predictions(model, again(model, tmp_path), sp.csr_matrix(NEW))


def test_single_precision_and_the_order_of_memory_are_kept(tmp_path):
    X, y = rows()
    model = oblong.RelativeMarginClassifier().fit(X.astype(np.float32), y)
    model.fortran_ = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    model.empty_ = np.empty((0, 5), dtype=np.int32)
    model.truth_ = np.array([[True], [False]])
    other = again(model, tmp_path)
    assert other.support_vectors_.dtype == np.float32
    assert other.fortran_.flags.f_contiguous
    np.testing.assert_array_equal(other.fortran_, model.fortran_)
    assert other.empty_.shape == (0, 5)
    assert other.truth_.dtype == bool
    other.fortran_[0, 0] = 7.0  # writable, and its own


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        10**30,
        "snö\n\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        (1, [2, (3,)], {}),
        {("a", 1): None, 2.5: True},
        slice(1, None, 2),
        np.float32(0.1),
        np.str_("word"),
        np.dtype("float32"),
        np.array(["a", "bcd"]),
        np.array([["a", None], [1, 2.5]], dtype=object),
        np.ma.MaskedArray([1.0, 2.0], mask=[True, False]),
    ],
    ids=repr,
)
def test_values_of_all_kinds(value, tmp_path):
    model = oblong.RelativeMarginClassifier()
    model.notes_ = [value]
    (found,) = again(model, tmp_path).notes_
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_a_type_of_numbers_is_a_parameter_and_nothing_else(tmp_path):
    step = again(OneHotEncoder(dtype=np.float32), tmp_path)
    assert step.dtype is np.float32
    step.categories = [np.float32]
    with pytest.raises(ModelFileError, match="the type float32 cannot be saved"):
        oblong.save(step, tmp_path / "model.oblong")


def test_what_belongs_to_the_computer_is_not_saved(tmp_path):
    """How many processes to start, and a folder whose pickles a fit would read."""
    X, y = rows()
    columns = ColumnTransformer([("a", StandardScaler(), [0, 1, 2])], n_jobs=7)
    model = oblong.RelativeMarginClassifier(n_jobs=3)
    pipeline = Pipeline([("columns", columns), ("model", model)], memory=str(tmp_path)).fit(X, y)
    other = again(pipeline, tmp_path)
    assert other.memory is other[0].n_jobs is other[1].n_jobs is None
    assert_same_predictions(pipeline, other)


def test_what_would_be_damaged_is_not_saved(tmp_path):
    X, y = rows()
    model = oblong.RelativeMarginClassifier().fit(X, y)
    model.intercept_ = model.intercept_[:-1]
    with pytest.raises(ModelFileError, match=r"cannot be saved: .*wrong shapes: intercept_"):
        oblong.save(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_random_state_goes_on(tmp_path):
    state = np.random.RandomState(3)
    state.normal(size=3)
    other = again(oblong.AROWClassifier(random_state=state), tmp_path).random_state
    np.testing.assert_array_equal(other.normal(size=700), state.normal(size=700))


def test_arrays_that_are_one_are_stored_once(tmp_path):
    model = oblong.AROWClassifier()
    model.first_ = model.second_ = np.arange(100_000.0)
    other = again(model, tmp_path)
    assert other.first_ is other.second_
    assert (tmp_path / "model.oblong").stat().st_size < 1_000_000


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            oblong.RelativeMarginClassifier(kernel=lambda A, B: A @ B.T),
            "kernel: expected data, got a function",
        ),
        (make_pipeline(FunctionTransformer(np.log1p)), "func: expected data, got a function"),
        (oblong.AROWClassifier(random_state=complex(1)), "random_state: expected data"),
        (object(), "the model: expected data, got a builtins.object"),
    ],
    ids=["function", "transformer", "complex", "object"],
)
def test_what_is_not_data_cannot_be_saved(model, message, tmp_path):
    with pytest.raises(ModelFileError, match="the model cannot be saved") as error:
        oblong.save(model, tmp_path / "model.oblong")
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_what_holds_itself_cannot_be_saved(tmp_path):
    model = oblong.AROWClassifier()
    model.random_state = [model]
    with pytest.raises(ModelFileError, match="holds itself"):
        oblong.save(model, tmp_path / "model.oblong")


def test_the_same_model_gives_the_same_bytes(tmp_path):
    model = fitted("RelativeMarginClassifier", {})
    oblong.save(model, tmp_path / "a")
    oblong.save(oblong.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "model.oblong"
    oblong.save(oblong.AROWClassifier(), path)
    before = path.read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left on device"):
        oblong.save(oblong.RelativeMarginClassifier(), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.oblong"]


@pytest.mark.skipif(os.name == "nt", reason="permissions")
def test_a_file_has_the_usual_permissions(tmp_path):
    old = os.umask(0o022)
    try:
        oblong.save(oblong.AROWClassifier(), tmp_path / "model.oblong")
    finally:
        os.umask(old)
    assert (tmp_path / "model.oblong").stat().st_mode & 0o777 == 0o644


def test_the_manifest_tells_what_it_is(tmp_path):
    X, y = rows()
    model = make_pipeline(StandardScaler(), oblong.RelativeMarginClassifier(C=2.0)).fit(X, y)
    oblong.save(model, tmp_path / "m", training={"source": "blobs", "rows": len(X)})
    manifest = read_manifest(tmp_path / "m")
    assert manifest["format"] == "oblong model"
    assert manifest["version"] == 1
    assert manifest["class"] == "Pipeline"
    assert manifest["steps"][-1][1] == "RelativeMarginClassifier"
    assert manifest["parameters"]["C"] == 2.0
    assert manifest["n_features"] == 3
    assert manifest["classes"] == [0, 1, 2]
    assert manifest["certificate"]["converged"] is True
    assert max(manifest["certificate"]["dual_gap"]) == model[-1].dual_gap_.max()
    assert manifest["versions"]["oblong"] == oblong.__version__
    assert manifest["training"] == {"source": "blobs", "rows": 48}
    # Any tool that knows ZIP can look inside.
    with zipfile.ZipFile(tmp_path / "m") as archive:
        assert archive.testzip() is None
        assert "manifest.json" in archive.namelist()


def test_models_of_many_names_come_back(tmp_path):
    """Whatever can be saved can be loaded."""
    names = [f"a rather long name of a column, number {j}" for j in range(30_000)]
    model = oblong.AROWClassifier().fit(np.eye(2), [0, 1])
    oblong.save(model, tmp_path / "m", training={"schema": names})
    assert read_manifest(tmp_path / "m")["training"]["schema"] == names
    assert_same_predictions(oblong.load(tmp_path / "m"), model, np.eye(2))


def test_what_would_be_refused_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("oblong.persistence._archive._LARGEST", 5000)
    model = oblong.AROWClassifier()
    with pytest.raises(ModelFileError, match="m: the model cannot be saved: its description"):
        oblong.save(model, tmp_path / "m", training={"names": ["x" * 5000]})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "cv", [KFold(4, shuffle=True, random_state=0), StratifiedKFold(3), LeaveOneOut()]
)
def test_folds_that_a_calibrated_classifier_was_given(cv, tmp_path):
    X, y = rows()
    model = oblong.CalibratedMarginClassifier(cv=cv).fit(X, y)
    other = again(model, tmp_path)
    assert repr(other.cv) == repr(cv)
    assert_same_predictions(model, other)
    np.testing.assert_array_equal(other.predict_p(NEW), model.predict_p(NEW))
    np.testing.assert_array_equal(other.predict_set(NEW), model.predict_set(NEW))


def words(n):
    table = np.array(["red", "green", "blue"], dtype=object)[np.arange(2 * n).reshape(n, 2) % 3]
    table[::5, 0] = np.nan
    return table


@pytest.mark.parametrize(
    ("imputer", "table"),
    [
        (SimpleImputer(strategy="most_frequent"), words),
        (SimpleImputer(strategy="constant", fill_value="none", add_indicator=True), words),
        (SimpleImputer(), lambda n: 7.0 + np.arange(2 * n).reshape(n, 2) % 3),
    ],
)
@pytest.mark.parametrize("calibrated", [False, True])
def test_categories_behind_an_imputer(imputer, table, calibrated, tmp_path):
    _, y = rows()
    model = make_pipeline(imputer, OneHotEncoder(), oblong.RelativeMarginClassifier())
    model = oblong.CalibratedMarginClassifier(model, cv=2) if calibrated else model
    X = table(len(y))
    assert_same_predictions(model.fit(X, y), again(model, tmp_path), X)


def test_columns_that_pass_through(tmp_path):
    X, y = rows()
    for parts in ([("a", StandardScaler(), [0])], [("a", "passthrough", [0, 2])]):
        columns = ColumnTransformer(parts, remainder="passthrough")
        model = make_pipeline(columns, oblong.RelativeMarginClassifier()).fit(X, y)
        assert_same_predictions(model, again(model, tmp_path))


def test_a_model_that_overflows_far_from_its_rows(tmp_path):
    X, y = rows()
    model = oblong.RelativeMarginClassifier(kernel="poly").fit(1e-150 * X, y)
    with pytest.raises(ValueError, match="finite"):
        model.predict(X)
    assert_same_predictions(model, again(model, tmp_path), 1e-150 * X)


def test_leave_one_out_keeps_no_models_and_comes_back(tmp_path):
    X, y = rows()
    X, y = np.vstack([X, X + 0.1]), np.tile(y, 2)
    model = oblong.CalibratedMarginClassifier(cv=LeaveOneOut()).fit(X, y)
    with pytest.raises(ValueError, match="kept for at most 50 folds"):
        model.predict_p(NEW)
    assert_same_predictions(model, again(model, tmp_path))
