"""Records in a file of JSON lines, so that an interrupted run can continue."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from oblong._core.atomic import atomic_write

__all__ = ["Journal", "atomic_write"]


class Journal:
    """A file with one JSON object per line, each complete or ignored.

    A record is on disk when :meth:`append` returns. A process that is killed while it writes
    leaves half a line, which :meth:`read` skips, so the run may be stopped at any moment.

    Parameters
    ----------
    path : path-like
        The file; it need not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from oblong.persistence.journal import Journal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal(Path(folder) / "run.jsonl")
    ...     journal.append({"fold": 0, "error": 0.25})
    ...     journal.read()
    [{'fold': 0, 'error': 0.25}]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> list[dict[str, Any]]:
        """Return the complete records; none if there is no file.

        Raises
        ------
        OSError
            If the file cannot be read.
        UnicodeDecodeError
            If it is not text.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        found = []
        for line in text.split("\n"):
            with suppress(ValueError, RecursionError):
                found.append(json.loads(line))
        return [record for record in found if isinstance(record, dict)]

    def append(self, record: dict[str, Any]) -> None:
        """Add one record, which is on disk when this returns."""
        line = json.dumps(record).encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as stream:
            # Half a line at the end, left by a crash, must not swallow this one.
            if stream.tell():
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":
                    line = b"\n" + line
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())

    def replace(self, records: Iterable[dict[str, Any]]) -> None:
        """Write all records to a new file in place of the old one."""
        with atomic_write(self.path) as stream:
            for record in records:
                stream.write(json.dumps(record).encode() + b"\n")

    def remove(self) -> None:
        """Delete the file, if there is one."""
        self.path.unlink(missing_ok=True)
