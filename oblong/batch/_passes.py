"""Linear classifiers that are fitted to rows in files or on a cluster, in passes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from oblong._core.class_weights import class_factors
from oblong._core.progress import print_pass
from oblong._core.threads import available_threads
from oblong.batch._base import KernelClassifier
from oblong.batch._one_vs_one import pairs_of
from oblong.batch._pairwise import PairFit
from oblong.linalg.first_pass import FirstLook, Frame
from oblong.linalg.row_passes import LocalPasses, Passes, RowSource
from oblong.solvers.linear.passes.problem import PassProblem
from oblong.solvers.linear.passes.solve import first_look, solve_passes


def take_columns(estimator: Any, source: Any) -> None:
    """Keep the number and the names of the columns of a row source."""
    estimator.n_features_in_ = source.n_features
    names = getattr(source, "feature_names", None)
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    else:
        estimator.__dict__.pop("feature_names_in_", None)


class PassClassifier(KernelClassifier):
    """Base of linear classifiers that take a row source wherever they take rows.

    After such a fit there are no support vectors, but ``n_passes_`` and ``working_rows_``.
    """

    def _passes(self, source: RowSource) -> Passes:
        """Who reads the rows."""
        return LocalPasses(source, available_threads())

    def _pass_gap(self) -> float:
        """Relative gap to reach."""
        return float(self.tol)

    def _pass_frames(self, passes: Passes, seen: FirstLook) -> list[Frame | None]:
        """Coordinates of each pair of classes."""
        return [None] * len(self._problems())

    def _problems(self) -> list[tuple[int, int | None]]:
        """Positive and negative class of each problem; None stands for all other classes."""
        return list(pairs_of(len(self.classes_)))

    def _pass_form(self) -> dict[str, Any]:
        """Which problem to solve, as arguments of :class:`PassProblem`."""
        return {"spread": 1.0}

    def _fit_source(self, source: Any, y: Any, sample_weight: Any) -> None:
        if y is not None or sample_weight is not None:
            raise ValueError(
                "a row source has its own labels and weights: open it with target= and weight=, "
                "and leave y and sample_weight out"
            )
        if self.kernel != "linear":
            raise ValueError(f'a row source takes kernel="linear"; got kernel={self.kernel!r}')
        if not getattr(source, "labelled", getattr(source, "y", True) is not None):
            raise ValueError("the row source has no labels: open it with target=")
        take_columns(self, source)
        self._check_rows(None)
        passes = self._passes(source)
        form = self._pass_form()
        bounded = form.get("D") is not None or form.get("B") is not None
        seen = first_look(passes, extremes=bounded or form.get("spread", 1.0) < 1.0)
        check_classification_targets(seen.labels)
        self.classes_ = seen.labels
        self._check_classes(len(self.classes_))
        totals = np.array([moments.weight for moments in seen.moments])
        codes = np.arange(len(totals))
        factors = class_factors(self.class_weight, self.classes_, codes, totals)
        C = float(self.C) * factors
        frames = self._pass_frames(passes, seen)
        problems = []
        for (positive, negative), frame in zip(self._problems(), frames):
            rest = [k for k in codes.tolist() if k != positive] if negative is None else [negative]
            of = (*rest, positive)
            problems.append(PassProblem(of, tuple(C[list(of)]), frame=frame, **form))
        found = solve_passes(
            passes,
            problems,
            seen,
            tol=self._pass_gap(),
            max_passes=int(self.max_iter),
            threads=available_threads(),
            progress=print_pass if self.verbose else None,
        )
        fits = []
        for result, frame in zip(found, frames):
            w, b = result.coef, result.bias
            if frame is not None:
                w = frame.map @ w
                b -= float(frame.shift @ w)
            rounded = result.rounding > 0.5 * result.relative_gap * abs(result.objective)
            own = {"bias": float(b), "direction": w, "n_iter": result.n_passes, "rounded": rounded}
            fits.append(PairFit.of(result, coef=np.empty(0), **own))
        self._store_passes(fits)
        self.n_passes_ = passes.n_passes
        self.working_rows_ = np.array([result.working_rows for result in found])
        self._keep([fit.solution for fit in fits])
        self._warn_unconverged(fits)

    def _store_passes(self, fits: Sequence[PairFit]) -> None:
        """Store weights, without support vectors."""
        n_classes, d = len(self.classes_), self.n_features_in_
        self._gamma = 1.0
        self.support_ = np.empty(0, dtype=np.int32)
        self.n_support_ = np.zeros(n_classes, dtype=np.int32)
        self.support_vectors_ = np.empty((0, d))
        self.dual_coef_ = np.empty((n_classes - 1, 0))
        self._store_weights(fits)

    def _store_weights(self, fits: Sequence[PairFit]) -> None:
        self.coef_ = np.array([fit.direction for fit in fits])
        self._store_solutions(fits)
