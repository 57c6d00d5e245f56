"""Attributes that are computed when they are first read."""

from __future__ import annotations

from types import FunctionType
from typing import Any

__all__ = ["Deferred", "is_waiting"]


class Deferred:
    """An attribute that may be set to a function, which is called when it is first read.

    The value, or the function until then, is kept under the attribute's own name. Two threads that
    read at the same time both compute the same. A class that is pickled has to read the attribute
    in its ``__getstate__``.

    Examples
    --------
    >>> from oblong._core.deferred import Deferred
    >>> class Circle:
    ...     area = Deferred()
    >>> circle = Circle()
    >>> circle.area = lambda: 3.0
    >>> circle.area
    3.0
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        # For the class itself too: a field of a dataclass has no default then.
        if instance is None or self.name not in vars(instance):
            raise AttributeError(self.name)
        value = vars(instance)[self.name]
        # Nothing else that can be called: files of models hold no functions.
        if isinstance(value, FunctionType):
            value = vars(instance)[self.name] = value()
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value

    def __delete__(self, instance: Any) -> None:
        del vars(instance)[self.name]


def is_waiting(instance: Any, name: str) -> bool:
    """Whether an attribute that is there has not been computed yet."""
    return isinstance(vars(instance)[name], FunctionType)
