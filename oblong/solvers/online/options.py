"""What may be tuned in learning and prediction without changing the result beyond rounding."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT", "OnlineOptions"]


@dataclass(frozen=True)
class OnlineOptions:
    """Sizes at which one way to compute is faster than another.

    The values were found with ``benchmarks/online_against_peers.py``, part *blocks*.

    Attributes
    ----------
    block_features : int
        Features above which a full covariance of two classes is learned block by block.
    block_features_one_vs_rest : int
        The same for one-vs-rest classes, whose loop over rows is slower.
    block_rows : int
        Fewest rows that are worth a block.
    shortest_block, longest_block : int
        Rows of a block, of which few may be expected to change the model.
    block_lines, wide_block_lines : int
        Rows of a block per output that are expected to change the model: enough for products of
        matrices at full speed, few enough for the small matrices of the block.
    wide : int
        Features above which ``wide_block_lines`` counts.
    kernel_rows : int
        Rows whose kernel values are computed at once in learning.
    prediction_entries : int
        Entries of the matrices that prediction makes on the way.
    scaled_rows : int
        Rows that are copied at once by a model with units.
    """

    block_features: int = 350
    block_features_one_vs_rest: int = 140
    block_rows: int = 16
    shortest_block: int = 8
    longest_block: int = 512
    block_lines: int = 48
    wide_block_lines: int = 96
    wide: int = 400
    kernel_rows: int = 64
    prediction_entries: int = 1 << 22
    scaled_rows: int = 1 << 14


DEFAULT = OnlineOptions()
