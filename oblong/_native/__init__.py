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


def _is_built(name: str) -> bool:
    return find_spec(f"{__name__}._{name}") is not None


def _levels() -> tuple[str, ...]:
    """The sets of instructions that the processor has, the best one first."""
    if not _is_built("cpu"):
        raise ImportError(
            "oblong's compiled core was not built for this Python; in a source tree: make native"
        )
    return _LEVELS[_LEVELS.index(import_module(f"{__name__}._cpu").level()) :]


def _choose() -> str:
    """The set of instructions to load: the best that is built and that the processor has."""
    if wanted := os.environ.get("OBLONG_VARIANT"):
        if not _is_built(wanted):
            raise ImportError(f"oblong was built without OBLONG_VARIANT={wanted}")
        return wanted
    levels = _levels()
    for level in levels:
        if _is_built(level):
            return level
    raise ImportError(f"oblong was built for none of {', '.join(levels)}, which this processor has")


variant = _choose()
_core = import_module(f"{__name__}._{variant}")
for _name, _family in vars(_core).items():
    if isinstance(_family, ModuleType):
        sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _family
