"""A batch of one row, for learners that take single examples."""

import numpy as np

from oblong.solvers.online.slots import NOTHING, SKETCH
from oblong.solvers.online.state import OnlineState


class OneRow:
    """Arrays of a batch of one row, made once: looking them up would take longer than learning."""

    def __init__(self, state: OnlineState, classes: np.ndarray) -> None:
        self.codes = {label: k for k, label in enumerate(classes.tolist())}
        self.order = np.zeros(1, dtype=np.int64)
        self.span = np.zeros(2, dtype=np.int64)
        self.labels = np.zeros((1, 1), dtype=np.int32)
        self.label = self.labels[0]
        self.weight = np.ones(1)
        self.factor, self.size = 1.0, 0
        self.attach(state)

    def attach(self, state: OnlineState) -> None:
        """Take the arrays of a model."""
        self.state, self.table, self.model = state, state.table, state.model
        self.learn = state.one_pass
        self.all_columns = np.arange(state.n_features, dtype=np.int32)
        # A sketch may be full.
        self.sketched = state.structure == SKETCH
        # Whether the row before was dense, and the next one may be checked by the loop.
        self.quick = False
        self.dtype, self.shape = state.table.dtype, (state.n_features,)
        batch = (self.all_columns, self.span, self.order, self.labels, self.weight, True)
        self.fixed = (*batch, *self.model, NOTHING)
