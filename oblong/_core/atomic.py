"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: str = "wb", fsync: bool = True
) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` that takes its place at the end of the block.

    If the block raises, the temporary file is removed and ``path`` stays as it was.

    Parameters
    ----------
    path : path-like
        The file to write.
    mode : {"wb", "w"}, default="wb"
        Bytes, or text in UTF-8.
    fsync : bool, default=True
        Whether the content and the new name are on disk before the function returns.
    """
    path = Path(path)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, mode, encoding=None if "b" in mode else "utf-8") as stream:
            yield stream
            stream.flush()
            if fsync:
                os.fsync(stream.fileno())
        # mkstemp makes files that only their owner can read.
        os.chmod(draft, 0o666 & ~_umask())
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    if fsync:
        _sync_folder(path.parent)


def _umask() -> int:
    # There is no way to ask without setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the new name last as well, on systems that can open folders."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
