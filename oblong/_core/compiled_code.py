"""Compiled functions and their code on disk.

Numba compares only the file of the function itself with the one that was compiled, and so misses
an edit of another compiled function that it calls. Here the code is stale as soon as any module
differs that the function's module imports from its own package, directly or not.

Processes that need the same function at the same time, such as the workers of a first search,
compile it once: the others wait for its file.
"""

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import resolve_name
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys

from oblong._core.compile import uninterrupted

# Reassociation stays out: loops here look for the index of an extremum by comparing values that
# were computed twice, and these must come out equal. Infinite slopes are ordinary values, so
# `ninf` stays out as well.
_FASTMATH = {"nnan", "nsz", "contract"}


def dispatcher(
    function: Callable[..., Any],
    reassociate: bool = False,
    counted: bool = True,
    inlined: bool = False,
) -> Any:
    """Numba's function, cached on disk and without the GIL."""
    flags = _FASTMATH | {"reassoc"} if reassociate else _FASTMATH
    # `_nrt`, which is not documented, is for the functions that manage memory and count references.
    options: dict[str, Any] = {"_nrt": counted, "forceinline": inlined, "fastmath": flags}
    made: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    files = None
    # Numba raises where nothing can be written; compiling anew in every process still works there.
    with suppress(RuntimeError, OSError):
        made._cache = files = _Cache(function)
    compile_signature = made.compile

    def compile_whole(signature: Any) -> Any:
        # Numba's own lock also keeps threads from releasing the file of another.
        with uninterrupted(), global_compiler_lock:
            try:
                return compile_signature(signature)
            finally:
                if files is not None:
                    files.release()

    made.compile = compile_whole
    return made


class _Cache(FunctionCache):
    """Numba's cache of one function, with a stamp that covers what the function may call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CacheFile(
            self._cache_path, self._impl.filename_base, _stamp(function.__module__)
        )
        self._lock_path = os.path.join(self._cache_path, f"{self._impl.filename_base}.lock")
        self._locked: int | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code on disk, or None; then no other process compiles the function until release."""
        # Numba would first load all that a compilation may need, which takes longer than the rest;
        # code that is on disk needs only the functions that manage memory.
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
            if found is None:
                self._acquire()
                # Another process may have written it in the meantime.
                found = self._load_overload(sig, target_context)
        if found is None:
            _announce()
        return found

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        # Of a damaged file, or one that may not be read, the function is compiled anew.
        with suppress(Exception):
            return super()._load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write code to the disk; where that fails, this process has it and no other."""
        with suppress(Exception):
            super().save_overload(sig, data)

    def _acquire(self) -> None:
        # Without a lock, where there can be none, the function is compiled twice and that is all.
        with suppress(OSError):
            if self._locked is None:
                self._impl.locator.ensure_cache_path()
                self._locked = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o666)
                _lock(self._locked)

    def release(self) -> None:
        """Let other processes compile the function."""
        if self._locked is not None:
            with suppress(OSError):
                os.remove(self._lock_path)
            with suppress(OSError):
                _unlock(self._locked)
            os.close(self._locked)
            self._locked = None


# Seconds to wait for another process, which may have been stopped in the middle of a compilation.
_PATIENCE = 120.0

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _unlock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(file: int) -> None:
        # A process that was forked meanwhile has the file open too: closing would not be enough.
        fcntl.flock(file, fcntl.LOCK_UN)


def _lock(file: int) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        # Windows says that permission is denied.
        with suppress(BlockingIOError, PermissionError):
            return _try_lock(file)
        time.sleep(0.02)


@cache
def _announce() -> None:
    """Say on a terminal, and nowhere else, why the first fit takes longer."""
    if sys.stderr is not None and sys.stderr.isatty():
        print("oblong: compiling (once per installation) ...", file=sys.stderr, flush=True)


class _CacheFile(IndexDataCacheFile):
    """Numba's files of one function, for several writers.

    Numba numbers the files of code. Two processes that compile different signatures at the same
    time may both write number 1, and one signature then runs the code of the other. Files named by
    their key cannot be mixed up, and an entry of the index that is lost is only compiled again.
    """

    def save(self, key: object, data: object) -> None:
        name = self._data_name(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6]))
        self._save_data(name, data)
        known: dict[object, str] = {}
        # A damaged index is written anew.
        with suppress(Exception):
            known = self._load_index()
        self._save_index({**known, key: name})


@cache
def _stamp(module: str) -> str:
    """Hash of the sources of a module and of all that it imports from its own package."""
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name], imported = _source(name)
            waiting.extend(imported)
    known = sorted((name, source) for name, source in found.items() if source)
    return hashlib.sha256(repr(known).encode()).hexdigest()


_IMPORT = re.compile(
    r"^[ \t]*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|.*)|import\s+([\w., ]+))", re.M
)
# What is imported for types only does not change what is compiled.
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t].*\n|\n)+", re.M)


@cache
def _source(module: str) -> tuple[str, list[str]]:
    """Hash of a module's source, and names among which are the modules of its package it imports.

    Compiled functions copy the constants of other modules, so these count whether they hold
    compiled functions or not, and whether they have been loaded or not: the hash must not depend on
    what else a program uses.
    """
    package, _, rest = module.partition(".")
    root = sys.modules[package]
    loader: Any = root.__loader__
    source, inside = "", False
    if hasattr(root, "__path__"):
        path = os.path.join(root.__path__[0], *rest.split(".")).rstrip(os.sep)
        for ending in (".py", f"{os.sep}__init__.py"):
            with suppress(OSError, AttributeError):
                source = loader.get_data(path + ending).decode()
                inside = ending != ".py"
                break
    else:
        source = getattr(loader, "get_source", lambda _: None)(module) or ""
    names = []
    for start, members, whole in _IMPORT.findall(_FOR_TYPES.sub("", source)):
        if start.startswith("."):
            start = resolve_name(start, module if inside else module.rpartition(".")[0])
        names += [start, *(f"{start}.{member}" for member in re.findall(r"\w+", members))]
        names += re.findall(r"[\w.]+", whole)
    same = [name for name in names if name.partition(".")[0] == package]
    return source and hashlib.sha256(source.encode()).hexdigest(), same
