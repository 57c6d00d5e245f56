"""Missing labels and targets, in whatever container they come."""

from typing import Any

import numpy as np

_PRESENT = (str, bytes, int, np.integer, np.bool_, list, tuple, np.ndarray)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas has in place of them."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        # pandas.NA is neither equal to itself nor different.
        return True
    except ValueError:
        # Several values, such as rows of a list.
        return False


def check_present(y: Any) -> None:
    """Refuse labels or targets of which one is missing.

    A NaN in a list of strings would become a string itself, and None or pandas.NA an error about an
    order. Arrays on a device are left to their libraries.
    """
    entries = y
    if not isinstance(y, (list, tuple)):
        if y is None or (hasattr(y, "device") and not isinstance(y, np.ndarray)):
            return
        entries = np.asarray(y).ravel()
        if entries.dtype.kind not in "fOmM" or (
            entries.dtype.kind == "f" and not np.isnan(entries).any()
        ):
            return
    if all(issubclass(kind, _PRESENT) for kind in set(map(type, entries))):
        return
    for row, value in enumerate(entries):
        if not isinstance(value, _PRESENT) and is_missing(value):
            raise ValueError(f"y has a missing value, {value!r}, in row {row}")
