"""Model files whose members are sound, with contents that no model has."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import oblong
from oblong.persistence import ModelFileError, load

from .forging import edited, forge, forged_tree, members, refused, saved
from .models import fitted, rows

TREES = {
    "import": {"object": {"class": "os.system", "state": {}}},
    "builtin": {"object": {"class": "builtins.eval", "state": {}}},
    "foreign estimator": {"object": {"class": "sklearn.DecisionTreeClassifier", "state": {}}},
    "class of no name": {"object": {"class": ["x"], "state": {}}},
    "method": {"object": {"class": "oblong.AROWClassifier", "state": {"predict": 1}}},
    "dunder": {"object": {"class": "oblong.AROWClassifier", "state": {"__class__": 1}}},
    "attribute": {"object": {"class": "oblong.AROWClassifier", "state": {"a b": 1}}},
    "state": {"object": {"class": "oblong.AROWClassifier", "state": [1]}},
    "kernel": {
        "object": {
            "class": "oblong.Kernel",
            "state": {"name": "exec", "gamma": 1.0, "degree": 3, "coef0": 0.0},
        }
    },
    "kind": {"code": "print()"},
    "private kind": {"__init__": 1},
    "two kinds": {"tuple": [], "dict": []},
    "no kind": {},
    "type": {"type": "os"},
    "dtype": {"dtype": "O8,O8"},
    "float": {"float": "1e5"},
    "scalar": {"scalar": ["<i8", 1e400]},
    "scalar of text": {"scalar": ["<f8", "one"]},
    "scalar too large": {"scalar": ["|i1", 10**30]},
    "slice": {"slice": [1, 2]},
    "slice of text": {"slice": ["a", None, None]},
    "dict key": {"dict": [[[1], 2]]},
    "dict pair": {"dict": [[1]]},
    "shape": {"array": {"dtype": "<f8", "shape": [-1], "order": "C", "offset": 0}},
    "huge array": {"array": {"dtype": "<f8", "shape": [1 << 40], "order": "C", "offset": 0}},
    "overflowing shape": {
        "array": {"dtype": "<f8", "shape": [1 << 32, 1 << 32], "order": "C", "offset": 0}
    },
    "empty and endless": {
        "array": {"dtype": "<f8", "shape": [0] + [1 << 61] * 9, "order": "C", "offset": 0}
    },
    "offset": {"array": {"dtype": "<f8", "shape": [1], "order": "C", "offset": -64}},
    "objects": {"objects": {"shape": [1 << 50], "items": []}},
    "strings": {"strings": {"shape": [1], "items": [1]}},
    "long strings": {"strings": {"shape": [5000], "items": ["a" * 50_000] + [""] * 4999}},
    "mask": {"masked": [1, 2]},
    "sparse": {
        "sparse": {
            "kind": "csr_matrix",
            "shape": [1 << 40, 1 << 40],
            "data": {"strings": {"shape": [0], "items": []}},
            "indices": None,
            "indptr": None,
        }
    },
    "random state": {"random_state": [1, 2, 3, 4]},
}


@pytest.mark.parametrize("case", TREES)
def test_trees_that_no_model_has(tmp_path, case):
    assert "damaged" in refused(forged_tree(tmp_path / "m", TREES[case]), at_most=4_000_000)


def test_nests_without_end(tmp_path):
    path = forged_tree(tmp_path / "m", None)
    parts = members(path) | {"model.json": b"[" * 200_000 + b"]" * 200_000}
    assert "damaged" in refused(forge(path, parts), at_most=4_000_000)


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"", b"{", b"\xff", b"1" * 10_000])
def test_texts_that_are_not_json(tmp_path, text):
    path = forged_tree(tmp_path / "m", None)
    assert "damaged" in refused(forge(path, members(path) | {"model.json": text}))


def test_arrays_share_no_bytes(tmp_path):
    """Many arrays from one stretch of bytes would need more memory than the file has."""
    node = [
        {"array": {"dtype": "<f8", "shape": [1 << 17, k], "order": "C", "offset": 0}}
        for k in (1, 1)
    ]
    node[1]["array"]["shape"] = [1, 1 << 17]
    refused(forged_tree(tmp_path / "m", node, bytes(1 << 20)), at_most=4_000_000)


def test_arrays_nobody_refers_to(tmp_path):
    assert "nothing refers to" in refused(forged_tree(tmp_path / "m", None, bytes(64)))


def test_truth_values_that_are_none(tmp_path):
    node = {"array": {"dtype": "|b1", "shape": [1], "order": "C", "offset": 0}}
    assert "neither true nor false" in refused(forged_tree(tmp_path / "m", node, b"\x07" * 64))


def array_of(state, name):
    return state[name]["array"]


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("RelativeMarginClassifier", lambda s: array_of(s, "dual_coef_").update(shape=[1, 2])),
        ("RelativeMarginClassifier", lambda s: s.update(n_features_in_=10**12)),
        ("RelativeMarginClassifier", lambda s: s.update(n_features_in_=2)),
        ("RelativeMarginClassifier", lambda s: s.update(kernel={"tuple": []})),
        ("RelativeMarginClassifier", lambda s: s.pop("intercept_")),
        ("RelativeMarginClassifier", lambda s: s.update(classes_=None)),
        ("RelativeMarginClassifier", lambda s: s.update(n_support_=s["support_"])),
        ("EllipsoidalSVC", lambda s: s["_map"]["object"]["state"].update(rows=None, factor=None)),
        ("AROWClassifier", lambda s: s.update(n_features_in_=5)),
        ("AROWClassifier", lambda s: s["_state"]["object"]["state"].update(n_features=900)),
        ("AROWClassifier", lambda s: s["_state"]["object"]["state"].update(table=None)),
        ("AROWClassifier", lambda s: s["_state"]["object"]["state"].pop("work")),
        ("AROWClassifier", lambda s: s.update(_state={"tuple": []})),
        ("AROWClassifier", lambda s: s.update(_vocabulary={"dict": [["a", 10**9]]})),
        ("KernelConfidenceWeightedClassifier", lambda s: s.update(n_features_in_=1)),
    ],
)
def test_wrong_shapes(tmp_path, name, edit):
    path = edited(tmp_path / "m", edit, fitted(name, {}))
    assert "damaged" in refused(path, at_most=4_000_000)


@pytest.mark.parametrize(
    "name", ["table", "covariance", "scale", "total", "counters", "work", "codes"]
)
@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
def test_states_of_other_sizes(tmp_path, name, covariance):
    """Compiled code does not look where it reads and writes."""
    settings = {"covariance": covariance, "average": True, "sketch_size": 4}
    model = fitted("AROWClassifier", settings, labels="numbers")
    state = model._state
    array = getattr(state, name)
    smaller = array[tuple(slice(0, max(n - 1, 0)) for n in array.shape)]
    if array.size == 0:
        smaller = np.zeros((1, 1, 1))
    setattr(state, name, np.ascontiguousarray(smaller))
    assert "damaged" in refused(saved(model, tmp_path / "m"), at_most=4_000_000)


@pytest.mark.parametrize(("place", "value"), [(0, 9), (2, 17), (3, 0), (3, 10**12)])
def test_codes_that_mean_nothing(tmp_path, place, value):
    model = fitted("AROWClassifier", {"covariance": "full"}, labels="numbers")
    model._state.codes[place] = value
    refused(saved(model, tmp_path / "m"), at_most=4_000_000)


def test_random_states_are_not_trusted(tmp_path):
    """Its position indexes an array in compiled code, unchecked."""

    def far(state):
        state["random_state"]["random_state"][1] = 10**9

    model = oblong.AROWClassifier(random_state=np.random.RandomState(0))
    assert "random state" in refused(edited(tmp_path / "m", far, model))


@pytest.mark.parametrize("name", ["func", "inverse_func"])
def test_a_step_calls_nothing_that_a_file_names(tmp_path, name):
    def call(state):
        state[name] = {"type": "str"}

    step = FunctionTransformer(feature_names_out="one-to-one")
    assert "unknown kind of value 'type'" in refused(edited(tmp_path / "m", call, step))


def test_sparse_matrices_are_checked(tmp_path):
    import scipy.sparse as sp

    X, y = rows()
    model = oblong.RelativeMarginClassifier().fit(sp.csr_matrix(X), y)
    model.support_vectors_.indices[:] = 10**6
    assert "sparse" in refused(saved(model, tmp_path / "m"), at_most=4_000_000)


@pytest.mark.parametrize("name", ["classes_", "intercept_", "support_", "support_vectors_"])
@pytest.mark.parametrize(
    "model",
    [
        oblong.RelativeMarginClassifier(),
        oblong.KernelFisherClassifier(),
        oblong.EllipsoidalSVC(kernel="rbf"),
        oblong.BayesPointClassifier(kernel="rbf"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_arrays_of_kernel_models_that_do_not_fit_together(tmp_path, model, name):
    """A prediction of a few rows may well succeed with them."""
    X, y = rows()
    model = clone(model).fit(X, y)
    value = getattr(model, name)
    for number, wrong in enumerate((value[..., :-1], value[None], np.concatenate([value, value]))):
        setattr(model, name, wrong)
        refused(saved(model, tmp_path / f"m{number}"), at_most=4_000_000)


def test_parts_of_another_scikit_learn_warn(tmp_path):
    X, _ = rows()
    path = saved(StandardScaler().fit(X), tmp_path / "m")
    parts = members(path)
    manifest = json.loads(parts["manifest.json"])
    manifest["versions"]["scikit-learn"] = "0.9.9"
    parts["manifest.json"] = json.dumps(manifest).encode()
    with pytest.warns(InconsistentVersionWarning, match=r"0\.9\.9"):
        load(forge(path, parts))


MUTATED = {
    "margin": lambda: fitted("RelativeMarginClassifier", {"kernel": "rbf"}),
    "online": lambda: fitted("AROWClassifier", {"covariance": "full"}),
    "ellipsoid": lambda: fitted("MinimumVolumeEllipsoid", {}),
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(*rows()),
}
LOADED: dict[str, dict] = {}


def places(node, found):
    """All places in a tree where a value can be changed."""
    for key in node if isinstance(node, dict) else range(len(node)):
        found.append((node, key))
        if isinstance(node[key], (dict, list)):
            places(node[key], found)
    return found


@given(
    name=st.sampled_from(sorted(MUTATED)),
    place=st.floats(0, 1, exclude_max=True),
    value=st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 2**40),
        st.sampled_from(["", "rbf", "<i8", "<f4", 1e300, -1.0, [], {"dict": []}, {"float": "nan"}]),
    ),
    garbage=st.one_of(st.none(), st.binary(min_size=8, max_size=64)),
)
@settings(max_examples=150)
def test_what_loads_can_be_used(tmp_path_factory, name, place, value, garbage):
    """A changed file that was signed again: refused, or a model that predicts."""
    if name not in LOADED:
        path = saved(MUTATED[name](), tmp_path_factory.mktemp(name) / "m")
        LOADED[name] = members(path) | {"path": path}
    parts = dict(LOADED[name])
    path = parts.pop("path")
    if garbage is None:
        tree = json.loads(parts["model.json"])
        parent, key = (every := places(tree, []))[int(place * len(every))]
        parent[key] = value
        parts["model.json"] = json.dumps(tree).encode()
    else:
        arrays = bytearray(parts["arrays.bin"])
        start = int(place * max(1, len(arrays) - len(garbage)))
        arrays[start : start + len(garbage)] = garbage[: len(arrays) - start]
        parts["arrays.bin"] = bytes(arrays)
    try:
        model = load(forge(path.with_name("changed"), parts))
    except ModelFileError:
        return
    for method in ("predict", "decision_function", "predict_proba", "score_samples"):
        if hasattr(model, method):
            with np.errstate(all="ignore"):
                assert len(getattr(model, method)(np.ones((3, 3)))) == 3


def test_garbage_for_arrays_is_refused(tmp_path):
    random = np.random.default_rng(0)
    for make in MUTATED.values():
        parts = members(saved(make(), tmp_path / "m"))
        for _ in range(5):
            noise = random.bytes(len(parts["arrays.bin"]))
            assert "damaged" in refused(forge(tmp_path / "n", parts | {"arrays.bin": noise}))


def test_a_trial_leaves_random_numbers_as_they_were(tmp_path):
    X, y = rows()
    random = np.random.RandomState(3)
    model = oblong.RelativeMarginClassifier(break_ties="random", random_state=random).fit(X, y)
    state = random.get_state()[1:3]
    other = load(saved(model, tmp_path / "m"))
    for mine, theirs in zip(state, other.random_state.get_state()[1:3]):
        np.testing.assert_array_equal(mine, theirs)
