"""Data: the papers' generators, sets by name, and reading of files."""

from typing import TYPE_CHECKING

from oblong._core.lazy import lazy_names

if TYPE_CHECKING:
    from oblong.datasets.generators import (
        make_bound_toys,
        make_parallel_lines,
        make_rotated_stripe,
        make_tilted_gaussians,
    )
    from oblong.datasets.loading import available, load
    from oblong.io import DataFileError, Dataset, read_table

# The names of the sets need no scikit-learn.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "oblong.datasets.generators": [
            "make_bound_toys",
            "make_parallel_lines",
            "make_rotated_stripe",
            "make_tilted_gaussians",
        ],
        "oblong.datasets.loading": ["available", "load"],
        "oblong.io": ["DataFileError", "Dataset", "read_table"],
    },
)

__all__ = [
    "DataFileError",
    "Dataset",
    "available",
    "load",
    "make_bound_toys",
    "make_parallel_lines",
    "make_rotated_stripe",
    "make_tilted_gaussians",
    "read_table",
]
