"""Bytes as they come: from files, from pipes, compressed, and with any ends of lines."""

from __future__ import annotations

import gzip
import os
import sys
import threading

import pytest

from oblong.io import DataFileError, RowReader, sources


def buffer(folder, data, capacity=1 << 20):
    path = folder / "t.txt"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_CAPACITY", capacity)
        return sources.LineBuffer(path)


@pytest.mark.parametrize("capacity", [4, 7, 1 << 20])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_lines(tmp_path, capacity, end, mark):
    lines = buffer(tmp_path, mark + end.join([b"one", b"", b"three 3", b"four"]), capacity)
    found = []
    while lines.fill():
        found.append((lines.line, lines.take().strip()))
    assert found == [(1, b"one"), (2, b""), (3, b"three 3"), (4, b"four")]
    assert lines.offset == len(mark) + len(b"onethree 3four") + 3 * len(end)


def test_content_that_was_read_before(tmp_path):
    lines = sources.LineBuffer("-", content=b"a\nb\n")
    assert lines.peek_lines() == [b"a", b"b"]
    assert lines.source == "standard input"


def test_damaged_files(tmp_path):
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b"a" * 100_000)[:-20])
    for read in (sources.read_bytes, sources.LineBuffer):
        with pytest.raises(DataFileError, match=r"^t\.gz: damaged or unreadable \(Compressed"):
            read(path)


@pytest.mark.skipif(os.name == "nt", reason="needs pipes")
def test_rows_of_a_pipe_are_handed_over_as_they_come(monkeypatch):
    """A row is read while the one that writes still has the pipe open, and writes on."""
    end, begin = os.pipe()
    with open(end, encoding="utf-8") as reading, open(begin, "wb", buffering=0) as writing:
        monkeypatch.setattr(sys, "stdin", reading)
        writing.write(b"a,y\n1,p\n2,q\n")
        with RowReader("-") as reader:
            assert len(reader.read(10, wait=False)) == 2
            later = threading.Timer(0.05, writing.write, [b"3,p\n4"])
            later.start()
            assert reader.read(10, wait=False).values.tolist() == [3.0]
            later.join()
            writing.write(b",q\n")
            writing.close()
            assert reader.read(10).values.tolist() == [4.0]
            assert reader.read(10) is None
