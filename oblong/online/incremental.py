"""Batches of rows in which features and classes may be new; see :mod:`oblong.online.growing`."""

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from oblong.online.growing import add_features
from oblong.online.predicted import CodedRows, Predicted, is_sparse, matrix, note, span, taken
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.slots import DIAGONAL, NONE, NOT_YET
from oblong.solvers.online.state import OnlineState


class FixedFeatures(ValueError):
    """A feature that is new to a learner which has to know all of them from the start."""


# What goes to `IncrementalLearner._note`, but for the decision values.
_Note: TypeAlias = tuple[Predicted, np.ndarray, Sequence[Any], Any] | None


class IncrementalLearner:
    """A learner that takes batches of rows with columns and classes as they come.

    Every row is predicted before it is learned from, by the learner itself, which counts its
    mistakes. The rows of a batch are learned from by one call of :meth:`partial_fit`. Wherever the
    model has to change its form in front of a row, because the row is the first of its class or has
    a column that is new, the batch is cut there, so that batches of any size give the same model as
    single rows.

    Parameters
    ----------
    model : OnlineClassifier
        The learner, fitted or not. Learners that cannot grow have to be fitted, or all classes to
        be ``declared``.
    width : int or None, default=None
        Number of columns of sparse rows; None if they appear as the rows come.

    Attributes
    ----------
    classes : list
        The classes so far, in the order in which they appeared.
    declared : bool
        Whether no other class may appear.
    new_class_mistakes : int
        Mistakes which the model itself does not count: rows of classes that were not known.
    waited : int
        Rows before there were two classes, in copies.
    width : int
        Columns so far.
    rows, examples : int
        Rows so far, and examples: rows, each as often as its weight says.
    frozen : bool
        Whether rows of a stream are only predicted, by a plain model.
    watch : callable or None
        Called with the :class:`Predicted` of each batch, if the model is a plain one.
    late : deque of CodedRows
        Rows that have been tested, and whose labels have not come yet, one each.
    """

    def __init__(self, model: Any, width: int | None = None) -> None:
        self.model = model
        self.fixed = width is not None
        self.declared = False
        self.classes: list[Any] = []
        self.new_class_mistakes = self.waited = 0
        self.width = width or 0
        self.rows = self.examples = 0
        self.frozen = False
        self.watch: Callable[[Predicted], None] | None = None
        self.late: deque[CodedRows] = deque()
        self._before = 0
        # Mistakes that the model does not count itself.
        self.tested: int | None = None
        if self.started:
            self.classes = model.classes_.tolist()
            self.width = model.n_features_in_
            self._before = model.n_mistakes_

    @property
    def _takes_rows(self) -> bool:
        """Whether the model is a plain one, which needs no matrices and says what it decided."""
        return hasattr(self.model, "n_outputs")

    @property
    def started(self) -> bool:
        """Whether there is a model: two classes are known."""
        return hasattr(self.model, "classes_")

    @property
    def mistakes(self) -> int:
        """Rows that were predicted wrongly, each of the copies that its weight stands for.

        A row of a class that was never seen before, and not declared either, counts as one.
        """
        if self.tested is not None:
            return self.tested
        own = self.model.n_mistakes_ - self._before if self.started else 0
        return self.new_class_mistakes + own

    def test(
        self, X: Any, codes: np.ndarray, labels: Sequence[Any], weights: np.ndarray | None = None
    ) -> None:
        """Predict each row of a batch, and count mistakes, with a plain model; learn nothing."""
        n = len(codes)
        self.rows += n
        self.examples += n if weights is None else copies(weights)
        found = Predicted.blank(codes, weights)
        if self.started:
            rows = X if isinstance(X, Rows) else Rows.of(X)
            self._note(found, np.arange(n), labels, None, self.model._state.decisions(rows))
        elif self.classes:
            found.guesses[:] = labels.index(self.classes[0])
        self._count(found)
        if self.watch is not None:
            self.watch(self._with_second(found, labels))

    def learn_late(self, *batch: Any) -> None:
        """Learn from rows that :meth:`test` has counted before."""
        rows, examples, tested, watch = self.rows, self.examples, self.tested, self.watch
        self.watch = None
        self.learn(*batch)
        self.rows, self.examples, self.tested, self.watch = rows, examples, tested, watch

    def learn(
        self, X: Any, codes: np.ndarray, labels: Sequence[Any], weights: np.ndarray | None = None
    ) -> None:
        """Predict each row of a batch, and then learn from it.

        Parameters
        ----------
        X : {array-like, CSR matrix} of shape (n_rows, n_columns)
            The rows. Sparse ones need not have as many columns as there are.
        codes : ndarray of int, of shape (n_rows,)
            Their labels, as positions in ``labels``.
        labels : sequence
            What the codes mean.
        weights : ndarray of shape (n_rows,), default=None
            Weights of the rows; those of weight zero are left out.
        """
        n = len(codes)
        self.rows += n
        self.examples += n if weights is None else copies(weights)
        # The model counts mistakes of its outputs, which may differ from those of its sigmoids.
        own = not self._takes_rows or not self.model._is_calibrated()
        if own and self.watch is None:
            self._learn_kept(CodedRows(X, codes, labels, weights), None)
            return
        found = Predicted.blank(codes, weights)
        self._learn_kept(CodedRows(X, codes, labels, weights), found)
        if not own:
            self._count(found)
        if self.watch is not None:
            self.watch(self._with_second(found, labels))

    def _count(self, found: Predicted) -> None:
        wrong = found.wrong
        more = wrong.sum() if found.weights is None else copies(found.weights[wrong])
        self.tested = (self.tested or 0) + int(more)

    def _with_second(self, found: Predicted, labels: Sequence[Any]) -> Predicted:
        binary = self.started and len(self.model.classes_) == 2
        return found._replace(second=labels.index(self.model.classes_[1]) if binary else -1)

    def _learn_kept(self, batch: CodedRows, found: Predicted | None) -> None:
        X, codes, labels, weights = batch
        kept = np.arange(len(codes))
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights > 0.0)
            X, codes, weights = taken(X, kept), codes[kept], weights[kept]
        if hasattr(X, "sort_indices"):
            X.sort_indices()
        y = np.array(labels)[codes]
        widths = self._widths(X)
        if self.declared and not self.classes:
            self.classes = list(labels)
        for start, stop in self._pieces(codes, widths):
            if widths is not None and widths[stop - 1] > self.width:
                self._widen(int(widths[stop - 1]))
            # A row of a new class makes a piece of its own.
            label = labels[codes[start]]
            new = label not in self.classes
            if new:
                self.classes.append(label)
            part = None if weights is None else weights[start:stop]
            if found is not None and not self.started and len(self.classes) > new:
                found.guesses[kept[start:stop]] = labels.index(self.classes[0])
            if len(self.classes) < 2:
                self.new_class_mistakes += new
                self.waited += stop - start if part is None else copies(part)
                continue
            if not new:
                note = found and (found, kept[start:stop], labels, None)
                self._fit(X, y, start, stop, part, note)
                continue
            # The first copy is a mistake, whatever was predicted; the others are rows as any.
            known = self.started
            before = self.model.n_mistakes_ if known else 0
            if known and not self.declared:
                self._new_class(label)
            note = (found, kept[start:stop], labels, label) if found and known else None
            one = None if part is None else np.minimum(part, 1.0)
            self._fit(X, y, start, stop, one, note)
            self.new_class_mistakes += 1 - (self.model.n_mistakes_ - before)
            if part is not None and part[0] > 1.0:
                self._fit(X, y, start, stop, part - 1.0)

    def learn_one(self, x: Any, y: Any, weight: float = 1.0, *, count: bool = True) -> None:
        """Predict a single row, and then learn from it.

        Parameters
        ----------
        x : dict, ndarray of shape (n_columns,) or CSR matrix of one row
            The row.
        y : label
            Its class.
        weight : float, default=1.0
            Its weight.
        count : bool, default=True
            Whether the row has not been counted yet.
        """
        rows, examples = self.rows, self.examples
        if isinstance(x, Mapping):
            self._learn_dict(dict(x), y, weight)
        else:
            X = x if is_sparse(x) else np.asarray(x)[None]
            weights = None if weight == 1.0 else np.array([float(weight)])
            known = self.started and not is_sparse(X) and y in self.classes
            if self.model._takes_new_features and known:
                self.model.learn_one(x, y, weight)
                self.rows, self.examples = rows + 1, examples + copies(np.array([weight]))
            else:
                self.learn(X, np.zeros(1, dtype=np.intp), [y], weights)
        if not count:
            self.rows, self.examples = rows, examples

    def _learn_dict(self, x: dict[Any, Any], y: Any, weight: float) -> None:
        self.rows += 1
        self.examples += copies(np.array([weight]))
        if weight == 0.0:
            return
        new = y not in self.classes
        if new:
            self.classes.append(y)
        if not new or not self.model._takes_new_features:
            self.model.learn_one(x, y, weight)
            return
        before = self.model.n_mistakes_ if self.started else 0
        if self.started:
            self._new_class(y)
        self.model.learn_one(x, y, min(weight, 1.0))
        own = self.model.n_mistakes_ - before if self.started else 0
        self.new_class_mistakes += 1 - own
        if weight > 1.0:
            self.model.learn_one(x, y, weight - 1.0)

    # Prediction ----------------------------------------------------------------------------------

    def predict_one(self, x: Any) -> tuple[Any, bool]:
        """Class of a single row, and whether that was a draw; None if there is no class yet."""
        if not self.started:
            return (self.classes[0] if self.classes else None), False
        model = self.model
        if isinstance(x, Mapping) and not model._takes_new_features:
            return model.predict_one(dict(x)), False
        if model._takes_new_features and not is_sparse(x):
            outputs = model._outputs_one(dict(x) if isinstance(x, Mapping) else x)
        else:
            outputs = model._outputs(self.row_of(x))[0][0]
        top = np.sort(outputs)[-2:]
        tie = bool(top[0] == 0.0 if top.size == 1 else top[0] == top[1])
        return model._label_of(outputs), tie

    def row_of(self, x: Any) -> Any:
        """A single row as a matrix with the columns of the model."""
        model = self.model
        if isinstance(x, Mapping):
            columns, values = model._known_columns(dict(x))
            order = np.argsort(columns)
            parts = (values[order], columns[order], np.array([0, len(values)]))
            return matrix(parts, (1, model.n_features_in_))
        if not is_sparse(x):
            return np.asarray(x)[None]
        known = x.indices < model.n_features_in_
        parts = (x.data[known], x.indices[known], np.array([0, known.sum()]))
        return matrix(parts, (1, model.n_features_in_))

    def _note(
        self, found: Predicted, rows: np.ndarray, labels: Sequence[Any], new: Any, values: Any
    ) -> None:
        classes, calibrated = self.model.classes_.tolist(), self.model._is_calibrated()
        note(found, rows, labels, classes, values, calibrated, new)

    def _fit(
        self, X: Any, y: np.ndarray, start: int, stop: int, weights: Any, note: _Note = None
    ) -> None:
        first = not self.started
        rows = span(X, start, stop)
        if is_sparse(rows):
            # A model has at least one column.
            self.width = max(1, self.width)
            parts = (rows.data, rows.indices, rows.indptr)
            if self._takes_rows:
                rows = Rows(*parts, dense=False, width=self.width)
            else:
                rows = matrix(parts, (stop - start, self.width))
        classes = self.classes if first else None
        more = {}
        if note is not None:
            n_outputs = self.model.n_outputs(len(self.classes))
            more["record"] = np.full((stop - start, n_outputs), NOT_YET)
        self.model.partial_fit(rows, y[start:stop], classes=classes, sample_weight=weights, **more)
        if note is not None:
            self._note(*note, more["record"])
        if first and self.waited:
            self.model._state.count(self.waited)

    # Changes of form -----------------------------------------------------------------------------

    def _new_class(self, label: Any) -> None:
        if not self.model._takes_new_features:
            raise ValueError(f"{label!r} is not among the classes {self.model.classes_.tolist()}")
        self.model._append_classes([label])

    def _widths(self, X: Any) -> np.ndarray | None:
        """Columns that are known after each row, if they are not known at all times."""
        if self.fixed or not is_sparse(X):
            return None
        filled = np.diff(X.indptr) > 0
        largest = np.zeros(X.shape[0], dtype=np.int64)
        # Columns are sorted: the last of a row is the largest.
        largest[filled] = X.indices[X.indptr[1:][filled] - 1].astype(np.int64) + 1
        return np.maximum.accumulate(np.maximum(largest, self.width))

    def _pieces(self, codes: np.ndarray, widths: np.ndarray | None) -> list[tuple[int, int]]:
        """Cut the rows in front of those that change the form of the model."""
        cuts = {0, len(codes)}
        if not self.declared:
            first = np.unique(codes, return_index=True)[1]
            cuts |= {*first.tolist(), *(first + 1).tolist()}
        if widths is not None and not self._may_widen_early():
            cuts |= set(np.flatnonzero(np.diff(widths, prepend=self.width) > 0).tolist())
        return list(itertools.pairwise(sorted(cuts)))

    def _may_widen_early(self) -> bool:
        """Whether columns that no row has had yet make no difference to the model."""
        if not self.started:
            return False
        model, state = self.model, self.model._state
        free = isinstance(state, OnlineState) and state.structure in (NONE, DIAGONAL)
        return free and model._rule(self.width) == model._rule(self.width + 1)

    def _widen(self, width: int) -> None:
        if self.started:
            if not self.model._takes_new_features:
                raise FixedFeatures(
                    f"{type(self.model).__name__} needs to know the number of features"
                )
            add_features(self.model, width)
        self.width = width


def copies(weights: np.ndarray) -> int:
    """How many rows those of some weights stand for; what is left of a whole one counts as one.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.online.incremental import copies
    >>> copies(np.array([2.0, 0.5, 0.0]))
    3
    """
    return int(np.ceil(weights).sum())
