"""The model of an online learner as plain arrays, and how it learns and predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Self

import numpy as np

from oblong._core.array_state import copied
from oblong.solvers.online import arrays, slots
from oblong.solvers.online.balance import cut
from oblong.solvers.online.calibration import DRIFTING, STEADY, fresh_sigmoid, logits, set_open
from oblong.solvers.online.options import DEFAULT, OnlineOptions, suits_blocks
from oblong.solvers.online.passes.general import learn_rows
from oblong.solvers.online.passes.predict import decide_rows
from oblong.solvers.online.passes.two_classes import learn_full, learn_table
from oblong.solvers.online.rows import Rows, plain
from oblong.solvers.online.rules import Rule
from oblong.solvers.online.structures.sketch import sketch_diagonal
from oblong.solvers.online.units import divided, learn_scaled
from oblong.solvers.online.variances import output_variances

# The arrays of a model, in the order in which compiled loops take them.
_arrays = attrgetter(*slots.Model._fields)


@dataclass(slots=True)
class OnlineState(arrays.NamedNumbers):
    """Weights, covariance and counters of a learner.

    The slots of the small arrays are named in :mod:`~oblong.solvers.online.slots`.

    Attributes
    ----------
    n_features : int
        Number of features; the arrays may have room for more.
    table : ndarray of shape (n_features + 1, n_groups * n_outputs)
        Weights, a column per output and the intercept in row 0, and then, for a diagonal
        covariance, the variances ``D``; for a sketch, two groups of columns of its own.
    covariance : ndarray of shape (n_outputs, n_features + 1, n_features + 1) or (0, 0, 0)
        The matrices ``S`` of a full covariance, or the blocks of a sketch. A full covariance is
        zero in the room for more features, of which there is always enough for whole vectors.
    scale : ndarray of shape (n_outputs, 3) or (n_outputs, 11)
        The factor ``σ`` of the covariance, what the rule carries along, the directions of a
        sketch, and the sigmoid of the output, if there is one.
    total : ndarray of shape (n_features + 1, n_outputs) or (0, n_outputs)
        Sum of the steps times the number of the rounds before them: the mean of the weights over
        all rounds is ``table - total / rounds``.
    counters : ndarray of int
        Rounds, updates, mistakes and the health of the model.
    work : ndarray
        Scratch memory.
    settings : ndarray of float
        Parameters of the rule and of the model.
    codes : ndarray of int
        Structure, rule, task, steps and invariance.
    units : ndarray of shape (n_features + 1,) or (0,)
        Units of the features, see :mod:`~oblong.solvers.online.units`; those of features that
        have not been seen are zero. All other arrays are in the coordinates that they make.
    """

    n_features: int
    table: np.ndarray
    covariance: np.ndarray
    scale: np.ndarray
    total: np.ndarray
    counters: np.ndarray
    work: np.ndarray
    settings: np.ndarray
    codes: np.ndarray
    units: np.ndarray

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
        normalize: bool = False,
        forgetting: float = 1.0,
        dtype: Any = np.float64,
    ) -> OnlineState:
        """A model that has seen nothing.

        Parameters
        ----------
        rule : Rule
            The rule.
        n_features, n_outputs : int
            Number of features, and of weight vectors.
        structure : {NONE, DIAGONAL, FULL, SKETCH}
            Structure of the covariance.
        task : {SINGLE, TOP, EACH, RANK}
            How an example of several classes becomes examples of two.
        steps : int, default=1
            Pairs of classes per example of ``TOP``.
        bias : float, default=1.0
            Value of the constant feature, 0 for no intercept.
        variance : float, default=1.0
            Initial variance of a weight.
        sketch_size : int, default=0
            Directions that a sketch is cut to; it holds twice as many.
        average : bool, default=False
            Whether to keep the mean of the weights over all rounds.
        calibrated : bool, default=False
            Whether to fit sigmoids to the outputs.
        normalize : bool, default=False
            Whether features have units.
        forgetting : float, default=1.0
            Factor of the precision after an update.
        dtype : dtype, default=float64
            Type of the table.
        """
        size = arrays.padded(n_features + 1) if structure == slots.FULL else n_features + 1
        if normalize and structure in (slots.DIAGONAL, slots.SKETCH):
            # A row of no feature, which tells what the prior is.
            size += 1
        n_steps = {slots.SINGLE: 1, slots.TOP: steps}.get(task, n_outputs)
        fills = arrays.initial_columns(structure, variance)
        # A sketch adds to the diagonal of its precision without end.
        dtype = np.float64 if structure == slots.SKETCH else dtype
        table = np.empty((size, len(fills) * n_outputs), dtype=dtype)
        # Column by column, which is six times as fast as row by row.
        for k, fill in enumerate(np.repeat(fills, n_outputs)):
            table[:, k] = fill
        covariance = np.zeros((0, 0, 0))
        if structure == slots.FULL:
            covariance = arrays.blank_covariance(n_outputs, size)
            known = np.arange(n_features + 1)
            covariance[:, known, known] = variance
        elif structure == slots.SKETCH:
            # An example may use up a direction for each of its steps.
            width = 2 * sketch_size + n_steps
            covariance = np.zeros((n_outputs, size + width, width))
        numbers = [1.0, rule.memory, 0.0]
        if calibrated:
            numbers += fresh_sigmoid(DRIFTING if rule.shrinks else STEADY)
        floor = rule.floor * variance
        settings = [*rule.packed(), bias, floor, variance, rule.memory, forgetting]
        units = np.zeros(size if normalize else 0)
        units[:1] = 1.0
        return cls(
            n_features=n_features,
            table=table,
            covariance=covariance,
            scale=np.repeat([numbers], n_outputs, axis=0),
            total=np.zeros((size if average else 0, n_outputs)),
            counters=np.zeros(slots.N_COUNTERS, dtype=np.int64),
            work=arrays.scratch(structure, n_outputs, covariance),
            settings=np.array(settings, dtype=np.float64),
            codes=np.array([structure, rule.code, task, n_steps, rule.invariance]),
            units=units,
        )

    # What the arrays mean ------------------------------------------------------------------------

    @property
    def model(self) -> slots.Model:
        """The arrays as compiled loops take them."""
        return slots.Model._make(_arrays(self))

    def weights(self) -> np.ndarray:
        """Weights, with those of the constant feature in row 0; a view if they are kept as such."""
        found = self.own_weights()
        if not self.units.size:
            return found
        units = self.units[: len(found), None]
        return np.divide(found, units, out=np.zeros(found.shape), where=units > 0.0)

    def own_weights(self) -> np.ndarray:
        """Weights in the coordinates of the model."""
        n, outputs = self.n_features + 1, self.n_outputs
        last = self.table[:n, :outputs]
        if not self.total.shape[0] or not self.rounds:
            return last
        return last - (self.total[:n] / self.rounds).astype(last.dtype)

    def matrices(self) -> np.ndarray:
        """Full covariances, of shape (n_outputs, n_features + 1, n_features + 1).

        Like all below, they are in the coordinates of the model.
        """
        n = self.n_features + 1
        return self.covariance[:, :n, :n] * self.sigma[:, None, None]

    def diagonal(self) -> np.ndarray:
        """Variances of the weights, in the order of :meth:`weights`."""
        n, outputs = self.n_features + 1, self.n_outputs
        if self.structure == slots.FULL:
            return np.diagonal(self.covariance, axis1=1, axis2=2)[:, :n].T * self.sigma
        if self.structure == slots.SKETCH:
            parts = [sketch_diagonal(*self.sketch(k)) for k in range(outputs)]
            return np.column_stack(parts) * self.sigma
        found = self.table[:n, outputs:] * self.sigma.astype(self.table.dtype)
        return np.minimum(found, self.initial_variance) if self.forgetting < 1.0 else found

    def sketch(self, k: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Block, inverse of the diagonal, and number of directions of a sketch.

        The block has no room for more features.
        """
        n, width = self.n_features + 1, self.covariance.shape[2]
        block = self.covariance[k]
        if n + width != len(block):
            block = np.vstack([block[:n], block[-width:]])
        return block, self.table[:n, self.n_outputs + k], self.ranks[k]

    def divided(self, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Values of one row in the coordinates of the model; see :func:`~.units.divided`."""
        if not self.units.size:
            return values
        own = self.units[columns + 1]
        return np.divide(values, own, out=np.sign(values, dtype=np.float64), where=own > 0.0)

    def prior(self) -> np.ndarray:
        """Variances of a full covariance in the room for more features, one per output."""
        return self.covariance[:, -1, -1] * self.sigma

    def suits(self, other: OnlineState) -> bool:
        """Whether another model has the same rule, structure and task, and as many features."""
        return (
            self.n_features == other.n_features
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.settings, other.settings)
            and self.scale.shape == other.scale.shape
            and (self.units.size > 0) == (other.units.size > 0)
        )

    def set_rule(self, rule: Rule) -> None:
        """Take the parameters of a rule that depends on the number of features."""
        self.settings[: slots.N_PARAMETERS] = rule.packed()

    def count(self, rounds: int) -> None:
        """Count examples that came before there was a model."""
        self.counters[slots.ROUNDS] += rounds

    def copy(self) -> Self:
        """A model of its own."""
        return copied(self)

    def assign(self, other: OnlineState) -> None:
        """Become another model."""
        for field in fields(self):
            setattr(self, field.name, getattr(other, field.name))

    # Learning ------------------------------------------------------------------------------------

    @property
    def one_pass(self) -> Callable[..., int]:
        """The compiled loop that suits the model."""
        if self.task != slots.SINGLE or self.structure == slots.SKETCH:
            return learn_rows
        return learn_full if self.structure == slots.FULL else learn_table

    def learn(
        self, rows: Rows, labels: np.ndarray, weights: np.ndarray,
        order: np.ndarray | None = None, options: OnlineOptions = DEFAULT,
        record: np.ndarray = slots.NOTHING,
    ) -> None:  # fmt: skip
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
        options : OnlineOptions
            What may be tuned.
        record : ndarray of shape (n_rows, n_outputs)
            Gets the decision values of the rows in their order, each before it is learned from:
            outputs, or logits of their sigmoids. It has to be full of ``NOT_YET``, and rows of
            weight zero leave that.
        """
        if order is None:
            order = np.arange(len(labels))
        labels, weights = plain(labels), plain(weights)
        if suits_blocks(self, len(order), options):
            # Here, since few models need SciPy to learn.
            from oblong.solvers.online.passes.blocks import learn_blocks

            one = learn_scaled if self.units.size else learn_blocks
            one(self, rows, labels, weights, order, options, record)
            return
        if self.units.size:
            rows = rows._replace(data=rows.data.astype(np.float64, copy=False))
        if self.structure == slots.SKETCH:
            weights = weights.copy()
        one_pass, model = self.one_pass, self.model
        while order.size:
            batch = slots.Batch(
                rows.data, rows.indices, rows.indptr, order, labels, weights, rows.dense
            )
            done = one_pass(*batch, *model, record)
            order, record = order[done:], record[done:]
            if order.size:
                cut(self)

    def promote(self, dtype: Any) -> None:
        """Make the table at least as precise as ``dtype``."""
        wanted = np.result_type(self.table.dtype, dtype)
        if wanted != self.table.dtype:
            self.table = self.table.astype(wanted)

    def calibrates(self, learns: bool) -> None:
        """Say whether the sigmoids of the outputs are learned."""
        set_open(self.scale, learns)

    # Prediction ----------------------------------------------------------------------------------

    def scores(self, X: Any) -> np.ndarray:
        """Outputs of all weight vectors, of shape (n_rows, n_outputs)."""
        weights = self.weights()
        return np.asarray(X @ weights[1:]) + self.bias * weights[0]

    def decisions(self, rows: Rows) -> np.ndarray:
        """Outputs of rows, or logits of their sigmoids, as learning would record them."""
        found = np.empty((len(rows.indptr) - 1, self.n_outputs))
        weights = self.table if not self.total.shape[0] else self.own_weights().copy()
        numbers = (self.scale, self.settings, self.codes, self.units)
        decide_rows(*rows[:4], weights[: self.n_features + 1], *numbers, found)
        return found

    def variances(self, X: Any) -> np.ndarray:
        """Variances of the outputs, of shape (n_rows, n_outputs)."""
        return output_variances(self, divided(X, self.units) if self.units.size else X)

    def logits(self, outputs: np.ndarray) -> np.ndarray:
        """Logits of the sigmoids of the outputs."""
        return logits(outputs, self.scale, self.task)
