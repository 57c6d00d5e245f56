"""The container: a ZIP archive of three members that are stored as they are.

Nothing is compressed, so that no file can ask for more memory than its own length, and any tool
that knows ZIP shows what is inside.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from oblong._core.atomic import atomic_write
from oblong._core.text import printable
from oblong.io.errors import first_line
from oblong.persistence._errors import ModelFileError

FORMAT = "oblong model"
VERSION = 1
MANIFEST, TREE, ARRAYS = "manifest.json", "model.json", "arrays.bin"
# Of each of the two texts.
_LARGEST = 1 << 26
_CHUNK = 1 << 20
# The earliest time that ZIP knows: the same model gives the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


def write_archive(
    path: Path, manifest: dict[str, Any], tree: Any, arrays: Iterable[memoryview | bytes]
) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    path : Path
        The file. What was there stays until the new one is complete.
    manifest : dict
        What to say about the model; format, version and digests are added.
    tree : JSON values
        The model.
    arrays : iterable of bytes
        Its arrays.
    """
    text = json.dumps(tree, allow_nan=False, separators=(",", ":")).encode()
    _check_size(text, "structure", path)
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        digest = hashlib.sha256()
        with archive.open(_member(ARRAYS), "w", force_zip64=True) as member:
            for chunk in arrays:
                member.write(chunk)
                digest.update(chunk)
        archive.writestr(_member(TREE), text)
        digests = {TREE: hashlib.sha256(text).hexdigest(), ARRAYS: digest.hexdigest()}
        head = {"format": FORMAT, "version": VERSION, **manifest, "sha256": digests}
        described = json.dumps(head, indent=1, allow_nan=False, default=_number).encode()
        _check_size(described, "description", path)
        archive.writestr(_member(MANIFEST), described)


def _check_size(text: bytes, what: str, path: Path) -> None:
    """Refuse to write what :func:`load` would not read."""
    if len(text) > _LARGEST:
        problem = f"its {what} takes {len(text) >> 20} MB, and a file has {_LARGEST >> 20}"
        raise ModelFileError(path.name, f"the model cannot be saved: {problem}")


def _number(value: Any) -> Any:
    """A number of NumPy's, which JSON does not know."""
    if not isinstance(value, np.generic):
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    return value.item()


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, _TIME)


class Archive:
    """An open model file whose members have been checked."""

    def __init__(self, archive: zipfile.ZipFile, source: str) -> None:
        self._archive, self._source = archive, source
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        self.arrays_length = sizes[ARRAYS]
        self.manifest = self._json(MANIFEST)
        self._check_manifest()
        self._check_digests()
        self._arrays: zipfile.ZipExtFile | None = None

    def _check_manifest(self) -> None:
        manifest = self.manifest
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ModelFileError(self._source, "a ZIP archive, but not a model of oblong")
        version = manifest.get("version")
        if version != VERSION:
            newer = f"written by a newer oblong (format {version}, and this one reads {VERSION})"
            known = type(version) is int and version > VERSION
            problem = newer if known else "damaged: the format has no version"
            raise ModelFileError(self._source, problem)
        if not isinstance(manifest.setdefault("training", {}), dict):
            raise ModelFileError(self._source, "damaged: the description of the training data")

    def _check_digests(self) -> None:
        """Compare both members with what the manifest says of them."""
        digests = self.manifest.get("sha256")
        for name in (TREE, ARRAYS):
            with self._archive.open(name) as member:
                # What `open` returns; its annotation says only IO.
                digest = hashlib.file_digest(cast(zipfile.ZipExtFile, member), "sha256")
            if not isinstance(digests, dict) or digests.get(name) != digest.hexdigest():
                raise ModelFileError(
                    self._source, f"damaged or changed: {name} is not what was saved"
                )

    def tree(self) -> Any:
        """The JSON values of the model."""
        return self._json(TREE)

    def read_array(self, offset: int, into: np.ndarray) -> None:
        """Fill an array of bytes."""
        if self._arrays is None:
            # What `open` returns; its annotation says only IO.
            self._arrays = cast(zipfile.ZipExtFile, self._archive.open(ARRAYS))
        self._arrays.seek(offset)
        view, done = into.data, 0
        while done < len(view):
            count = self._arrays.readinto(view[done : done + _CHUNK])
            if not count:
                raise ModelFileError(self._source, "damaged: the arrays end early")
            done += count

    def _json(self, name: str) -> Any:
        if self._archive.getinfo(name).file_size > _LARGEST:
            problem = f"refused: {name} is larger than {_LARGEST >> 20} MB"
            raise ModelFileError(self._source, problem)
        try:
            return json.loads(self._archive.read(name), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise ModelFileError(self._source, f"damaged: {name} cannot be read") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


@contextmanager
def open_archive(path: Path, source: str) -> Iterator[Archive]:
    """Open a model file; what is not one gets a clear error before much of it is read.

    Parameters
    ----------
    path : Path
        The file.
    source : str
        Its name for messages.
    """
    try:
        with open(path, "rb") as stream:
            _recognise(stream, source)
            size = os.fstat(stream.fileno()).st_size
            with zipfile.ZipFile(stream) as archive:
                _check_members(archive.infolist(), size, source)
                yield Archive(archive, source)
    except OSError as error:
        raise ModelFileError(source, f"cannot be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError) as error:
        problem = f"damaged: truncated, or not a model file ({printable(first_line(error))})"
        raise ModelFileError(source, problem) from None


def _recognise(stream: BinaryIO, source: str) -> None:
    head = stream.read(4)
    stream.seek(0)
    if head.startswith(b"PK\x03\x04"):
        return
    if not head:
        problem = "the file is empty"
    elif head[:1] == b"\x80":
        problem = "a pickle, which runs code when it is loaded; it was not opened"
    else:
        problem = "not a model file"
    raise ModelFileError(source, problem)


def _check_members(members: list[zipfile.ZipInfo], size: int, source: str) -> None:
    names = [member.filename for member in members]
    if sorted(names) != sorted((MANIFEST, TREE, ARRAYS)):
        raise ModelFileError(source, "a ZIP archive, but not a model of oblong")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 0x1:
            problem = f"refused: {member.filename} is compressed or encrypted, and a model is not"
            raise ModelFileError(source, problem)
        if member.file_size != member.compress_size or member.file_size > size:
            problem = f"damaged: {member.filename} claims {member.file_size} bytes"
            raise ModelFileError(source, problem)
