"""The one compile decorator of the package, and two functions that let loops vectorise.

Set the environment variable ``OBLONG_DISABLE_JIT=1`` before importing oblong to run every
compiled function as plain Python, for debugging and for coverage.

Numba is loaded by the first call of a compiled function, not by an import of oblong. Until then
the functions are stand-ins. That call replaces all of them, in all modules that have imported
them: functions that call each other can only be compiled if none is a stand-in.

Compiled code is kept on disk where Numba keeps it: in ``__pycache__``, in the user's cache where
that cannot be written, or in ``NUMBA_CACHE_DIR``; see :mod:`oblong._core.compiled_code`.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_DISABLED = os.environ.get("OBLONG_DISABLE_JIT", "0") not in ("", "0")

# Stand-ins, and how to make what they stand for; what they became, once there was a call.
_waiting: dict[Any, Callable[[], Any]] = {}
_made: dict[Any, Any] = {}
_lock = threading.RLock()


def _renew() -> None:
    """Give a forked process a lock that no thread of its parent holds."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def compiled(
    function: F, *, reassociate: bool = False, counted: bool = True, inlined: bool = False
) -> F:
    """Compile a scalar loop with Numba: cached on disk, without the GIL.

    With ``reassociate`` sums are vectorised, and their last digits depend on the processor. See
    :func:`uncounted` and :func:`inlined` for the others.
    """

    def make() -> Any:
        from oblong._core.compiled_code import dispatcher

        return dispatcher(function, reassociate, counted, inlined)

    return _later(function, make)


def uncounted(function: F) -> F:
    """Compile a loop without counting references to arrays, which takes longer than a short loop.

    It works on arrays of its caller, and must neither make arrays, which nobody would give back,
    nor return any.
    """
    return compiled(function, counted=False)


def inlined(function: F) -> F:
    """Compile a loop as :func:`uncounted` does, and copy it into each loop that calls it."""
    return compiled(function, counted=False, inlined=True)


def instruction(home: Callable[[], Any]) -> Callable[[F], F]:
    """Let a function stand for the intrinsic of the same name in a module that needs Numba."""
    return lambda function: _later(function, lambda: getattr(home(), function.__name__))


def _later(function: F, make: Callable[[], Any]) -> F:
    if _DISABLED:
        return function

    @wraps(function)
    def stand_in(*arguments: Any) -> Any:
        if stand_in not in _made:
            _start()
        return _made[stand_in](*arguments)

    with _lock:
        _waiting[stand_in] = make
        # Once Numba is at work, modules that are loaded get the function itself.
        return cast(F, _settle()[stand_in] if _made else stand_in)


def _settle() -> dict[Any, Any]:
    while _waiting:
        stand_in, make = _waiting.popitem()
        _made[stand_in] = make()
    return _made


def _start() -> None:
    """Replace all stand-ins."""
    with uninterrupted(), _lock:
        _settle()
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", {})
            for name, value in list(names.items()):
                if type(value) is FunctionType and value.__code__ is _CODE:
                    names[name] = _made[value]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off the user's interrupt: half of Numba, or of a compilation, fails ever after."""
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if main else None
    if not callable(handler):
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *event: came.append(event))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        handler(*came[0])


def _extrema() -> Any:
    from oblong._core import extrema

    return extrema


@instruction(_extrema)
def fast_max(a: float, b: float) -> float:
    """The larger number; neither is NaN."""
    return max(a, b)


@instruction(_extrema)
def fast_min(a: float, b: float) -> float:
    """The smaller number; neither is NaN."""
    return min(a, b)


# That of all stand-ins.
_CODE = getattr(fast_max, "__code__", None)
