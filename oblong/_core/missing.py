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


def check_present(y: Any) -> None:
    """Refuse labels or targets of which one is missing.

    Numbers are left to scikit-learn, and arrays on a device to their libraries. A NaN in a list of
    strings would become a string itself, and None or pandas.NA an error about an order.
    """
    entries = y
    if not isinstance(y, (list, tuple)):
        on_device = hasattr(y, "device") and not isinstance(y, np.ndarray)
        if y is None or on_device or getattr(getattr(y, "dtype", None), "kind", "O") in "biufcSU":
            return
        values = np.asarray(y)
        if values.dtype.kind not in "OmM":
            return
        entries = values.astype(object).ravel() if values.dtype.kind == "O" else values.ravel()
    if all(issubclass(kind, _PRESENT) for kind in set(map(type, entries))):
        return
    for row, value in enumerate(entries):
        if not isinstance(value, _PRESENT) and is_missing(value):
            raise ValueError(f"y has a missing value, {value!r}, in row {row}")
