"""The compiled core: one extension module for each set of instructions, all from the same sources.

The best one that the processor has is loaded; ``OBLONG_VARIANT`` names another one, such as ``v3``
or ``checked``. Each family of loops is a module: ``from oblong._native import calibration``.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_LEVELS = ("v4", "v3", "v2", "baseline")


def _variant() -> str:
    """The set of instructions to load: the highest that is there and that the processor has."""
    if wanted := os.environ.get("OBLONG_VARIANT"):
        return wanted
    if find_spec(f"{__name__}._cpu") is None:
        raise ImportError(
            "oblong's compiled core was not built for this Python; in a source tree: make native"
        )
    levels = _LEVELS[_LEVELS.index(import_module(f"{__name__}._cpu").level()) :]
    for level in levels:
        if find_spec(f"{__name__}._{level}") is not None:
            return level
    raise ImportError(f"oblong was built for none of {', '.join(levels)}, which this processor has")


variant = _variant()
_core = import_module(f"{__name__}._{variant}")
for _name, _family in vars(_core).items():
    if isinstance(_family, ModuleType):
        sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _family
