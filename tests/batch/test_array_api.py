"""Arrays of other libraries: scikit-learn's checks run elsewhere, the rest is here."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError

import oblong
from oblong import RelativeMarginClassifier, RelativeMarginClassifierCV
from oblong.batch import _device
from oblong.batch._device import ArrayPlace, out_of_memory, to_numpy
from tests.batch.data import clouds

strict = pytest.importorskip("array_api_strict")
try:
    with config_context(array_api_dispatch=True):
        pass
except ImportError as error:
    # Old versions of scikit-learn and SciPy need more for it.
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture(autouse=True)
def dispatch():
    with config_context(array_api_dispatch=True):
        yield


@pytest.mark.parametrize(
    "model",
    [
        RelativeMarginClassifier(spread=0.2),
        RelativeMarginClassifier(D=2.0, nu=5.0, kernel="linear"),
        RelativeMarginClassifierCV(Cs=np.array([1.0]), spreads=(1.0, 0.3), cv=2),
    ],
    ids=["spread", "variable bound", "search"],
)
def test_a_model_is_the_same_in_another_library(model):
    X, y = clouds(40, classes=3)
    other = copy.deepcopy(model).fit(strict.asarray(X), strict.asarray(y), strict.ones(len(y)))
    model = model.fit(X, y)
    # What was fitted is there; what was given stays where it was.
    assert ArrayPlace.of(other.intercept_) is not None
    assert all(ArrayPlace.of(value) is None for value in other.get_params(deep=False).values())
    answer = other.decision_function(strict.asarray(X))
    assert ArrayPlace.of(answer) is not None
    np.testing.assert_array_equal(to_numpy(answer), model.decision_function(X))
    np.testing.assert_array_equal(to_numpy(other.predict(strict.asarray(X))), model.predict(X))
    np.testing.assert_array_equal(to_numpy(other.intercept_), model.intercept_)


def test_labels_that_are_no_numbers_stay_with_numpy():
    X, y = clouds(40, classes=2)
    names = np.array(["no", "yes"])[y]
    model = RelativeMarginClassifier().fit(strict.asarray(X), names)
    assert set(model.predict(strict.asarray(X))) == {"no", "yes"}


def test_a_model_is_asked_where_it_was_fitted():
    X, y = clouds(40, classes=2)
    with pytest.raises(NotFittedError):
        RelativeMarginClassifier().predict(strict.asarray(X))
    model = RelativeMarginClassifier().fit(strict.asarray(X), y)
    with pytest.raises(ValueError, match="must use the same namespace"):
        model.predict(X)


def test_errors_that_mean_too_little_memory():
    assert out_of_memory(MemoryError())
    assert out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert not out_of_memory(ValueError("no solution"))


@pytest.mark.parametrize("search", [False, True])
def test_a_saved_model_has_arrays_of_numpy(search, tmp_path):
    X, y = clouds(60, seed=0)
    model = RelativeMarginClassifierCV(Cs=[1.0], cv=2) if search else RelativeMarginClassifier()
    oblong.save(copy.deepcopy(model).fit(strict.asarray(X), strict.asarray(y)), tmp_path / "m")
    expected = model.fit(X, y).decision_function(X)
    np.testing.assert_array_equal(oblong.load(tmp_path / "m").decision_function(X), expected)


def test_what_cuda_lacks_is_named(monkeypatch):
    cuda = pytest.importorskip("numba.cuda")
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    with pytest.raises(ImportError, match=r"pip install 'oblong\[gpu\]'"):
        _device._check_ready()
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    _device._check_ready()

    def without_a_name(module):
        raise AttributeError("module 'numpy' has no attribute 'row_stack'")

    monkeypatch.setattr(_device, "import_module", without_a_name)
    with pytest.raises(ImportError, match=r"NumPy .* has no attribute 'row_stack'.*older NumPy"):
        _device._check_ready()
