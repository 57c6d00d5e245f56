"""Bytes of a file or of standard input, decompressed, in a buffer of whole lines."""

import codecs
import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from oblong._core.text import quote
from oblong.io.errors import DataFileError, RowError, damaged

AnyPath: TypeAlias = str | os.PathLike[str]

_CAPACITY = 1 << 22
_LONGEST_LINE = 1 << 28
# Compressed input may become so many times larger, once it is large at all.
_MOST_EXPANSION = 200
_HARMLESS = 1 << 26
_GZIP, _ZSTD, _BOM = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf"
_ADDRESS = re.compile(r"[a-z][a-z0-9+]+://", re.IGNORECASE)
# Bytes at the start of the input by which it is recognised.
_HEAD = 1 << 14


def source_name(path: AnyPath) -> str:
    """Name of an input for messages."""
    if path == "-":
        return "standard input"
    name = Path(path).name or str(path)
    return name if name.isprintable() else ascii(name)


def _open(path: AnyPath, encoding: str | None = None) -> Any:
    """Open an input and undo its compression, detected from the content."""
    source = source_name(path)
    if path == "-":
        try:
            # Without Python's own buffer, which must not be in use when a program ends.
            raw: Any = io.FileIO(sys.stdin.fileno(), closefd=False)
        except (OSError, ValueError):
            raw = sys.stdin.buffer
        stream = io.BufferedReader(raw)
    elif os.path.isdir(path):
        raise DataFileError(source, "expected a file, got a folder")
    elif _ADDRESS.match(str(path)):
        problem = f"addresses such as {quote(path)} are not opened"
        raise DataFileError(source, problem, advice="download the file")
    else:
        try:
            # The caller closes it.
            stream = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise DataFileError(source, problem) from None
    try:
        magic = stream.peek(4)[:4]
    except OSError as error:
        raise DataFileError(source, f"cannot be read: {error.strerror or error}") from None
    if magic.startswith((b"BZh", b"\xfd7zX")):
        problem = f"expected text, got {'bzip2' if magic[:1] == b'B' else 'xz'}"
        raise DataFileError(source, problem, advice="gzip and Zstandard can be read")
    meter = _Meter(stream)
    if magic.startswith(_GZIP):
        return io.BufferedReader(_Expanding(gzip.GzipFile(fileobj=meter), meter))
    if magic == _ZSTD:
        try:
            import pyarrow as pa
        except ImportError:
            problem = 'Zstandard files need pyarrow: pip install "oblong[cli]"'
            raise DataFileError(source, problem) from None
        expanded = pa.CompressedInputStream(pa.PythonFile(meter, mode="r"), "zstd")
        return io.BufferedReader(_Expanding(expanded, meter))
    if encoding is None and magic.startswith((b"\xff\xfe", b"\xfe\xff")):
        problem = "expected UTF-8 text, got UTF-16"
        advice = "save the file as UTF-8, or, for tables, encoding= utf-16 reads it"
        raise DataFileError(source, problem, advice=advice)
    return stream


class _Meter:
    """A file that counts the bytes read from it."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.count = stream, 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Expanding(io.RawIOBase):
    """A compressed input that must not grow out of all proportion: text shrinks by less."""

    def __init__(self, stream: Any, meter: _Meter) -> None:
        self._stream, self._meter, self._total = stream, meter, 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        # What comes before a damaged part is still read.
        n = getattr(self._stream, "readinto1", self._stream.readinto)(room) or 0
        self._total += n
        if self._total > max(_HARMLESS, _MOST_EXPANSION * self._meter.count):
            raise ValueError(f"it expands to more than {_MOST_EXPANSION} times its size")
        return n

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._meter.close()
        super().close()


# What decompression raises, pyarrow's errors included.
_FAILURES = (EOFError, zlib.error, OSError, ValueError)


def read_bytes(path: AnyPath) -> bytes:
    """The whole content of an input, decompressed."""
    stream = _open(path)
    try:
        return stream.read()
    except _FAILURES as error:
        raise damaged(source_name(path), error) from None
    finally:
        if path != "-":
            stream.close()


class LineBuffer:
    r"""Whole lines of an input, a buffer at a time.

    Lines end with ``\n`` or ``\r\n``; with ``\r`` too if the first one does.

    Parameters
    ----------
    path : str or path-like
        The file, or ``"-"`` for standard input. Gzip and Zstandard are recognised by their content.
    content : bytes, optional
        The content of the input, where it was read before.
    encoding : str, optional
        Encoding of the text; UTF-8 by default.

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
    live : bool
        Whether the input may still be written, and is read as it comes.
    ended : bool
        Whether the buffer has all that is left of the input.
    """

    def __init__(
        self, path: AnyPath, content: bytes | None = None, encoding: str | None = None
    ) -> None:
        self.path = str(path)
        self.source = source_name(path)
        self.line = 1
        self.ended = False
        self.start = self.stop = self._end = 0
        self._base = self._read = 0
        self._head = b""
        self._returns: bool | None = None
        self._allocate(_CAPACITY)
        self._stream = io.BytesIO(content) if content is not None else _open(path, encoding)
        self._recoded = encoding is not None
        if encoding is not None:
            try:
                self._stream = codecs.EncodedFile(self._stream, "utf-8", encoding)
            except LookupError:
                problem = f"unknown encoding {quote(encoding)}"
                raise DataFileError(self.source, problem, advice="choose encoding=") from None
        plain = isinstance(self._stream, io.BufferedReader)
        self._seekable = self.path != "-" and plain and self._stream.seekable()
        self.live = self.path == "-" and not self._recoded and hasattr(self._stream, "read1")
        self.fill()
        if bytes(self._bytes[:3]) == _BOM:
            self.start = 3
            self.fill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input is left open."""
        if self.path != "-":
            self._stream.close()

    def starts_with(self, magic: bytes) -> bool:
        """Whether these are the first bytes of the input."""
        return self._head.startswith(magic)

    def begins_like(self, pattern: bytes) -> bool:
        """Whether the input begins with what a regular expression describes."""
        return re.match(pattern, self._head) is not None

    # The buffer ----------------------------------------------------------------------------------

    def _allocate(self, capacity: int) -> None:
        self._bytes = bytearray(capacity)
        self.text = np.frombuffer(self._bytes, dtype=np.uint8)

    def _read_into(self, room: memoryview) -> int:
        if self._recoded:
            # In UTF-8 a byte may become three.
            data = self._stream.read(max(1, len(room) // 4))
        elif not self.live:
            return self._stream.readinto(room) or 0
        else:
            # A pipe gives what there is, and does not wait until the buffer is full.
            data = self._stream.read1(len(room))
        room[: len(data)] = data
        return len(data)

    def fill(self) -> bool:
        """Make sure that there is a line; False at the end of the input."""
        while self.start == self.stop:
            if not self.extend():
                return False
        return True

    def extend(self) -> bool:
        """Read more, behind the lines that are in the buffer; False at the end of the input."""
        if self.ended:
            return False
        rest = self._bytes[self.start : self._end]
        self._base += self.start
        # Room for the line end that the last line may lack.
        if 2 * len(rest) >= len(self._bytes):
            if len(self._bytes) >= _LONGEST_LINE:
                problem = f"the line has more than {_LONGEST_LINE >> 20} megabytes"
                raise DataFileError(self.source, problem, row=self.line)
            self._allocate(2 * len(self._bytes))
        self._bytes[: len(rest)] = rest
        self.stop -= self.start
        self.start, self._end = 0, len(rest)
        try:
            n = self._read_into(memoryview(self._bytes)[self._end : -1])
        except _FAILURES as error:
            raise damaged(self.source, error) from None
        new = slice(self._end, self._end + n)
        if len(self._head) < _HEAD:
            self._head += bytes(self._bytes[new])[: _HEAD - len(self._head)]
        self._read += n
        self._end += n
        if self._returns is None:
            first = re.search(rb"\r\n?|\n", self._bytes[: self._end])
            # A return at the very end may be the first half of an end of a line.
            if first and (first[0] != b"\r" or first.end() < self._end):
                self._returns = first[0] == b"\r"
        if self._returns:
            self._bytes[: self._end] = self._bytes[: self._end].replace(b"\r", b"\n")
        if not n:
            self.ended = True
            if self._end and self._bytes[self._end - 1] != 10:
                self._bytes[self._end] = 10
                self._end += 1
        self.stop = self._bytes.rfind(b"\n", 0, self._end) + 1
        return n > 0 or self.start < self.stop

    def peek_lines(self) -> list[bytes]:
        """The lines that are in the buffer, without their ends."""
        return bytes(self._bytes[self.start : self.stop]).split(b"\n")[:-1]

    def peek_line(self, place: int | None = None) -> bytes:
        """The next line, or that from a place in the buffer, without its end."""
        place = self.start if place is None else place
        return bytes(self._bytes[place : self._bytes.index(b"\n", place)])

    def skip_to_place(self, place: int) -> None:
        """Consume the text before a place in the buffer."""
        self.line = self.line_at(place)
        self.start = place

    def take(self, end: int | None = None) -> bytes:
        """Consume the text up to a line end, by default the next, and return it without that."""
        end = self._bytes.index(b"\n", self.start) if end is None else end
        text = bytes(self._bytes[self.start : end])
        self.start = end + 1
        self.line += 1 + text.count(b"\n")
        return text

    def stop_after(self, offset: int) -> int:
        """End of the line in which a byte of the input lies, as far as the buffer goes."""
        place = offset - 1 - self._base
        if place >= self.stop:
            return self.stop
        return self._bytes.index(b"\n", max(place, self.start)) + 1

    def line_at(self, place: int) -> int:
        """Number of the line of a place in the buffer."""
        return self.line + self._bytes.count(b"\n", self.start, place)

    def problem_at(self, place: int) -> RowError | None:
        """What is wrong with the row at a place in the buffer, if that is known."""
        return None

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
        while len(self._head) < min(_HEAD, offset) and not self.ended:
            self.start = self.stop
            self.fill()
        if self._seekable:
            short = os.fstat(self._stream.fileno()).st_size < offset
        else:
            while self._base + self._end < offset and not self.ended:
                self.start = self.stop = self._end
                self.fill()
            short = self._read < offset
        if short or self.fingerprint(offset) != fingerprint:
            problem = f"not the input of the checkpoint, which has {offset:,} bytes of another"
            raise DataFileError(quote(self.source, 80), problem)
        if self._seekable:
            self._stream.seek(offset)
            self._base, self._read, self._end, self.ended = offset, offset, 0, False
            self.start = self.stop = 0
        else:
            self.start = min(offset - self._base, self._end)
            self.stop = max(self.stop, self.start)
        self.line = line
