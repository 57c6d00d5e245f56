"""Rows of files of any size, read a batch at a time in constant memory."""

from oblong.io.rows import Batch, Position, RowReader

__all__ = ["Batch", "Position", "RowReader"]
