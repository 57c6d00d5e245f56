"""Files and standard input: tables as a whole, and rows a batch at a time or in several passes."""

from oblong.io.dataset import Dataset
from oblong.io.errors import DataFileError
from oblong.io.row_source import open_rows
from oblong.io.rows import Batch, Position, RowReader
from oblong.io.tables import read_table

__all__ = [
    "Batch",
    "DataFileError",
    "Dataset",
    "Position",
    "RowReader",
    "open_rows",
    "read_table",
]
