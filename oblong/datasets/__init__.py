"""Data: the papers' generators, sets by name, and reading of files."""

from oblong.datasets.generators import (
    make_bound_toys,
    make_parallel_lines,
    make_rotated_stripe,
    make_tilted_gaussians,
)
from oblong.datasets.loading import available, load
from oblong.io import DataFileError, Dataset, read_table

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
