"""Progressive validation: every row is predicted before it is learned from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from oblong._core.missing import check_present, is_missing
from oblong.online.incremental import CodedRows, IncrementalLearner, copies
from oblong.solvers.online.drift import Adwin

if TYPE_CHECKING:
    from oblong.online._base import OnlineClassifier
    from oblong.online._scorers import Seen


@dataclass(frozen=True, slots=True)
class Window:
    """A window of consecutive rows: cumulative and own counts.

    Attributes
    ----------
    rows, length : int
        Rows up to the end of the window, and in it.
    total_examples, examples : int
        Examples up to the end of the window, and in it: rows, counted by their weights.
    total_mistakes, mistakes : int
        Number of misclassified examples up to the end of the window, and in it.
    scores : dict
        The metrics over the rows of the window.
    """

    rows: int
    length: int
    total_examples: int
    examples: int
    total_mistakes: int
    mistakes: int
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """Fraction of the examples of the window that were misclassified."""
        return self.mistakes / max(1, self.examples)

    @property
    def total_error(self) -> float:
        """Fraction of all examples up to the end of the window that were misclassified."""
        return self.total_mistakes / max(1, self.total_examples)


@dataclass(frozen=True)
class ProgressiveResult:
    """What progressive validation has found.

    Attributes
    ----------
    rows, examples : int
        Rows, and examples: rows, counted by their weights.
    mistakes : int
        Number of examples that were misclassified before they were learned from.
    scores : dict
        The metrics over all rows.
    windows : tuple of Window
        The windows, if there were any.
    drifts : tuple of int
        Numbers of the rows, from 1, at which the errors were found to have changed.
    """

    rows: int
    examples: int
    mistakes: int
    scores: dict[str, float]
    windows: tuple[Window, ...]
    drifts: tuple[int, ...] = ()

    @property
    def error(self) -> float:
        """Fraction of the examples that were misclassified."""
        return self.mistakes / max(1, self.examples)


def progressive_validation(
    model: OnlineClassifier | IncrementalLearner,
    rows: Iterable[Any],
    *,
    metrics: Any = None,
    window: int | None = None,
    delay: int = 0,
    drift: Any = None,
    on_window: Callable[[Window], None] | None = None,
) -> ProgressiveResult:
    """Predict every row of a stream, and then learn from it.

    The errors are those on rows never seen before, so no row has to be held out, and the error over
    windows shows how it develops.

    Parameters
    ----------
    model : OnlineClassifier
        The learner, fitted or not; it learns in place. Linear learners take classes, and features
        of dicts and sparse rows, as they come; others have to be fitted before.
    rows : iterable
        Pairs ``(X, y)`` of a batch of rows and its labels, or pairs ``(x, y)`` of a single row, an
        array or a dict of values by feature, and its label. A third entry is the weight of the row,
        or the weights of the batch. Or a reader of :mod:`oblong.streams`, or anything with
        ``__arrow_c_stream__`` whose last column is the label: tables of pyarrow, polars, pandas.
    metrics : callable, str, sequence or dict, default=None
        Metrics besides the error: functions ``metric(y_true, y_pred)`` as in
        :mod:`sklearn.metrics`, names of scikit-learn's scorers, or scorers. A dict names them.
        They take memory for the predictions of all rows; the error alone takes none.
    window : int, default=None
        Rows of a window; None for no windows.
    delay : int, default=0
        Rows that are predicted between the prediction of a row and the arrival of its label. The
        labels of the last rows arrive at the end.
    drift : {"adwin"} or detector, default=None
        Look for drift in the errors: ``"adwin"`` finds where they have grown, by adaptive windowing
        with the parameters of River's ``drift.ADWIN``. Or any detector of River, of which each
        alarm counts.
    on_window : callable, default=None
        Called with every :class:`Window` as it ends.

    Returns
    -------
    ProgressiveResult
        Counts, metrics, windows and drifts.

    Notes
    -----
    A row of a class that was not known counts as a mistake, and so does one whose output is exactly
    zero, or equal for two classes. Without metrics, delay and drift, rows are counted by the
    learner itself, which takes no time beyond learning; otherwise they are predicted one by one.
    Rows before the first label have no prediction: they count in the error, and not in the metrics.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import balanced_accuracy_score
    >>> from oblong import AROWClassifier
    >>> from oblong.online import progressive_validation
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=1000) > 0
    >>> found = progressive_validation(AROWClassifier(), [(X, y)], window=500)
    >>> [round(window.error, 3) for window in found.windows]
    [0.032, 0.034]
    >>> found = progressive_validation(
    ...     AROWClassifier(), zip(X, y), delay=100, metrics=balanced_accuracy_score
    ... )
    >>> round(found.scores["balanced_accuracy_score"], 2)
    0.97
    """
    detect = _detection(drift)
    _check_count("delay", delay, 0)
    if window is not None:
        _check_count("window", window, 1)
    if isinstance(model, IncrementalLearner):
        learner = model
    else:
        # Here, since a stream of rows may need none of scikit-learn.
        from oblong.online._base import OnlineClassifier

        if not isinstance(model, OnlineClassifier):
            raise TypeError(f"expected an online learner of oblong, got {type(model).__name__}")
        model._validate_params()
        learner = IncrementalLearner(model)
    scorers: dict[str, Callable[..., float]] = {}
    if metrics is not None:
        from oblong.online._scorers import named

        scorers = named(metrics)
    one_by_one = scorers or delay or detect or learner.model._is_calibrated()
    run: _Run
    if hasattr(learner.model, "n_outputs") and not scorers:
        run = _DelayedRun(learner, int(delay)) if delay else _Run(learner)
    else:
        run = _SlowRun(learner, scorers, int(delay), detect) if one_by_one else _Run(learner)
    windows: list[Window] = []

    def end_window() -> None:
        windows.append(run.window())
        if on_window is not None:
            on_window(windows[-1])

    for item in _batches(rows):
        for part in _cut(item, learner, window):
            run.take(part)
            if window is not None and learner.rows % window == 0:
                end_window()
    run.finish()
    if window is not None and learner.rows > run.last[0]:
        end_window()
    counts = (learner.rows, learner.examples, run.mistakes)
    return ProgressiveResult(*counts, run.scores(), tuple(windows), tuple(run.drifts))


def _detection(drift: Any) -> Callable[[bool], bool] | None:
    """A function that is told whether a row was misclassified, and says whether that is drift."""
    if drift is None:
        return None
    if drift == "adwin":
        adwin = Adwin()
        return lambda wrong: adwin.feed(np.array([wrong])).size > 0
    if not hasattr(drift, "update") or not hasattr(drift, "drift_detected"):
        raise ValueError(f"drift must be 'adwin' or a detector of River, got {drift!r}")

    def detect(wrong: bool) -> bool:
        drift.update(int(wrong))
        return bool(drift.drift_detected)

    return detect


def _check_count(name: str, value: Any, least: int) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


# Rows ---------------------------------------------------------------------------------------------


def _batches(rows: Any) -> Iterable[Any]:
    """Batches of a reader, or of an Arrow stream; else the rows themselves."""
    if hasattr(rows, "__arrow_c_stream__"):
        from oblong.io.arrow import ArrowReader

        rows = ArrowReader(rows)
    if not hasattr(rows, "spellings"):
        return rows
    width = rows.n_columns
    return (CodedRows(b.matrix(width or b.width), b.codes, rows.labels, b.weights) for b in rows)


def _cut(item: Any, learner: IncrementalLearner, window: int | None) -> Iterator[Any]:
    """A single row as it is, and a batch in pieces that end where windows do."""
    if not isinstance(item, CodedRows):
        if not isinstance(item, tuple) or not 2 <= len(item) <= 3:
            raise TypeError("expected pairs (x, y) of rows and labels, or triples with weights")
        x, y, weight = item if len(item) == 3 else (*item, None)
        if isinstance(x, Mapping) or (not hasattr(x, "indptr") and np.ndim(x) == 1):
            if is_missing(y):
                raise ValueError(f"the label of row {learner.rows} is missing: {y!r}")
            yield x, y, 1.0 if weight is None else float(weight)
            return
        item = _coded(x, y, weight)
    start, n = 0, len(item.codes)
    while start < n:
        stop = n if window is None else min(n, start + window - learner.rows % window)
        yield item if (start, stop) == (0, n) else item.part(start, stop)
        start = stop


def _coded(X: Any, y: Any, weights: Any) -> CodedRows:
    """A batch with its labels as numbers."""
    check_present(y)
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError("y must contain one label per row")
    X = X.tocsr() if hasattr(X, "tocsr") else X if hasattr(X, "iloc") else np.asarray(X)
    if X.ndim != 2 or X.shape[0] != len(y):
        raise ValueError(f"X has the shape {X.shape}, but y has {len(y)} labels")
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != y.shape or not (np.isfinite(weights) & (weights >= 0.0)).all():
            raise ValueError("weights must be finite numbers, not negative, one per row")
    labels, codes = np.unique(y, return_inverse=True)
    return CodedRows(X, codes, labels.tolist(), weights)


# Runs ---------------------------------------------------------------------------------------------


class _Run:
    """Rows that the learner itself predicts and counts."""

    def __init__(self, learner: IncrementalLearner) -> None:
        self.learner = learner
        self.last = (learner.rows, learner.examples, self.mistakes)
        self.late: deque[Any] = learner.late
        self.drifts: list[int] = []

    @property
    def mistakes(self) -> int:
        """Number of examples misclassified so far."""
        return self.learner.mistakes

    def take(self, part: Any) -> None:
        """Take a batch, or a single row with its label and weight."""
        if isinstance(part, CodedRows):
            (self.learner.test if self.learner.frozen else self.learner.learn)(*part)
        else:
            self.learner.learn_one(*part)

    def finish(self) -> None:
        """Learn from the rows whose labels have not come yet."""
        while self.late:
            self.learn_late(self.late.popleft())

    def learn_late(self, row: Any) -> None:
        """Learn from a single row that was predicted and counted before."""
        self.learner.learn_late(*row)

    def window(self) -> Window:
        """End a window."""
        now = (self.learner.rows, self.learner.examples, self.mistakes)
        rows, examples, mistakes = (a - b for a, b in zip(now, self.last))
        self.last = now
        scores = self.window_scores()
        return Window(now[0], rows, now[1], examples, now[2], mistakes, scores)

    def window_scores(self) -> dict[str, float]:
        """Metrics over the rows of the window."""
        return {}

    def scores(self) -> dict[str, float]:
        """Metrics over all rows."""
        return {}


class _DelayedRun(_Run):
    """Rows of a plain learner whose labels come late."""

    def __init__(self, learner: IncrementalLearner, delay: int) -> None:
        super().__init__(learner)
        self.delay = delay

    def take(self, part: Any) -> None:
        for i in range(len(part.codes)):
            one = part.part(i, i + 1)
            self.learner.test(*one)
            self.late.append(one)
            if len(self.late) > self.delay:
                self.learn_late(self.late.popleft())


class _SlowRun(_Run):
    """Rows that are predicted one by one, for metrics and for labels that come late."""

    def __init__(
        self,
        learner: IncrementalLearner,
        scorers: dict[str, Callable[..., float]],
        delay: int,
        detect: Callable[[bool], bool] | None,
    ) -> None:
        self.wrong = learner.mistakes
        super().__init__(learner)
        self.scorers, self.delay, self.detect = scorers, delay, detect
        self.late = deque()
        self.responds = any(hasattr(scorer, "_score_func") for scorer in scorers.values())
        self.seen: list[Seen] = []
        self.start = 0

    @property
    def mistakes(self) -> int:
        return self.wrong

    def take(self, part: Any) -> None:
        if isinstance(part, CodedRows):
            for single in part.singles():
                self._take(*single)
        else:
            self._take(*part)

    def _take(self, x: Any, y: Any, weight: float) -> None:
        learner = self.learner
        learner.rows += 1
        if weight > 0.0:
            self._predict(x, y, weight)
            # A row that comes late is the next but `delay` to be learned from.
            self.late.append((x, y, weight))
        while len(self.late) > self.delay:
            self.learn_late(self.late.popleft())

    def learn_late(self, row: Any) -> None:
        self.learner.learn_one(*row, count=False)

    def _predict(self, x: Any, y: Any, weight: float) -> None:
        label, tie = self.learner.predict_one(x)
        times = copies(np.array([weight]))
        self.learner.examples += times
        wrong = tie or label is None or label != y
        self.wrong += times * wrong
        if self.detect is not None and self.detect(wrong):
            self.drifts.append(self.learner.rows)
        if self.scorers and label is not None:
            from oblong.online._rule_based import has_probabilities
            from oblong.online._scorers import Seen

            decisions = probabilities = classes = None
            if self.responds and self.learner.started:
                model, row = self.learner.model, self.learner.row_of(x)
                classes, decisions = model.classes_, model.decision_function(row)[0]
                if has_probabilities(model):
                    probabilities = model.predict_proba(row)[0]
            self.seen.append(Seen(y, label, weight, classes, decisions, probabilities))

    def window_scores(self) -> dict[str, float]:
        start, self.start = self.start, len(self.seen)
        return self._scores(self.seen[start:])

    def scores(self) -> dict[str, float]:
        return self._scores(self.seen)

    def _scores(self, seen: list[Seen]) -> dict[str, float]:
        from oblong.online._scorers import FixedResponses, is_function

        if not seen:
            return dict.fromkeys(self.scorers, float("nan"))
        truth, found = np.array([s.truth for s in seen]), np.array([s.label for s in seen])
        weights = np.array([s.weight for s in seen])
        options = {} if (weights == 1.0).all() else {"sample_weight": weights}
        answers = {}
        for name, scorer in self.scorers.items():
            if is_function(scorer):
                answers[name] = float(scorer(truth, found, **options))
            else:
                fixed = FixedResponses(self.learner.model.classes_, seen)
                answers[name] = float(scorer(fixed, np.zeros((len(seen), 1)), truth, **options))
        return answers
