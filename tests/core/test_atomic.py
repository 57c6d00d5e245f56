from __future__ import annotations

import os
import stat

import pytest

from oblong._core.atomic import atomic_write


@pytest.mark.parametrize(("mode", "content"), [("wb", b"\x00new"), ("w", "neu: ü")])
def test_the_file_is_replaced_at_the_end_of_the_block(tmp_path, mode, content):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_write(path, mode) as stream:
        stream.write(content)
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_bytes() == (content if mode == "wb" else content.encode())
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_raises_leaves_everything_as_it_was(tmp_path, error):
    path = tmp_path / "file"
    path.write_text("old")

    def fail():
        with atomic_write(path, "w", fsync=False) as stream:
            stream.write("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_permissions_follow_the_mask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "file") as stream:
            stream.write(b"x")
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    finally:
        os.umask(before)
