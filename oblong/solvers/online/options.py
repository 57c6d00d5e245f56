"""What may be tuned in learning and prediction without changing the result beyond rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oblong.solvers.online.slots import EACH, FORGETTING, FULL, SINGLE

if TYPE_CHECKING:
    from oblong.solvers.online.state import OnlineState


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


DEFAULT = OnlineOptions()


def suits_blocks(state: OnlineState, n_rows: int, options: OnlineOptions = DEFAULT) -> bool:
    """Whether blocks are faster than rows.

    Where a class competes with the best of the others, which class that is changes too often within
    a block. A model that forgets has to renew its prior between any two rows.
    """
    features = {SINGLE: options.block_features, EACH: options.block_features_one_vs_rest}
    return (
        state.structure == FULL
        and state.settings[FORGETTING] == 1.0
        and state.task in features
        and state.table.shape[0] > features[state.task]
        and n_rows >= options.block_rows
    )
