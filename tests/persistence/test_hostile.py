"""Files that are damaged, foreign or meant to do harm."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import tracemalloc
import warnings
import zipfile

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import oblong
from oblong.persistence import ModelFileError, load, read_manifest

from .models import fitted, rows

MEMBERS = ("arrays.bin", "model.json", "manifest.json")


def saved(model, path):
    oblong.save(model, path)
    return path


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forge(path, parts, *, digests=True, compression=zipfile.ZIP_STORED):
    """Write members as a file, with digests that fit unless told otherwise."""
    parts = dict(parts)
    if digests:
        manifest = json.loads(parts["manifest.json"])
        manifest["sha256"] = {name: hashlib.sha256(parts[name]).hexdigest() for name in MEMBERS[:2]}
        parts["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def forged_tree(path, tree, arrays=b""):
    """A file with a tree of one's own and all digests right."""
    parts = members(saved(oblong.AROWClassifier(), path))
    return forge(path, parts | {"model.json": json.dumps(tree).encode(), "arrays.bin": arrays})


def edited(path, edit, model):
    """Save a model, change its tree, and make the digests fit."""
    parts = members(saved(model, path))
    tree = json.loads(parts["model.json"])
    edit(tree["object"]["state"])
    return forge(path, parts | {"model.json": json.dumps(tree).encode()})


def refused(path, *, at_most=2_000_000):
    """The message with which a file is refused, without much memory."""
    load_quietly(path)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as error:
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < at_most
    message = str(error.value)
    assert "\n" not in message
    assert message.isprintable()
    return message


def load_quietly(path):
    """Once before memory is counted, so that imports do not count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            load(path)
        except ModelFileError:
            return


class Bomb:
    """Leaves a trace if it is ever unpickled."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_are_not_opened(tmp_path, protocol):
    path = tmp_path / "model.oblong"
    path.write_bytes(pickle.dumps(Bomb(tmp_path / "trace"), protocol=protocol))
    message = refused(path)
    assert "pickle" in message if protocol >= 2 else "not a model file" in message
    assert not (tmp_path / "trace").exists()


def test_compressed_pickles_are_not_opened(tmp_path):
    joblib.dump(Bomb(tmp_path / "trace"), tmp_path / "m.oblong", compress=3)
    refused(tmp_path / "m.oblong")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("member", MEMBERS)
def test_pickles_inside_are_not_opened(tmp_path, member):
    path = tmp_path / "m.oblong"
    bomb = pickle.dumps(Bomb(tmp_path / "trace"))
    parts = members(saved(fitted("RelativeMarginClassifier", {}), path)) | {member: bomb}
    forge(path, parts, digests=member != "manifest.json")
    refused(path)
    assert not (tmp_path / "trace").exists()


def test_arrays_of_pickled_objects_are_not_opened(tmp_path):
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb(tmp_path / "trace")], dtype=object), allow_pickle=True)
    content = stream.getvalue()
    content += bytes(-len(content) % 64)
    node = {"dtype": "|O", "shape": [1], "order": "C", "offset": 0}
    refused(forged_tree(tmp_path / "m", {"array": node}, content))
    assert not (tmp_path / "trace").exists()


def test_foreign_files(tmp_path):
    path = tmp_path / "m.oblong"
    for content, word in [
        (b"", "empty"),
        (b"a,b,y\n1,2,x\n", "not a model file"),
        (b"PK\x03\x04 and no more", "damaged"),
        (os.urandom(100).replace(b"PK", b"xx").lstrip(b"\x80") or b"x", "not a model file"),
    ]:
        path.write_bytes(content)
        assert word in refused(path)
    np.savez(path.with_suffix(".npz"), X=np.eye(2))
    assert "not a model of oblong" in refused(path.with_suffix(".npz"))
    with pytest.raises(ModelFileError, match=r"nowhere: cannot be read: No such file"):
        load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="cannot be read"):
        load(tmp_path)


def test_truncated_files(tmp_path):
    path = saved(fitted("RelativeMarginClassifier", {}), tmp_path / "m.oblong")
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refused(path)


FLIPPED = None


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=150)
def test_flipped_bits(tmp_path_factory, place, bit):
    """No flip goes unnoticed, but in what ZIP itself does not look at; none does harm."""
    global FLIPPED
    if FLIPPED is None:
        folder = tmp_path_factory.mktemp("flipped")
        path = saved(fitted("KernelFisherClassifier", {}), folder / "m.oblong")
        FLIPPED = path, path.read_bytes(), load(path).decision_function(np.ones((1, 3)))
    path, whole, expected = FLIPPED
    content = bytearray(whole)
    content[int(place * len(whole))] ^= 1 << bit
    path.write_bytes(content)
    try:
        model = load(path)
    except ModelFileError:
        return
    # Times, permissions and the like, of members that are what they were.
    np.testing.assert_array_equal(model.decision_function(np.ones((1, 3))), expected)


def test_changed_members_do_not_fit_their_digests(tmp_path):
    path = saved(fitted("RelativeMarginClassifier", {}), tmp_path / "m.oblong")
    for member in MEMBERS[:2]:
        parts = members(path)
        parts[member] = parts[member].replace(b"0", b"1", 1) or b"x"
        forge(tmp_path / "changed", parts, digests=False)
        assert f"{member} is not what was saved" in refused(tmp_path / "changed")
        with pytest.raises(ModelFileError, match="is not what was saved"):
            read_manifest(tmp_path / "changed")


def test_newer_formats(tmp_path):
    path = saved(oblong.AROWClassifier(), tmp_path / "m")
    parts = members(path)
    manifest = json.loads(parts["manifest.json"])
    for version, word in [(2, "newer oblong (format 2"), (0, "no version"), ("1", "no version")]:
        parts["manifest.json"] = json.dumps(manifest | {"version": version}).encode()
        assert word in refused(forge(path, parts))


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_bombs(tmp_path, compression):
    path = saved(oblong.AROWClassifier(), tmp_path / "m")
    parts = members(path) | {"arrays.bin": bytes(1 << 28 >> 4)}
    forge(path, parts, compression=compression)
    assert path.stat().st_size < 1 << 20
    assert "compressed" in refused(path)


def test_members_that_claim_more_than_the_file_has(tmp_path):
    path = saved(oblong.AROWClassifier(), tmp_path / "m")
    content = path.read_bytes()
    place = content.index(b"PK\x01\x02")
    sizes = slice(place + 20, place + 28)
    forged = bytearray(content)
    forged[sizes] = (2**31).to_bytes(4, "little") * 2
    path.write_bytes(forged)
    assert "claims" in refused(path)


@pytest.mark.parametrize("name", ["../evil.py", "/tmp/evil.py", "..\\evil.py", "oblong/evil.py"])
def test_members_with_paths(tmp_path, name):
    path = saved(oblong.AROWClassifier(), tmp_path / "m")
    forge(path, members(path) | {name: b"print('evil')"})
    assert "not a model of oblong" in refused(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]


def test_members_twice(tmp_path):
    path = saved(oblong.AROWClassifier(), tmp_path / "m")
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("model.json", "null")
    refused(path)


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("support_vectors_", np.zeros((1, 3))),
        ("_n_support", np.array([10**6, 1, 1], dtype=np.int32)),
        ("_dual_coef_", np.zeros((1, 1))),
        ("_intercept_", np.zeros(1)),
        ("support_", np.zeros(4, dtype=np.int32)),
        ("_probA", np.zeros(1)),
        ("_sparse", True),
    ],
)
def test_libsvm_is_not_trusted_with_wrong_shapes(tmp_path, name, value):
    X, y = rows()
    model = SVC().fit(X, y)
    setattr(model, name, value)
    assert "damaged" in refused(saved(model, tmp_path / "m"), at_most=4_000_000)


def test_random_states_are_not_trusted(tmp_path):
    """Its position indexes an array in compiled code, unchecked."""

    def far(state):
        state["random_state"]["random_state"][1] = 10**9

    model = oblong.AROWClassifier(random_state=np.random.RandomState(0))
    assert "random state" in refused(edited(tmp_path / "m", far, model))


def test_sparse_matrices_are_checked(tmp_path):
    import scipy.sparse as sp

    X, y = rows()
    model = oblong.RelativeMarginClassifier().fit(sp.csr_matrix(X), y)
    model.support_vectors_.indices[:] = 10**6
    assert "sparse" in refused(saved(model, tmp_path / "m"), at_most=4_000_000)


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
