"""scikit-learn's own tests of its support vector machines, run against ours.

The files of tests that are installed with scikit-learn are loaded a second time with ``SVC``,
``LinearSVC`` and ``SVR`` in place of those of scikit-learn. What is left out is listed with a
reason each.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

import pytest
import sklearn.svm

from oblong.svm import SVC, SVR, LinearSVC

OURS = {"SVC": SVC, "SVR": SVR, "LinearSVC": LinearSVC}
L1 = "the L1 penalty is a clear error here; see test_linear.py for what remains"
JOINT = "the joint problem of Crammer and Singer is a clear error here"
PROBABILITY = "scikit-learn removes `probability` and its attributes; they are not here"
PRIVATE = "changes private arrays of scikit-learn's estimator, which are handed to LIBSVM"
STEPS = "counts iterations of LIBSVM or LIBLINEAR and expects their messages"
DENSE = "coefficients are dense here, whatever the rows are; see test_drop_in.py"
# Tests, or single cases of tests, that are left out.
SKIPPED = {
    "test_bad_input[lil_matrix]": "a model of dense rows takes sparse rows here",
    "test_bad_input[lil_array]": "a model of dense rows takes sparse rows here",
    "test_crammer_singer_binary": JOINT,
    "test_custom_kernel_not_array_input[SVC]": "rows have to be numbers here, also for callables",
    "test_custom_kernel_not_array_input[SVR]": "rows have to be numbers here, also for callables",
    "test_dense_liblinear_intercept_handling": L1,
    "test_hasattr_predict_proba": PROBABILITY,
    "test_immutable_coef_property": "linear models predict from `coef_` here: a change has effect",
    "test_libsvm_convergence_warnings": STEPS,
    "test_linear_svm_convergence_warnings": STEPS,
    "test_linearsvc": L1,
    "test_linearsvc_crammer_singer": JOINT,
    "test_linearsvc_parameters[False-l1-squared_hinge]": L1,
    "test_linearsvm_liblinear_sample_weight[LinearSVC-params0]": L1,
    "test_probability": PROBABILITY,
    "test_probability_raises_futurewarning[False-SVC-SVC]": PROBABILITY,
    "test_probability_raises_futurewarning[True-SVC-SVC]": PROBABILITY,
    "test_sparse_fit_support_vectors_empty": DENSE,
    "test_sparse_liblinear_intercept_handling": L1,
    "test_sparse_realdata": DENSE,
    "test_sparse_svc_clone_with_callable_kernel": PROBABILITY,
    "test_svc": PROBABILITY,
    "test_svc_iris": DENSE,
    "test_timeout": STEPS,
    "test_unsorted_indices": PROBABILITY,
    "test_svc_nonfinite_params": "the error comes before the fit, in other words",
    "test_svc_nusvc_probA_probB_deprecated[SVC]": PROBABILITY,
    "test_svc_ovr_tie_breaking[SVC]": "at an output of exactly zero LIBSVM votes for one class and "
    "scikit-learn's decision function for the other; here they agree",
    "test_svc_raises_error_internal_representation": PRIVATE,
    "test_svm_with_infinite_C": "an infinite C is a clear error here; see test_drop_in.py",
    "test_svr_errors": "a kernel of a wrong shape is an error in `fit` already",
    "test_tweak_params": PRIVATE,
}

# Tests of scikit-learn are free to warn.
pytestmark = pytest.mark.filterwarnings("ignore")


def load(name: str) -> ModuleType:
    path = Path(sklearn.svm.__file__).parent / "tests" / f"{name}.py"
    if not path.exists():
        pytest.skip("scikit-learn is installed without its tests", allow_module_level=True)
    spec = importlib.util.spec_from_file_location(f"oblong_{name}", path)
    module = importlib.util.module_from_spec(spec)
    # Lists of parameters name the classes when the file is read, tests when they run.
    with mock.patch.multiple(sklearn.svm, **OURS):
        spec.loader.exec_module(module)
    module.svm = SimpleNamespace(**{**vars(sklearn.svm), **OURS})
    return module


THEIRS: dict[str, object] = {}
for file in ("test_svm", "test_sparse"):
    for name, test in vars(load(file)).items():
        if name.startswith("test_"):
            THEIRS[name if name not in THEIRS else f"{name}_of_{file}"] = test
if "test_probability_raises_futurewarning" not in THEIRS:
    pytest.skip("tests of older versions use `probability`", allow_module_level=True)


@pytest.fixture
def global_random_seed() -> int:
    return 42


@pytest.fixture(autouse=True)
def _left_out(request) -> None:
    for name in (request.node.name, request.node.name.partition("[")[0]):
        if name in SKIPPED:
            pytest.skip(SKIPPED[name])


globals().update(THEIRS)


def test_what_is_left_out_exists():
    assert {case.partition("[")[0] for case in SKIPPED} <= set(THEIRS)
