"""Rows of files of any size, read a batch at a time in constant memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oblong._core.lazy import lazy_names
from oblong.io.rows import Batch, Position, RowReader

if TYPE_CHECKING:
    from oblong.io.arrow import ArrowReader

__getattr__, __dir__ = lazy_names(__name__, {"oblong.io.arrow": ["ArrowReader"]})

__all__ = ["ArrowReader", "Batch", "Position", "RowReader"]
