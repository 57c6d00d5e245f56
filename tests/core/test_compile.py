"""Compilation: the switch that turns it off, and compiled code on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from oblong._core import compiled_code
from oblong._core.compiled_code import _CacheFile, dispatcher

CODE = """
import json
import numpy as np
from oblong import RelativeMarginClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(24, 3))
y = X[:, 0] + 0.5 * rng.normal(size=24) > 0
results = []
for kernel in ("rbf", "poly"):
    machine = RelativeMarginClassifier(C=10, spread=0.2, kernel=kernel, tol=1e-6).fit(X, y)
    results.append(machine.decision_function(X).tolist())
print(json.dumps(results))
"""


def _outputs(**environment: str) -> np.ndarray:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return np.array(json.loads(done.stdout))


def test_plain_python_gives_the_same_outputs():
    compiled = _outputs(OBLONG_DISABLE_JIT="0")
    plain = _outputs(OBLONG_DISABLE_JIT="1")
    np.testing.assert_allclose(plain, compiled, atol=1e-6)


# A package whose compiled function `outer` calls another one and holds a constant of a third file.
PACKAGE = {
    "__init__.py": "",
    "constants.py": "FACTOR = 10.0",
    "inner.py": """
from oblong._core.compile import compiled

@compiled
def inner(x):
    return x
""",
    "outer.py": """
from oblong._core.compile import compiled
from small.constants import (
    FACTOR,
)
from .inner import inner

@compiled
def outer(x):
    return FACTOR * inner(x)
""",
}
ROOT = Path(__file__).parents[2]
CALL = """
import sys
from small.outer import outer
answer, hits = outer(2.0), sum(outer.stats.cache_hits.values())
print(answer, hits, "numba.np.arraymath" in sys.modules)
"""


def write_package(folder: Path) -> None:
    (folder / "small").mkdir()
    for name, text in PACKAGE.items():
        (folder / "small" / name).write_text(text)


def call(path: Path, **environment: str) -> tuple[float, int]:
    """Answer of `outer` in a new process, and how much of its code came from the disk."""
    done = subprocess.run(
        [sys.executable, "-c", CALL],
        env={
            **{name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"},
            "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)]),
            "OBLONG_DISABLE_JIT": "0",
            **environment,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    answer, hits, loaded = done.stdout.split()
    # What a compilation needs, and code from the disk does not, is not loaded for it.
    assert (loaded == "True") == (hits == "0")
    return float(answer), int(hits)


def test_an_edit_of_what_a_compiled_function_uses_is_seen(tmp_path):
    write_package(tmp_path)
    package = tmp_path / "small"
    assert call(tmp_path) == (20.0, 0)
    assert call(tmp_path) == (20.0, 1)
    (package / "inner.py").write_text(PACKAGE["inner.py"].replace("return x", "return x + 1.0"))
    assert call(tmp_path) == (30.0, 0)
    (package / "constants.py").write_text("FACTOR = 15.0")
    assert call(tmp_path) == (45.0, 0)
    # Modules that the function does not import leave its code alone.
    (package / "__init__.py").write_text("# a comment")
    assert call(tmp_path) == (45.0, 1)
    # Files of former sources do not pile up.
    assert len(list((package / "__pycache__").glob("outer.outer*.nbc"))) == 1


def test_code_may_be_kept_in_a_folder_of_the_user(tmp_path):
    write_package(tmp_path)
    for hits in (0, 1):
        assert call(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == (20.0, hits)
    assert list((tmp_path / "cache").rglob("outer.outer*.nbc"))
    assert not list((tmp_path / "small").rglob("*.nbc"))


def test_code__a_full_disk_stops_nothing(tmp_path):
    write_package(tmp_path)
    pytest.importorskip("resource")
    # Files may not grow beyond a few bytes: the error is another one than of a full disk, and comes
    # from the same call.
    program = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY)); "
        "from small.outer import outer; print(outer(2.0))"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-B", "-c", program], env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "20.0\n", "")


@pytest.mark.parametrize("damage", ["empty", "cut", "letters", "folder"])
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_code__a_damaged_file_is_written_anew(tmp_path, ending, damage):
    write_package(tmp_path)
    cache = tmp_path / "cache"
    assert call(tmp_path, NUMBA_CACHE_DIR=str(cache)) == (20.0, 0)
    for file in cache.rglob(f"*{ending}"):
        content = file.read_bytes()
        if damage == "folder":
            file.unlink()
            file.mkdir()
        else:
            left = {"empty": b"", "cut": content[: len(content) // 2], "letters": b"x" * 99}
            file.write_bytes(left[damage])
    assert call(tmp_path, NUMBA_CACHE_DIR=str(cache)) == (20.0, 0)
    if damage != "folder":
        assert call(tmp_path, NUMBA_CACHE_DIR=str(cache))[1] > 0


def test_a_package_in_an_archive_works(tmp_path):
    archive = tmp_path / "small.zip"
    for expected, body in ((20.0, "return x"), (30.0, "return x + 1.0")):
        with zipfile.ZipFile(archive, "w") as file:
            for name, text in PACKAGE.items():
                file.writestr(f"small/{name}", text.replace("return x\n", f"{body}\n"))
        assert call(archive, XDG_CACHE_HOME=str(tmp_path / "user"))[0] == expected


def test_writers_at_the_same_time_do_not_mix_up_their_code(tmp_path):
    first, second = (_CacheFile(str(tmp_path), "function", "stamp") for _ in range(2))
    before = first._load_index()
    first.save("one signature", "code of the first")
    # The second writer read the index before the first one wrote it, and replaces it.
    second._save_index(before)
    second.save("another signature", "code of the second")
    assert second.load("another signature") == "code of the second"
    assert second.load("one signature") is None
    first.save("one signature", "code of the first")
    assert second.load("one signature") == "code of the first"
    assert second.load("another signature") == "code of the second"


def _sum_of_a_part(x):
    total = 0.0
    for value in x[1:]:
        total += value
    return total


def test_functions_that_count_no_references_take_parts_of_arrays():
    x = np.arange(4.0)
    references = sys.getrefcount(x)
    assert dispatcher(_sum_of_a_part, counted=False)(x) == 6.0
    assert sys.getrefcount(x) == references


def _interrupting(x):
    return x + 1


def test_an_interrupt_waits_for_the_compiler():
    """Half a compilation would make all later ones fail."""
    handler = signal.default_int_handler
    # Processes in the background of a shell begin by ignoring it.
    before = signal.signal(signal.SIGINT, handler)
    function = dispatcher(_interrupting)
    load = function._cache.load_overload

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        return load(*arguments)

    function._cache.load_overload = interrupted
    try:
        with pytest.raises(KeyboardInterrupt):
            function(1)
        assert function.signatures
        assert function(1) == 2
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_processes_at_the_same_time_compile_a_function_once(tmp_path):
    write_package(tmp_path)
    with ThreadPoolExecutor(3) as pool:
        found = sorted(pool.map(call, 3 * [tmp_path]))
    assert found == [(20.0, 0), (20.0, 1), (20.0, 1)]
    assert not list(tmp_path.rglob("*.lock"))


def test_a_process_that_stopped_in_the_middle_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(compiled_code, "_PATIENCE", 0.1)
    stopped, function = dispatcher(_waiting), dispatcher(_waiting)
    stopped._cache._acquire()
    try:
        assert function(1) == 3
    finally:
        stopped._cache.release()


def _waiting(x):
    return x + 2


def _together(x):
    return x + 3


def test_threads_at_the_same_time_release_a_file_once(monkeypatch):
    """Closing it twice fails, or closes a file that somebody has opened meanwhile."""
    unlock = compiled_code._unlock

    def slowly(file):
        unlock(file)
        time.sleep(0.3)

    monkeypatch.setattr(compiled_code, "_unlock", slowly)
    function = dispatcher(_together)
    # Nothing on disk, whatever ran before.
    function._cache._load_overload = lambda *_: None
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(function, range(4))) == [3, 4, 5, 6]
