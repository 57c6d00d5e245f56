"""Models whose state is a dataclass of arrays."""

from dataclasses import fields, replace
from typing import Any

import numpy as np


def copied(state: Any) -> Any:
    """A model with arrays of its own."""
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    own = {name: value.copy() for name, value in values.items() if isinstance(value, np.ndarray)}
    return replace(state, **own)


def number(array: str, slot: int, kind: type = int) -> Any:
    """A number in an array of a model."""
    return property(lambda model: kind(getattr(model, array)[slot]))
