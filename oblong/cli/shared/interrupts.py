"""Requests to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
