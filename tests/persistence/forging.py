"""Model files with members of one's own, and the message with which they are refused."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
import warnings
import zipfile
from unittest.mock import patch

import pytest

import oblong
from oblong.persistence import ModelFileError, load
from oblong.persistence._encode import Encoder

MEMBERS = ("arrays.bin", "model.json", "manifest.json")


def saved(model, path):
    """Save a model without the checks that keep what is damaged out of files."""
    with patch.object(Encoder, "_check"):
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
