"""Files and standard input: tables as a whole, and rows a batch at a time or in several passes."""

from typing import TYPE_CHECKING

from oblong._core.lazy import lazy_names

if TYPE_CHECKING:
    from oblong.io.dataset import Dataset
    from oblong.io.errors import DataFileError
    from oblong.io.row_source import open_rows
    from oblong.io.rows import Batch, Position, RowReader
    from oblong.io.tables import read_table

# Rows of a stream need no SciPy.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "oblong.io.dataset": ["Dataset"],
        "oblong.io.errors": ["DataFileError"],
        "oblong.io.row_source": ["open_rows"],
        "oblong.io.rows": ["Batch", "Position", "RowReader"],
        "oblong.io.tables": ["read_table"],
    },
)

__all__ = ["Batch", "DataFileError", "Dataset", "Position", "RowReader", "open_rows", "read_table"]
