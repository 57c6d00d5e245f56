"""The model of an online learner as plain arrays, and how it learns and predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from oblong.solvers.online._pass import learn_rows
from oblong.solvers.online._pooled import learn_pooled
from oblong.solvers.online._sigmoid import DRIFTING, STEADY, fresh_sigmoid
from oblong.solvers.online._single import learn_full, learn_table
from oblong.solvers.online._sketch import sketch_diagonal
from oblong.solvers.online._tasks import (
    DIAGONAL,
    EACH,
    FULL,
    JOINT,
    NONE,
    RANK,
    SHARED,
    SINGLE,
    SKETCH,
    TOP,
)
from oblong.solvers.online._vector import LANES
from oblong.solvers.online.balance import cut
from oblong.solvers.online.block import learn_blocks, suits_blocks
from oblong.solvers.online.pooled import fill_new, joint_shape
from oblong.solvers.online.rows import Rows, plain
from oblong.solvers.online.rules import CW_STDEV, CW_VAR, Rule
from oblong.solvers.online.variances import output_variances

__all__ = [
    "COUNTERS",
    "DIAGONAL",
    "EACH",
    "FULL",
    "JOINT",
    "NONE",
    "RANK",
    "SHARED",
    "SINGLE",
    "SKETCH",
    "TOP",
    "OnlineState",
    "Rows",
    "blank_shape",
    "initial_columns",
    "matrices_of",
    "padded",
    "scratch",
]

# Number of the counters, of which the last is the exponent of the unit.
COUNTERS = 8


def initial_columns(structure: int, variance: float) -> list[float]:
    """Initial values of the groups of columns of the table."""
    return {DIAGONAL: [0.0, variance], SKETCH: [0.0, variance, 1.0 / variance]}.get(
        structure, [0.0]
    )


def scratch(structure: int, n_outputs: int, shape: np.ndarray) -> np.ndarray:
    """Scratch memory of the pass."""
    length = 0 if structure in (NONE, DIAGONAL) else 3 * shape.shape[2]
    return np.zeros(2 * n_outputs + length)


def blank_shape(n_outputs: int, size: int) -> np.ndarray:
    """Full shapes of no features, in memory where a line of the cache begins."""
    wanted = n_outputs * size * size
    memory = np.zeros(wanted + LANES)
    skip = (-memory.ctypes.data // memory.itemsize) % LANES
    return memory[skip : skip + wanted].reshape(n_outputs, size, size)


def matrices_of(structure: int, n_outputs: int, size: int) -> tuple[int, int]:
    """How many matrices of which size there are for a table of so many rows."""
    if structure == JOINT:
        return 1, size * (n_outputs - 1)
    return 1 if structure == SHARED else n_outputs, size


def padded(size: int) -> int:
    """Room for that many rows and columns of a full shape, in whole vectors."""
    return -(-size // LANES) * LANES


@dataclass(slots=True)
class OnlineState:
    """Weights, shape matrix and counters of a learner.

    Attributes
    ----------
    n_features : int
        Number of features; the arrays may have room for more.
    table : ndarray of shape (n_features + 1, n_groups * n_classes)
        Weights, one column a class and the intercept in row 0, and then, for a diagonal shape,
        the variances ``D``; for a sketch, two groups of columns of its own.
    shape : ndarray of shape (n_classes, n_features + 1, n_features + 1) or (0, 0, 0)
        The matrices ``S`` of a full shape, or the blocks of a sketch. A full shape is zero in the
        room for more features, of which there is always enough for whole vectors of numbers. A
        shared or joint shape is one matrix, see :mod:`~oblong.solvers.online._pooled`.
    scale : ndarray of shape (n_classes, 3) or (n_classes, 11)
        The factor ``σ`` of the shape, what the rule carries along, and the rows of a sketch; then
        the numbers of the sigmoid of the output, if there is one. The first factor is that of a
        shared or joint shape.
    total : ndarray of shape (n_features + 1, n_classes) or (0, n_classes)
        Sum of the steps times the number of the rounds before them: the mean of the weights over
        all rounds is ``table - total / rounds``.
    counters : ndarray of int
        Rounds, updates, mistakes, examples skipped for want of variance, resets of the shape,
        changes of the unit, variances held at the floor, and the exponent of the unit.
    work : ndarray
        Scratch memory.
    settings : ndarray of float
        Limit and parameters of the rule, value of the constant feature, floor, initial variance,
        initial memory of the rule.
    codes : ndarray of int
        Structure, rule, task, steps an example, invariance, whether the rows are dense.
    """

    n_features: int
    table: np.ndarray
    shape: np.ndarray
    scale: np.ndarray
    total: np.ndarray
    counters: np.ndarray
    work: np.ndarray
    settings: np.ndarray
    codes: np.ndarray

    @classmethod
    def initial(
        cls,
        rule: Rule,
        n_features: int,
        n_outputs: int,
        *,
        structure: int,
        task: int,
        steps: int = 1,
        bias: float = 1.0,
        variance: float = 1.0,
        sketch_size: int = 0,
        average: bool = False,
        calibrated: bool = False,
        dtype: Any = np.float64,
    ) -> OnlineState:
        """A model that has seen nothing.

        Parameters
        ----------
        rule : Rule
            The rule.
        n_features, n_outputs : int
            Number of features, and of weight vectors.
        structure : {NONE, DIAGONAL, FULL, SKETCH, SHARED, JOINT}
            Structure of the shape; the last two are for several classes, which compete.
        task : {SINGLE, TOP, EACH, RANK}
            How an example of several classes becomes examples of two.
        steps : int, default=1
            Pairs of classes an example of ``TOP`` is compared at.
        bias : float, default=1.0
            Value of the constant feature, 0 for no intercept.
        variance : float, default=1.0
            Initial variance of a weight.
        sketch_size : int, default=0
            Rows that a sketch is cut to; it holds twice as many.
        average : bool, default=False
            Whether to keep the mean of the weights over all rounds.
        calibrated : bool, default=False
            Whether to fit sigmoids to the outputs.
        dtype : dtype, default=float64
            Type of the table.
        """
        size = padded(n_features + 1) if structure == FULL else n_features + 1
        n_steps = {SINGLE: 1, TOP: steps, EACH: n_outputs, RANK: n_outputs}[task]
        fills = initial_columns(structure, variance)
        # A sketch adds to the diagonal of its precision without end.
        dtype = np.float64 if structure == SKETCH else dtype
        table = np.empty((size, len(fills) * n_outputs), dtype=dtype)
        # Column by column, which is six times as fast as row by row.
        for k, fill in enumerate(np.repeat(fills, n_outputs)):
            table[:, k] = fill
        shape = np.zeros((0, 0, 0))
        if structure in (FULL, SHARED, JOINT):
            matrices, side = matrices_of(structure, n_outputs, size)
            shape = blank_shape(matrices, side)
            fill_new(structure, shape, n_outputs, 0, n_features + 1, variance)
        elif structure == SKETCH:
            # One example may use up a row for each of its steps.
            width = 2 * sketch_size + n_steps
            shape = np.zeros((n_outputs, size + width, width))
        numbers = [1.0, rule.memory, 0.0]
        if calibrated:
            numbers += fresh_sigmoid(DRIFTING if rule.code in (CW_STDEV, CW_VAR) else STEADY)
        scale = np.repeat([numbers], n_outputs, axis=0)
        floor = rule.floor * variance
        parameters = [*rule[1:5], bias, floor, variance, rule.memory]
        return cls(
            n_features=n_features,
            table=table,
            shape=shape,
            scale=scale,
            total=np.zeros((size if average else 0, n_outputs)),
            counters=np.zeros(COUNTERS, dtype=np.int64),
            work=scratch(structure, n_outputs, shape),
            settings=np.array(parameters, dtype=np.float64),
            codes=np.array([structure, rule.code, task, n_steps, rule.invariance, 0]),
        )

    # What the arrays mean ------------------------------------------------------------------------

    @property
    def n_outputs(self) -> int:
        """Number of weight vectors."""
        return self.scale.shape[0]

    @property
    def structure(self) -> int:
        """Structure of the shape."""
        return int(self.codes[0])

    @property
    def rounds(self) -> int:
        """Examples seen."""
        return int(self.counters[0])

    @property
    def bias(self) -> float:
        """Value of the constant feature."""
        return float(self.settings[4])

    @property
    def initial_variance(self) -> float:
        """Initial variance of a weight."""
        return float(self.settings[6])

    @property
    def exponent(self) -> int:
        """Exponent ``k`` of the unit: shapes are multiplied by 4ᵏ.

        So are weights by 2ᵏ, for rules of invariance 1.
        """
        return int(self.counters[7])

    def weights(self) -> np.ndarray:
        """Weights, with those of the constant feature in row 0; a view if there is no averaging."""
        n, outputs = self.n_features + 1, self.n_outputs
        last = self.table[:n, :outputs]
        if not self.total.shape[0] or not self.rounds:
            return last
        return last - (self.total[:n] / self.rounds).astype(last.dtype)

    def diagonal(self) -> np.ndarray:
        """Variances of the weights, in the order of :meth:`weights`."""
        n, outputs = self.n_features + 1, self.n_outputs
        if self.structure == FULL:
            return (np.diagonal(self.shape, axis1=1, axis2=2)[:, :n] * self.scale[:, :1]).T
        if self.structure == SHARED:
            found = np.diagonal(self.shape[0])[:n, None] * self.scale[0, 0]
            return np.repeat(found, outputs, axis=1)
        if self.structure == JOINT:
            return np.einsum("jkjk->jk", joint_shape(self))
        if self.structure == SKETCH:
            parts = [
                sketch_diagonal(self._block(k), self.table[:n, outputs + k], self.ranks[k])
                for k in range(outputs)
            ]
            return np.column_stack(parts) * self.scale[:, 0]
        return self.table[:n, outputs:] * self.scale[:, 0].astype(self.table.dtype)

    @property
    def ranks(self) -> list[int]:
        """Rows of the sketches."""
        return self.scale[:, 2].astype(int).tolist()

    def _block(self, k: int) -> np.ndarray:
        """Block of the sketch of a class, without the room for more features."""
        n, width = self.n_features + 1, self.shape.shape[2]
        if n + width == self.shape.shape[1]:
            return self.shape[k]
        return np.vstack([self.shape[k, :n], self.shape[k, -width:]])

    def copy(self) -> OnlineState:
        """A model of its own."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        copies = {k: v.copy() for k, v in arrays.items() if isinstance(v, np.ndarray)}
        return replace(self, **copies)

    def assign(self, other: OnlineState) -> None:
        """Become another model."""
        for field in fields(self):
            setattr(self, field.name, getattr(other, field.name))

    # Learning ------------------------------------------------------------------------------------

    @property
    def one_pass(self) -> Callable:
        """The compiled pass that suits the model."""
        if self.structure in (SHARED, JOINT):
            return learn_pooled
        if self.codes[2] != SINGLE or self.structure == SKETCH:
            return learn_rows
        return learn_full if self.structure == FULL else learn_table

    def learn(
        self, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: np.ndarray | None = None
    ) -> None:
        """Learn from rows, one after the other.

        Parameters
        ----------
        rows : Rows
            The rows.
        labels : ndarray of int32, of shape (n_rows, 1) or (n_rows, n_labels)
            Number of the class, or whether each label is relevant.
        weights : ndarray of shape (n_rows,)
            A weight of k counts as k copies of the row.
        order : ndarray of int64, default=None
            Which rows, in which order.
        """
        if order is None:
            order = np.arange(len(labels))
        labels, weights = plain(labels), plain(weights)
        if suits_blocks(self, len(order)):
            learn_blocks(self, rows, labels, weights, order)
            return
        if self.structure == SKETCH:
            weights = weights.copy()
        self.codes[5] = rows.dense
        one_pass = self.one_pass
        while order.size:
            done = one_pass(
                rows.data,
                rows.indices,
                rows.indptr,
                order,
                labels,
                weights,
                self.table,
                self.shape,
                self.scale,
                self.total,
                self.counters,
                self.work,
                self.settings,
                self.codes,
            )
            order = order[done:]
            if order.size:
                cut(self)

    def promote(self, dtype: Any) -> None:
        """Make the table at least as precise as ``dtype``."""
        wanted = np.result_type(self.table.dtype, dtype)
        if wanted != self.table.dtype:
            self.table = self.table.astype(wanted)

    # Prediction ----------------------------------------------------------------------------------

    def scores(self, X: Any) -> np.ndarray:
        """Outputs of all weight vectors, of shape (n_rows, n_outputs)."""
        weights = self.weights()
        return np.asarray(X @ weights[1:]) + self.bias * weights[0]

    def variances(self, X: Any) -> np.ndarray:
        """Variances of the outputs, of shape (n_rows, n_outputs)."""
        return output_variances(self, X)
