"""The bases of the linear learners: features and classes may appear, models may be merged."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from oblong._core.estimator import Count
from oblong._core.missing import check_present
from oblong.online._merge import merge_models
from oblong.online._one_row import OneRow
from oblong.online._parameters import Forgetting, LinearParameters
from oblong.online._rule_based import RuleClassifier
from oblong.online.growing import (
    add_class,
    add_features,
    check_size,
    checked,
    columns_of,
    structure_of,
    with_label,
)
from oblong.solvers.online.rows import Rows, plain
from oblong.solvers.online.slots import DIAGONAL, FULL, NONE, NOTHING, RANK, SINGLE
from oblong.solvers.online.state import OnlineState
from oblong.solvers.online.structures.table import row_scores
from oblong.solvers.online.units import in_rows


class LinearOnlineClassifier(LinearParameters, RuleClassifier):
    """Base of the linear learners, which take one example at a time, new features and classes."""

    _state: OnlineState
    # The one class there is so far, and its examples.
    _only: Any
    _waiting: int
    _one_row: OneRow | None = None
    _forgotten = ("_state", "_one_row", "_vocabulary", "_discovers", "_only", "_waiting")

    _takes_new_features = True
    # Whether merged models are the product of their Gaussians.
    _product: ClassVar[bool] = True
    # A model that has grown beyond has done so by mistake rather than on purpose.
    _most_bytes: ClassVar[float] = 2.0**34

    # What a learner says -------------------------------------------------------------------------

    def _structure(self, n_features: int) -> int:
        """Structure of the covariance of so many features."""
        return NONE

    def _variance(self) -> float:
        """Initial variance of a weight."""
        return 1.0

    def _new_state(self, dtype: Any, variance: float | None = None) -> OnlineState:
        task, n_classes, d = self._task(), len(self.classes_), self.n_features_in_
        outputs = {SINGLE: 1, RANK: n_classes + 1}.get(task, n_classes)
        structure = self._structure(d)
        check_size(self, structure, outputs, d)
        options = self._state_options() | {"structure": structure}
        if variance is not None:
            options["variance"] = variance
        return OnlineState.initial(self._rule(d), d, outputs, task=task, dtype=dtype, **options)

    def _state_options(self) -> dict[str, Any]:
        """What a model is made of, beside the rule and the classes."""
        return {
            "steps": self._steps(),
            "bias": float(self.fit_intercept),
            "variance": self._variance(),
            "sketch_size": getattr(self, "sketch_size", 0),
            "average": self.average,
            "calibrated": self._is_calibrated(),
            "normalize": self.normalize,
            "forgetting": float(getattr(self, "forgetting", 1.0)),
        }

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        self.__dict__.pop("_one_row", None)
        super()._partial_fit(X, y, classes, sample_weight)

    def _take_in_classes(self, y: Any, classes: Any) -> None:
        if not self.allow_new_classes or self.multilabel_:
            super()._take_in_classes(y, classes)
            return
        self._append_classes(y)
        if classes is not None:
            self._append_classes(classes)

    def _append_classes(self, y: Any) -> None:
        """Take in classes that were not declared."""
        new = np.setdiff1d(np.asarray(y), self.classes_)
        if new.size:
            self.__dict__.pop("_one_row", None)
            self._state = self._state.copy()
            for label in new:
                add_class(self, label)

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn from one example.

        Parameters
        ----------
        x : dict or ndarray of shape (n_features,)
            The example: values by feature, where new features may appear at any time and missing
            ones are zero; or all values.
        y : label
            Its class. A learner that has not seen a batch takes classes as they come.
        sample_weight : float, default=1.0
            Its weight.

        Returns
        -------
        self : object
            The learner.
        """
        # An array after an array, with all as before: every look-up counts here.
        one = self._one_row
        if (
            one is not None
            and one.quick
            and type(x) is np.ndarray
            and x.dtype is one.dtype
            and x.shape == one.shape
            and sample_weight == one.factor
            and one.state is self._state
            and one.table is one.state.table
            and x.flags.carray
            and self.__dict__.get("class_weight") is None
        ):
            try:
                one.label[0] = one.codes[y]
            except (KeyError, TypeError):
                return self._learn_one(x, y, sample_weight)
            if one.learn(x, *one.fixed) > 0:
                return self
        return self._learn_one(x, y, sample_weight)

    def _learn_one(self, x: Any, y: Any, sample_weight: float) -> Self:
        one = self._one_row or self._open(x, y)
        if one is None:
            return self
        discovers = self.__dict__.get("_discovers", False) or self.allow_new_classes
        if y not in one.codes and not discovers:
            raise ValueError(f"{y!r} is not among the classes {self.classes_.tolist()}")
        if self.__dict__.get("class_weight") is not None:
            sample_weight *= self._factor(y)
        if one.factor != sample_weight:
            sample_weight = self._one_weight(sample_weight)
        dense = not isinstance(x, dict)
        if dense:
            columns, values = one.all_columns, self._values(x)
        else:
            columns, values = self._learned_columns(x)
            one = self._one_row or self._opened(x)
        # All has been checked.
        state = self._state
        if y not in one.codes:
            add_class(self, y)
            one = self._one_row = OneRow(state, self.classes_)
        if one.state is not state or one.table is not state.table:
            one.attach(state)
        if one.factor != sample_weight:
            one.weight[0] = one.factor = sample_weight
        one.label[0] = one.codes[y]
        if one.size != len(values):
            one.span[1] = one.size = len(values)
        one.quick = dense and not one.sketched and one.dtype == np.float64
        if one.sketched:
            state.learn(Rows(values, columns, one.span, dense), one.labels, one.weight)
            return self
        if state.units.size:
            values = values.astype(np.float64, copy=False)
        values = plain(values)
        batch = (values, columns, one.span, one.order, one.labels, one.weight, dense)
        if one.learn(*batch, *one.model, NOTHING) < 0:
            raise ValueError("The example contains numbers that are too large")
        return self

    def predict_one(self, x: Any) -> Any:
        """Predict the class of one example.

        Parameters
        ----------
        x : dict or ndarray of shape (n_features,)
            The example; features that were never learned from are ignored.

        Returns
        -------
        label
            The class.
        """
        outputs = self._outputs_one(x)
        return self._only if outputs is None else self._label_of(outputs)

    def _outputs_one(self, x: Any) -> np.ndarray | None:
        """Outputs for one example; None if only one class has been seen."""
        state = self.__dict__.get("_state")
        if state is None:
            if "_only" in self.__dict__:
                return None
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet")
        columns, values = self._known_columns(x)
        values = state.divided(columns, values)
        outputs = state.work[: state.n_outputs]
        row_scores(columns, values, state.bias, state.table, outputs)
        if state.total.shape[0] and state.rounds:
            last = outputs.copy()
            row_scores(columns, values, state.bias, state.total, outputs)
            outputs = last - outputs / state.rounds
        return outputs

    def _variances_one(self, x: Any) -> np.ndarray:
        """Variances of the outputs for one example, of shape (1, n_outputs)."""
        state, (columns, values) = self._state, self._known_columns(x)
        if state.structure not in (FULL, DIAGONAL):
            spans = np.array([0, len(values)])
            row = sp.csr_array((values, columns, spans), shape=(1, state.n_features))
            row.sort_indices()
            return state.variances(row).astype(np.float64)
        places = np.concatenate([[0], columns + 1])
        z = np.concatenate([[state.bias], state.divided(columns, values)])
        if state.structure == FULL:
            found = state.covariance[:, places[:, None], places] @ z @ z
        else:
            variances = state.table[places, state.n_outputs :] * state.sigma
            most = state.initial_variance if state.forgetting < 1.0 else math.inf
            return ((z * z) @ np.minimum(variances, most))[None]
        return np.maximum(found * state.sigma, 0.0)[None]

    def _open(self, x: Any, y: Any) -> OneRow | None:
        """Make the arrays of one row, and the model if there are two classes now."""
        known = self.__dict__
        if known.get("_state") is None:
            if "_only" not in known:
                self._validate_params()
            checked(
                np.asarray([*x.values()] if isinstance(x, dict) else x, dtype=np.float64).ravel()
            )
            check_present([y])
            if "_only" not in known or self._only == y:
                # Nothing to tell apart yet; but the example counts.
                self._only, self._waiting = y, known.get("_waiting", 0) + 1
                return None
            self._declare(with_label(np.array([self._only]), y), None, False)
            self._vocabulary = {} if isinstance(x, dict) else None
            self.n_features_in_ = 0 if isinstance(x, dict) else np.shape(x)[0]
            dtype = np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64
            self._state = self._new_state(dtype)
            self._state.count(self._waiting)
            self._discovers, self.n_iter_ = True, 1
            del self._only, self._waiting
        return self._opened(x)

    def _opened(self, x: Any) -> OneRow:
        """Make the arrays of one row of a learner that has a model."""
        if self.multilabel_:
            raise ValueError("Single examples have one class; use partial_fit for label sets")
        if isinstance(x, dict):
            self._names()
        self._one_row = OneRow(self._state, self.classes_)
        return self._one_row

    def _known_columns(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Columns and values of an example; features that were never learned from are left out."""
        one = self._one_row or self._opened(x)
        if not isinstance(x, dict):
            return one.all_columns, self._values(x)
        columns, values, _ = columns_of(self._names(), x, self._state.table.dtype)
        return columns, values

    def _learned_columns(self, x: dict[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Columns and values of a dict, whose new features get new columns."""
        vocabulary, dtype = self._names(), self._state.table.dtype
        columns, values, new = columns_of(vocabulary, x, dtype)
        if new:
            self._add_names(new)
            columns, values, _ = columns_of(vocabulary, x, dtype)
        return columns, values

    def _add_names(self, names: list[Any]) -> None:
        """Give new features their columns."""
        vocabulary = self._names()
        add_features(self, len(vocabulary) + len(names))
        for name in names:
            vocabulary[name] = len(vocabulary)
        self._know(vocabulary)

    def _know(self, vocabulary: dict[Any, int]) -> None:
        """Take a vocabulary with more features than before."""
        self._vocabulary, self.n_features_in_ = vocabulary, len(vocabulary)
        if "feature_names_in_" in self.__dict__:
            names = list(vocabulary)
            if all(isinstance(name, str) for name in names):
                self.feature_names_in_ = np.array(names, dtype=object)
            else:
                del self.feature_names_in_

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        state.pop("_one_row", None)
        return state

    def merge(self, *others: Any, prior: Any = None, how: str = "product") -> Self:
        """Take in what other models of the same kind have learned from other examples.

        Parameters
        ----------
        *others : object
            Fitted learners of the same class, with the same parameters, features and classes.
            Models that learned from dicts may have other features, or have them in another
            order: features are matched by name, and count as zero where a model does not have them.
        prior : object, default=None
            The learner that all of them started from, if they did not start from nothing.
        how : {"product", "mean"}, default="product"
            What becomes of the Gaussians, see the notes: "product" for models that have learned
            from different examples, once; "mean" for models that continue to learn after a merge
            and are merged again.

        Returns
        -------
        self : object
            The merged learner.

        Notes
        -----
        With "product", Gaussian learners are multiplied: precisions ``Λ = S⁻¹`` and ``Λw`` add up,
        less all but one of the priors. This is exact in the sense that the result is the product
        of the factors that all updates contributed, for AROW and the second-order perceptron the
        ridge regression on the union of the examples updated on. It is not the model that one
        stream of all examples would give: there, other examples would have caused updates, and
        for CW, SCW and NHERD with other steps.

        If merged models continue to learn and are merged again, a product counts what they
        have in common once for each of them, unless that is the ``prior``; after a few rounds the
        covariance is gone. Merge later rounds with "mean": the mean of the natural parameters,
        weighted by the rounds.

        The ellipsoid methods, which scale the covariance, take this mean in either case; learners
        without a covariance take the weighted mean of the weights, and sigmoids of
        ``calibration`` that of their parameters. The counters add up.
        """
        if how not in ("product", "mean"):
            raise ValueError(f'how must be "product" or "mean", got {how!r}')
        self._state, vocabulary = merge_models(self, others, prior, how)
        if vocabulary is not None:
            self._know(vocabulary)
        self.__dict__.pop("_one_row", None)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class SecondOrderClassifier(LinearOnlineClassifier):
    """Base of the learners that have a covariance of a chosen structure."""

    covariance: Literal["auto", "full", "diag", "sketch"] = "auto"
    sketch_size: Count = 16

    _has_covariance = True

    def _structure(self, n_features: int) -> int:
        return structure_of(self.covariance, n_features)

    @property
    def covariance_(self) -> np.ndarray:
        """Covariance of the weights, or its diagonal if it is not full; without the intercept.

        Of shape (n_features, n_features) or (n_features,), with one more axis in front if there
        are more than two classes. With ``normalize=True`` the variance of a feature that was
        always zero is infinite. A hard rule on labels that are wrong would make it too small for
        numbers, and changes its unit by a power of four.
        """
        state = self._learned()
        full = state.structure == FULL
        units = state.units[: state.n_features + 1]
        state = in_rows(state)
        found = state.matrices()[:, 1:, 1:] if full else state.diagonal()[1:].T
        for j in np.flatnonzero(units == 0.0) - 1:
            found[:, j, j if full else ...] = math.inf
        return found[0] if state.task == SINGLE else found


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianClassifier(SecondOrderClassifier):
    """Base of the learners whose covariance is that of a Gaussian over weight vectors."""

    forgetting: Forgetting = 1.0

    _gaussian = True
