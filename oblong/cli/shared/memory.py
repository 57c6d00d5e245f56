"""How much memory a piece of work takes at its peak."""

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass
class Peak:
    """Bytes beyond those in use before; None where the system does not report it."""

    size: int | None = None


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure by how much the resident memory of the process rises.

    The system keeps the highest value itself, so nothing is missed between two looks and
    memory of compiled libraries counts. It can be told to forget it on Linux only.

    Examples
    --------
    >>> from oblong.cli.shared.memory import peak_memory
    >>> with peak_memory() as peak:
    ...     content = bytes(range(256)) * 200_000
    >>> peak.size is None or peak.size > 40_000_000
    True
    """
    peak = Peak()
    with suppress(OSError, AttributeError, TypeError):
        # What was freed but not given back would be used again unseen.
        ctypes.CDLL(None).malloc_trim(0)
    try:
        with open("/proc/self/clear_refs", "w") as switch:
            switch.write("5")
        before = _status("VmRSS")
    except (OSError, ValueError):
        yield peak
        return
    yield peak
    peak.size = max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    with open("/proc/self/status") as stream:
        found = re.search(rf"^{name}:\s*(\d+) kB", stream.read(), flags=re.MULTILINE)
    if found is None:
        raise ValueError(name)
    return 1024 * int(found[1])
