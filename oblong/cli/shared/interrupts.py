"""Signals: Ctrl-C while compiled code may drop exceptions, and requests to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Exit code after SIGTERM.
TERMINATED = 143


@contextmanager
def terminated(stop: Callable[[], None]) -> Iterator[None]:
    """Call a function at SIGTERM, in place of ending at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def repeated_interrupts(seconds: float = 1.0) -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` again and again, until this context has ended.

    A compiler that calls back into Python drops the exceptions of what it calls, so that a single
    one may go unnoticed. Nothing inside may need longer than this to clean up.

    Parameters
    ----------
    seconds : float, default=1.0
        Time between two exceptions.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def again(*_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGALRM)
    before = [signal.signal(number, again) for number in numbers]
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)
