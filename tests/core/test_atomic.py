from __future__ import annotations

import os
import stat

import pytest

from oblong._core.atomic import atomic_write, remove_drafts


@pytest.mark.parametrize(("mode", "content"), [("wb", b"new"), ("w", "n\u00e9w")])
def test_a_file_is_replaced_when_it_is_complete(tmp_path, mode, content):
    path = tmp_path / "file"
    path.write_text("old")
    options = {"encoding": "utf-8"} if mode == "w" else {}
    with atomic_write(path, mode, **options) as file:
        file.write(content)
        assert path.read_text() == "old"
    assert path.read_bytes() == (content if mode == "wb" else content.encode())
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path, failure):
    path = tmp_path / "file"
    path.write_text("old")

    def write():
        with atomic_write(path) as file:
            file.write(b"half")
            raise failure

    with pytest.raises(failure):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_permissions_and_links(tmp_path):
    path, link, fresh = tmp_path / "file", tmp_path / "link", tmp_path / "fresh"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    mask = os.umask(0o027)
    try:
        for name in (link, fresh):
            with atomic_write(name, "w") as file:
                file.write("new")
    finally:
        os.umask(mask)
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(fresh.stat().st_mode) == 0o640


def test_folders_and_devices_are_not_replaced(tmp_path):
    for path in (tmp_path, os.devnull):
        with pytest.raises(OSError, match="not a regular file"), atomic_write(path):
            pass
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "missing" / "file"):
        pass


def test_atomic_write__names_as_long_as_the_system_takes(tmp_path):
    path = tmp_path / ("ü" * 125)
    with atomic_write(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="locks")
def test_remove_drafts__those_of_living_processes_stay(tmp_path):
    path = tmp_path / "model[1]"
    with atomic_write(path) as file:
        file.write(b"whole")
        (tmp_path / ".model[1].0123abcd.tmp").touch()
        (tmp_path / ".model1.0123abcd.tmp").touch()
        remove_drafts(path)
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == b"whole"
    # A folder that is not there has none.
    remove_drafts(tmp_path / "none" / "model")
