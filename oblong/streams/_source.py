"""Bytes of a file or of standard input, decompressed, in a buffer of whole lines."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from oblong.datasets import DataFileError
from oblong.datasets._dataset import quote

__all__ = ["LineBuffer"]

_CAPACITY = 1 << 20
_LONGEST_LINE = 1 << 28
_GZIP, _ZSTD, _BOM = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf"
# Bytes at the start of the input by which it is recognised.
_HEAD = 1 << 14


def _standard_input() -> Any:
    """Standard input without Python's own buffer, which must not be in use when a program ends."""
    try:
        return io.FileIO(sys.stdin.fileno(), closefd=False)
    except (OSError, ValueError):
        return sys.stdin.buffer


class LineBuffer:
    """Whole lines of an input, a buffer at a time.

    Parameters
    ----------
    path : str
        The file, or ``"-"`` for standard input. Gzip and Zstandard are recognised by their content.

    Attributes
    ----------
    source : str
        Name for messages.
    text : ndarray of uint8
        The buffer.
    start, stop : int
        Its lines that were not consumed yet; the last byte is a line end.
    line : int
        Number of the line at ``start``, counted from 1.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)
        self.line = 1
        self._base = 0
        self._read = 0
        self._ended = False
        self._seekable = False
        self._head = b""
        self._allocate(_CAPACITY)
        self.start = self.stop = self._end = 0
        if self.path == "-":
            self.source = "standard input"
            self._stream = self._decompressed(io.BufferedReader(_standard_input()))
        else:
            name = Path(path).name or str(path)
            self.source = name if name.isprintable() else ascii(name)
            if os.path.isdir(path):
                raise DataFileError(self.source, "expected a file, got a folder")
            try:
                # The buffer keeps the file open.
                self._stream = self._decompressed(open(path, "rb"))  # noqa: SIM115
            except OSError as error:
                problem = f"cannot be read: {error.strerror or error}"
                raise DataFileError(self.source, problem) from None
        self.fill()
        if self._base == 0 and bytes(self._bytes[:3]) == _BOM:
            self.start = 3

    def close(self) -> None:
        """Close the file; standard input is left open."""
        if self.path != "-":
            self._stream.close()

    # The input -----------------------------------------------------------------------------------

    def _decompressed(self, stream: BinaryIO) -> Any:
        magic = stream.peek(4)[:4]
        if magic.startswith(_GZIP):
            return gzip.GzipFile(fileobj=stream)
        if magic == _ZSTD:
            try:
                import pyarrow as pa
            except ImportError:
                problem = 'Zstandard files need pyarrow: pip install "oblong[cli]"'
                raise DataFileError(self.source, problem) from None
            return pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")
        if magic.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise DataFileError(self.source, "expected UTF-8 text, got UTF-16")
        self._seekable = self.path != "-" and stream.seekable()
        return stream

    def _read_into(self, room: memoryview) -> int:
        try:
            n = self._stream.readinto(room) or 0
        except (EOFError, zlib.error, OSError, ValueError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataFileError(self.source, f"damaged or unreadable ({reason})") from None
        if len(self._head) < _HEAD:
            self._head += bytes(room[: min(n, _HEAD - len(self._head))])
        self._read += n
        return n

    # The buffer ----------------------------------------------------------------------------------

    def _allocate(self, capacity: int) -> None:
        self._bytes = bytearray(capacity)
        self.text = np.frombuffer(self._bytes, dtype=np.uint8)

    def fill(self) -> bool:
        """Make sure that there is a line; False at the end of the input."""
        while self.start == self.stop:
            if self._ended:
                return False
            rest = self._bytes[self.start : self._end]
            self._base += self.start
            # Room for the line end that the last line may lack.
            if len(rest) + 1 >= len(self._bytes):
                if len(self._bytes) >= _LONGEST_LINE:
                    problem = f"the line has more than {_LONGEST_LINE >> 20} megabytes"
                    raise DataFileError(self.source, problem, row=self.line)
                self._allocate(2 * len(self._bytes))
            self._bytes[: len(rest)] = rest
            self.start, self._end = 0, len(rest)
            n = self._read_into(memoryview(self._bytes)[self._end : -1])
            if n:
                self._end += n
                self.stop = self._bytes.rfind(b"\n", 0, self._end) + 1
            else:
                self._ended = True
                if self._end:
                    self._bytes[self._end] = 10
                    self._end += 1
                self.stop = self._end
        return True

    def peek_lines(self) -> list[bytes]:
        """The lines that are in the buffer, the first of a file."""
        return bytes(self._bytes[self.start : self.stop]).split(b"\n")[:-1]

    def peek_line(self) -> bytes:
        """The next line without its end."""
        return bytes(self._bytes[self.start : self._bytes.index(b"\n", self.start)])

    def take_line(self) -> bytes:
        """Consume a line and return it without its end."""
        line = self.peek_line()
        self.start += len(line) + 1
        self.line += 1
        return line

    def stop_after(self, offset: int) -> int:
        """End of the line in which a byte of the input lies, as far as the buffer goes."""
        place = offset - 1 - self._base
        if place >= self.stop:
            return self.stop
        return self._bytes.index(b"\n", max(place, self.start)) + 1

    def count_lines(self, start: int, stop: int) -> int:
        """Number of line ends in a part of the buffer."""
        return self._bytes.count(b"\n", start, stop)

    # Where it is ---------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Bytes consumed, decompressed."""
        return min(self._base + self.start, self._read)

    def fingerprint(self, offset: int) -> str:
        """What the input starts with, up to an offset, by which it is recognised."""
        return hashlib.sha256(self._head[: min(offset, _HEAD)]).hexdigest()

    def skip_to(self, offset: int, line: int, fingerprint: str) -> None:
        """Go to an offset that an earlier run had reached in the same input."""
        while len(self._head) < min(_HEAD, offset) and not self._ended:
            self.start = self.stop
            self.fill()
        if self._seekable:
            short = os.fstat(self._stream.fileno()).st_size < offset
        else:
            while self._base + self._end < offset and not self._ended:
                self.start = self.stop = self._end
                self.fill()
            short = self._read < offset
        if short or self.fingerprint(offset) != fingerprint:
            problem = f"not the input of the checkpoint, which has {offset:,} bytes of another"
            raise DataFileError(quote(self.source, 80), problem)
        if self._seekable:
            self._stream.seek(offset)
            self._base, self._read, self._end, self._ended = offset, offset, 0, False
            self.start = self.stop = 0
        else:
            self.start = min(offset - self._base, self._end)
            self.stop = max(self.stop, self.start)
        self.line = line
