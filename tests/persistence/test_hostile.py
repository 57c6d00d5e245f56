"""Files that are damaged, foreign or meant to do harm."""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
import zipfile

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oblong
from oblong.persistence import ModelFileError, load, read_manifest

from .forging import MEMBERS, forge, forged_tree, members, refused, saved
from .models import fitted


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
