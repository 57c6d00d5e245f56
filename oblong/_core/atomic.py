"""Files that are written whole or not at all."""

import errno
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:
    # There is none on Windows, where a file that is open cannot be removed.
    fcntl = None  # type: ignore[assignment]

# Bytes of a name that a draft repeats, so that its own name is not too long for a file system.
_NAME = 200


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: str = "wb", **options: Any
) -> Iterator[IO[Any]]:
    """Open a new file that takes the place of ``path`` when the block ends without an error.

    Until then, and after an error, whatever was at ``path`` is still there. An existing file keeps
    its permissions and a symbolic link goes on pointing to it.

    Parameters
    ----------
    path : path-like
        The file; its folder has to exist.
    mode : {"wb", "w"}, default="wb"
        Whether to write bytes or text, which is in UTF-8 unless ``options`` say otherwise.
    **options : dict
        For :func:`open`, such as ``encoding`` and ``errors``.

    Yields
    ------
    file object
        To be written to.

    Raises
    ------
    OSError
        If the file cannot be written, or ``path`` is a folder or a device.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from oblong._core.atomic import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "note.txt", "w", encoding="utf-8") as file:
    ...         _ = file.write("complete")
    ...     (Path(folder) / "note.txt").read_text(encoding="utf-8")
    'complete'
    """
    if "b" not in mode:
        options.setdefault("encoding", "utf-8")
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    draft = target.with_name(f"{_start(target)}{secrets.token_hex(4)}.tmp")
    lock = None
    try:
        # Mode "x" of a new name: the permissions are those of any new file of this user.
        with open(draft, mode.replace("w", "x"), **options) as file:
            lock = _lock(draft)
            yield file
            file.flush()
            # On the disk, so that it survives a loss of power.
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            os.chmod(draft, target.stat().st_mode & 0o777)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)
    # The new name lasts as well, on systems that can open folders.
    with suppress(OSError):
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_drafts(path: str | os.PathLike[str]) -> None:
    """Remove what processes that were killed while they wrote a file have left beside it.

    Parameters
    ----------
    path : path-like
        The file, which need not exist. Drafts that are being written stay.
    """
    target = Path(os.path.realpath(path))
    with suppress(OSError):
        for draft in target.parent.glob(f"{glob.escape(_start(target))}{'[0-9a-f]' * 8}.tmp"):
            lock = _lock(draft)
            if lock is not None or fcntl is None:
                with suppress(OSError):
                    draft.unlink()
            if lock is not None:
                os.close(lock)


def _start(target: Path) -> str:
    """How the names of the drafts of a file begin."""
    return f".{os.fsencode(target.name)[:_NAME].decode(errors='ignore')}."


def _lock(draft: Path) -> int | None:
    """A descriptor that holds a draft until it is closed; None if there is no such lock to have."""
    if fcntl is None:
        return None
    descriptor = None
    try:
        descriptor = os.open(draft, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except OSError:
        # Another process has it, or the file system knows no locks.
        if descriptor is not None:
            os.close(descriptor)
        return None
