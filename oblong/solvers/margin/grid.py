"""Many margin problems over one kernel matrix in memory.

A *group* is rows of the matrix with their terms: a pair of classes, the rows to train on of a
fold, one quantile. Every group has the same *variants*: penalties, bounds, spreads, tubes, rows
left out. One compiled loop goes through them, each from a solution nearby, and certifies every
solution in double precision. What pair steps and Newton steps do not solve gets an interior point
method on the same matrix; a group that is too large for a matrix in memory is solved by working
sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf as potrf

from oblong._core.progress import Progress, ProgressCallback
from oblong._core.threads import own_threads_only, run_chunks
from oblong._native import margin as native
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.grid_matrix import WHOLE, GridMatrix
from oblong.solvers.margin.interior_point import interior_point
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.result import MarginResult
from oblong.solvers.margin.working_sets import solve_large

NO_LIMIT = np.iinfo(np.int64).max
# Names of the numbers in the status of a solution.
STATUS = ("converged", "max_iter", "stalled", "unsolved")
UNSOLVED = STATUS.index("unsolved")
# Tolerance below which kernel values are in double precision.
_FINE = 1e-5
# What is wanted of a variant: it is given, its largest output, or its solution.
GIVEN, LARGEST, SOLUTION = range(3)

# The structs of grid.hpp and problem.hpp.
VARIANT = np.dtype(
    [(name, "f8") for name in ("penalty", "bound", "spread", "epsilon", "tol")]
    + [(name, "i8") for name in ("reference", "start", "other_start", "without", "wanted")]
)
_VALUES = (
    "bias", "bias2", "scale", "objective", "dual_objective", "rounding", "violation", "bound",
    "theta", "largest",
)  # fmt: skip
SOLUTION_VALUES = np.dtype(
    [(name, "f8") for name in _VALUES]
    + [(name, "i8") for name in ("n_iter", "n_newton", "status", "source")]
)


class Groups(NamedTuple):
    """The groups of a grid, one after the other.

    Attributes
    ----------
    ends : int ndarray of shape (n_groups + 1,)
        Where the rows of each group begin, and where those of the last one end.
    members : int ndarray of shape (n_rows,)
        Rows by index.
    pieces : Pieces
        Their terms for a penalty of one.
    folds : int ndarray of shape (n_rows,)
        Which fold each row belongs to.
    splits : int ndarray of shape (n_groups,)
        Number of rows of the first sum of each group: of all of them where there is one sum.
    sums : ndarray of shape (n_groups, 2)
        Sums of the coefficients before the split and behind it.
    """

    ends: np.ndarray
    members: np.ndarray
    pieces: Pieces
    folds: np.ndarray
    splits: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(
        cls, members: Sequence[np.ndarray], pieces: Pieces, folds: np.ndarray | None = None
    ) -> Groups:
        """Groups whose coefficients sum to zero; ``pieces`` are those of all rows in a row."""
        sizes = np.array([len(rows) for rows in members], dtype=np.int64)
        flat = np.concatenate(members).astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        folds = np.zeros(flat.size, dtype=np.int64) if folds is None else folds.astype(np.int64)
        return cls(ends, flat, pieces, folds, sizes, np.zeros((len(sizes), 2)))

    @property
    def n_groups(self) -> int:
        """How many there are."""
        return len(self.splits)

    def part(self, g: int) -> slice:
        """Where the rows of a group are among all."""
        return slice(int(self.ends[g]), int(self.ends[g + 1]))

    def one(self, g: int, pieces: Pieces | None = None) -> Groups:
        """A group alone, its members counted from zero, perhaps with other terms."""
        part = self.part(g)
        size = part.stop - part.start
        return Groups(
            np.array([0, size]),
            np.arange(size),
            self.pieces.take(part) if pieces is None else pieces,
            self.folds[part],
            self.splits[g : g + 1],
            self.sums[g : g + 1],
        )

    def native(self) -> tuple:
        """What the compiled loop takes."""
        pieces = (np.ascontiguousarray(part) for part in self.pieces)
        return (self.ends, self.members, self.folds, *pieces, self.splits, self.sums)


def variants_of(
    penalties: Sequence[float] | np.ndarray = (1.0,),
    *,
    tol: float,
    bounds: Sequence[float] = (np.inf,),
    spreads: Sequence[float] | np.ndarray | None = None,
    epsilons: Sequence[float] | np.ndarray = (np.nan,),
) -> np.ndarray:
    """Variants for every penalty: bounds, or a support vector machine and then spreads; tubes.

    Penalties ascend. Each variant starts from the one before of its penalty, or from the same one
    of the smaller penalty.
    """
    if spreads is not None and len(epsilons) > 1:
        raise ValueError("spreads and epsilons cannot be combined")
    per = len(epsilons) * (len(bounds) if spreads is None else 1 + len(spreads))
    out = np.zeros(len(penalties) * per, dtype=VARIANT)
    out["penalty"] = np.repeat(np.asarray(penalties, dtype=np.float64), per)
    out["tol"], out["bound"], out["spread"], out["wanted"] = tol, np.inf, np.nan, SOLUTION
    for name in ("reference", "without"):
        out[name] = -1
    index = np.arange(len(out))
    out["start"] = np.where(index % per > 0, index - 1, -1)
    out["other_start"] = np.where(index >= per, index - per, -1)
    if spreads is None:
        out["bound"] = np.tile(np.repeat(np.asarray(bounds), len(epsilons)), len(penalties))
    else:
        svm = index % per == 0
        out["reference"] = np.where(svm, -1, index - index % per)
        out["spread"][~svm] = np.tile(np.asarray(spreads, dtype=np.float64), len(penalties))
        if len(spreads) and max(spreads) < 1.0:
            out["wanted"][svm] = LARGEST
    out["epsilon"] = np.tile(np.asarray(epsilons, dtype=np.float64), len(out) // len(epsilons))
    only = out["start"] < 0
    out["start"][only], out["other_start"][only] = out["other_start"][only], -1
    return out


def without_folds(folds: np.ndarray, *, tol: float) -> np.ndarray:
    """Variants that leave out folds; the first one is the given solution with all rows."""
    out = np.zeros(1 + len(folds), dtype=VARIANT)
    out["penalty"], out["bound"], out["spread"], out["epsilon"] = 1.0, np.inf, np.nan, np.nan
    out["tol"], out["wanted"] = tol, SOLUTION
    for name in ("reference", "start", "other_start", "without"):
        out[name] = -1
    out["wanted"][0] = GIVEN
    out["start"][1:], out["without"][1:] = 0, folds
    return out


@dataclass(frozen=True)
class GridResult:
    """Solutions of all variants of all groups.

    Attributes
    ----------
    groups, variants : Groups, structured ndarray
        The problems.
    coefs, images : list of ndarray of shape (n_variants, n_rows of the group)
        Coefficients of the dual points, and their images. The model is ``scale`` times these.
    values : structured ndarray of shape (n_groups, n_variants)
        Certificates: bias, scale, objective, dual_objective, rounding, violation, bound, theta,
        largest, n_iter, n_newton, status, source.
    weights : ndarray of shape (n_groups, n_variants, d)
        Weight vectors of the models, for a linear kernel; without columns for others.
    bias : ndarray of shape (n_groups, n_variants)
        Biases for the rows as they were given: those of a linear kernel are shifted.
    """

    groups: Groups
    variants: np.ndarray
    coefs: list[np.ndarray]
    images: list[np.ndarray]
    values: np.ndarray
    weights: np.ndarray
    bias: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """Primal minus dual objective, rounding included."""
        values = self.values
        return np.maximum(values["objective"] - values["dual_objective"], 0.0) + values["rounding"]

    @property
    def relative_gap(self) -> np.ndarray:
        """The gap over the primal objective."""
        return self.gap / np.maximum(np.abs(self.values["objective"]), np.finfo(float).tiny)

    @property
    def rounded(self) -> np.ndarray:
        """Where most of the gap is rounding."""
        return self.values["rounding"] > 0.5 * self.gap


# Products and kernel values have threads of their own; only large factors release those of BLAS.
@own_threads_only()
def solve_grid(
    columns: KernelMatrix,
    groups: Groups,
    variants: np.ndarray,
    *,
    promise: float = np.inf,
    max_iter: int = -1,
    starts: np.ndarray | None = None,
    start_images: np.ndarray | None = None,
    polish: bool = False,
    threads: int = 1,
    progress: ProgressCallback | None = None,
    stage: str = "margin",
    options: MarginOptions = DEFAULTS,
) -> GridResult:
    """Solve all variants of all groups.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix of all rows.
    groups : Groups
        The groups.
    variants : structured ndarray of shape (n_variants,)
        What :func:`variants_of` or :func:`without_folds` makes.
    promise : float, default=inf
        Relative duality gap that every solution is to prove. By default the tolerance is enough.
    max_iter : int, default=-1
        Limit on the pair steps of each problem; -1 for none.
    starts : ndarray of shape (n_rows,), default=None
        Coefficients of the first variant of all groups.
    start_images : ndarray of shape (n_rows,), default=None
        Their images, if known.
    polish : bool, default=False
        Whether solutions end with Newton steps, which make them exact as a rule.
    threads : int, default=1
        Threads, which share the groups among them.
    progress : callable, default=None
        Called with a :class:`~oblong._core.progress.Progress` after each group.
    stage : str, default="margin"
        Name of these problems in the reports.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    GridResult
        The solutions.

    Raises
    ------
    ValueError
        If the matrix has values that are not finite, or proves to be indefinite while a bound on
        the outputs needs that it is not.
    """
    m, total = len(variants), groups.members.size
    largest = int(np.diff(groups.ends).max())
    centred = not groups.sums.any()
    if largest > WHOLE and not (centred and (groups.splits == np.diff(groups.ends)).all()):
        raise ValueError(
            f"groups of more than {WHOLE} rows have coefficients that sum to zero, all together"
        )
    fine = float(variants["tol"].min()) < _FINE
    matrix = GridMatrix.of(columns, largest, largest < columns.n, centred, fine)
    grid = _Grid(
        matrix,
        groups,
        variants,
        float(promise),
        NO_LIMIT if max_iter < 0 else max_iter,
        bool(polish),
        np.zeros(m * total),
        np.zeros(m * total),
        np.zeros((groups.n_groups, m), dtype=SOLUTION_VALUES),
        np.zeros((groups.n_groups, m, matrix.columns)),
        np.zeros(groups.n_groups, dtype=np.int64),
        options,
        progress,
        {},
    )
    if starts is not None:
        for g in range(groups.n_groups):
            part, (coefs, images) = groups.part(g), grid.arrays(g)
            coefs[0] = starts[part]
            if start_images is not None:
                images[0] = start_images[part]
            elif part.stop - part.start <= WHOLE:
                images[0] = matrix.image(groups.members[part], coefs[0])

    def work(first: int, last: int) -> None:
        grid.run(first, last)
        for g in range(first, last):
            while grid.next[g] < m:
                grid.careful(g)
                grid.run(g, g + 1)
            if progress is not None:
                values = grid.values[g]
                steps, violation = int(values["n_iter"].sum()), float(values["violation"].max())
                progress(Progress(stage, steps, violation, float(variants["tol"].min())))

    share = max(1, -(-groups.n_groups // (4 * threads))) if threads > 1 else groups.n_groups
    run_chunks(work, groups.n_groups, share, threads)
    every = [grid.arrays(g) for g in range(groups.n_groups)]
    return grid.result([pair[0] for pair in every], [pair[1] for pair in every])


class _Grid(NamedTuple):
    """The arrays of a grid that is being solved."""

    matrix: GridMatrix
    groups: Groups
    variants: np.ndarray
    promise: float
    steps: int
    polish: bool
    coefs: np.ndarray
    images: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    next: np.ndarray
    options: MarginOptions
    progress: ProgressCallback | None
    # Columns of the groups that are too large to be held whole.
    large: dict[int, KernelMatrix]

    def arrays(self, g: int) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and images of the variants of a group."""
        m, part = len(self.variants), self.groups.part(g)
        both = (flat[m * part.start : m * part.stop] for flat in (self.coefs, self.images))
        coefs, images = (flat.reshape(m, -1) for flat in both)
        return coefs, images

    def run(self, first: int, last: int) -> None:
        """Go on with some groups in the compiled loop."""
        native.solve_groups(
            self.matrix.single, self.matrix.source, self.groups.native(), self.variants,
            self.promise, self.steps, self.polish,
            (self.coefs, self.images, self.values, self.weights, self.next), first, last,
        )  # fmt: skip

    def careful(self, g: int) -> None:
        """Solve the variant that a group has come to by an interior point method, in double."""
        k = int(self.next[g])
        if self.groups.part(g).stop - self.groups.part(g).start > WHOLE:
            self.by_working_sets(g, k)
            return
        part, (coefs, images), values = self.groups.part(g), self.arrays(g), self.values[g]
        pieces = self.terms(g, k)
        matrix = self.matrix.whole(self.groups.members[part])
        spent, found = int(values["n_iter"][k]), None
        zero = np.zeros(len(coefs[k]))
        start = coefs[k] if _possible(pieces, coefs[k], images[k], self.groups.sums[g]) else zero
        # An interior point method keeps the sum of all rows, not that of each group.
        one_sum = self.groups.splits[g] == len(coefs[k])
        for inside in (False, True) if one_sum else (False,):
            if inside:
                tol = float(self.variants["tol"][k])
                start = _from_inside(matrix, pieces, start, tol, self.options)
            found = self.alone(g, k, matrix, pieces, start, spent)
            spent += int(found.values["n_iter"][0, 0])
            status = int(found.values["status"][0, 0])
            if _possible(pieces, found.coefs[0][0], found.images[0][0], self.groups.sums[g]):
                start = found.coefs[0][0]
            elif status == UNSOLVED:
                check_maximum(matrix, pieces, found.coefs[0][0], found.images[0][0])
            if status != UNSOLVED:
                break
        assert found is not None
        if found.values["status"][0, 0] == UNSOLVED:
            # Its values as they are: no step is taken, and the certificate says how far it is.
            limited = self._replace(steps=0)
            found = limited.alone(g, k, matrix, pieces, start, 0)
            found.values["status"] = STATUS.index("stalled")
        own = values[k].copy()
        values[k] = found.values[0, 0]
        for name in ("bound", "theta"):
            values[name][k] = own[name]
        if self.matrix.shift is None:
            values["bias"][k] = found.bias[0, 0]
        values["n_iter"][k], values["source"][k] = spent, k
        coefs[k], images[k] = found.coefs[0][0], found.images[0][0]
        if self.weights.size:
            self.weights[g, k] = found.weights[0, 0]
        self.next[g] += 1

    def by_working_sets(self, g: int, k: int) -> None:
        """Solve a variant of a group whose matrix is too large to be held."""
        members, (coefs, images), values = (
            self.groups.members[self.groups.part(g)], self.arrays(g), self.values[g],
        )  # fmt: skip
        large = self.large
        if g not in large:
            large[g] = self.matrix.large
            if members.size < self.matrix.n or (np.diff(members) != 1).any():
                large[g] = self.matrix.large.restricted(members)
        variant = self.variants[k]
        started, known = coefs[k].any(), variant["start"] >= 0 or images[k].any()
        wanted = int(variant["wanted"])
        result = solve_large(
            large[g],
            self.terms(g, k),
            tol=float(variant["tol"]),
            max_iter=-1 if self.steps == NO_LIMIT else self.steps,
            start=coefs[k] if started else None,
            start_image=images[k] if started and known else None,
            polish=self.promise < np.inf,
            proof=wanted == SOLUTION,
            progress=self.progress,
            options=self.options,
        )
        coefs[k], images[k] = result.dual_coef, result.image
        bias = result.bias
        bias -= large[g].offset(result.coef, result.direction)
        if result.direction is not None and self.weights.size:
            self.weights[g, k] = result.direction
            bias += (
                0.0 if self.matrix.shift is None else float(result.direction @ self.matrix.shift)
            )
        for name, value in (
            ("bias", bias), ("scale", result.scale), ("objective", result.objective),
            ("dual_objective", result.dual_objective), ("rounding", result.rounding),
            ("violation", result.violation), ("largest", np.abs(result.outputs).max()),
            ("n_iter", result.n_iter), ("n_newton", result.n_newton),
            ("status", STATUS.index(result.status)), ("source", k),
        ):  # fmt: skip
            values[name][k] = value
        self.next[g] += 1

    def alone(
        self,
        g: int,
        k: int,
        matrix: GridMatrix,
        pieces: Pieces,
        start: np.ndarray | None,
        spent: int,
    ) -> GridResult:
        """Solve one variant of a group on a matrix of its own."""
        variant = variants_of(tol=float(self.variants["tol"][k]))
        variant["wanted"] = self.variants["wanted"][k]
        one = _Grid(
            matrix, self.groups.one(g, pieces), variant, self.promise, max(0, self.steps - spent),
            self.polish, np.zeros(len(pieces.slopes)), np.zeros(len(pieces.slopes)),
            np.zeros((1, 1), dtype=SOLUTION_VALUES), np.zeros((1, 1, matrix.columns)),
            np.zeros(1, dtype=np.int64), self.options, None, {},
        )  # fmt: skip
        if start is not None:
            one.coefs[:] = start
            one.images[:] = matrix.image(one.groups.members, start)
        one.run(0, 1)
        return one.result([one.coefs[None]], [one.images[None]])

    def result(self, coefs: list[np.ndarray], images: list[np.ndarray]) -> GridResult:
        """Put the solutions together."""
        members = [self.groups.members[self.groups.part(g)] for g in range(self.groups.n_groups)]
        weights = self.matrix.weights_of(members, self.values["scale"], coefs, self.weights)
        bias, shift = self.values["bias"], self.matrix.shift
        if shift is not None:
            bias = bias - weights @ shift
        return GridResult(self.groups, self.variants, coefs, images, self.values, weights, bias)

    def terms(self, g: int, k: int) -> Pieces:
        """Terms of a variant of a group."""
        return terms_of(self.groups, g, self.variants[k : k + 1], float(self.values["bound"][g, k]))


def terms_of(groups: Groups, g: int, variant: np.ndarray, bound: float) -> Pieces:
    """Terms of a group for one variant, which has a bound."""
    size = groups.part(g).stop - groups.part(g).start
    pieces = Pieces(np.empty((size, 4)), np.empty((size, 3)))
    native.write_terms(groups.native(), g, variant, bound, *pieces)
    return pieces


def _from_inside(
    matrix: GridMatrix, pieces: Pieces, c: np.ndarray, tol: float, options: MarginOptions
) -> np.ndarray:
    """Coefficients of the interior point method, if they are better than those at hand."""
    K = matrix.values if matrix.definite else _raised(matrix)
    with np.errstate(all="ignore"):
        u = K @ c
        found = interior_point(K, pieces, c, u, 0.1 * tol, options)
        if found is None:
            return c
        coef, _ = found
        better = pieces.dual(coef, K @ coef) >= pieces.dual(c, u)
    return coef if better else c


def _possible(pieces: Pieces, c: np.ndarray, u: np.ndarray, sums: np.ndarray) -> bool:
    """Whether a point is one that an ascent can reach: no dual is above what outputs of zero cost.

    Rounding makes the matrix of rows that nearly repeat each other indefinite, and steps without a
    bound run away along its negative directions.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        dual, ceiling = pieces.dual(c, u), float(pieces.loss(np.zeros(len(c))).sum())
        floor = -np.inf if sums.any() else -1e-6 * ceiling
        return bool(floor <= dual <= ceiling * (1.0 + 1e-6) and np.isfinite(u).all())


def check_maximum(matrix: GridMatrix, pieces: Pieces, c: np.ndarray, u: np.ndarray) -> None:
    """Raise if a problem has no maximum: the dual is above what outputs of zero cost.

    Raises
    ------
    ValueError
        If so, or if the matrix has values that are not finite.
    """
    if not np.isfinite(matrix.values).all():
        raise ValueError("the kernel matrix has values that are not finite: scale the data")
    with np.errstate(over="ignore", invalid="ignore"):
        quadratic = float(c @ u)
        endless = not np.isfinite(quadratic)
        if not matrix.definite and pieces.bounded:
            ceiling = float(pieces.loss(np.zeros(len(c))).sum())
            # Negative by more than rounding.
            negative = quadratic < -1e-6 * float(np.abs(c) @ np.abs(u))
            endless |= negative and pieces.dual(c, u) > ceiling * (1.0 + 1e-6)
    if (
        endless
        and not matrix.definite
        and pieces.bounded
        and not _definite_but_for_rounding(matrix)
    ):
        raise ValueError(
            "the kernel matrix is not positive semidefinite, so the bounded problem has no "
            "solution: use another kernel, or no bound"
        )


def _raised(matrix: GridMatrix) -> np.ndarray:
    """A matrix that is given, raised on its diagonal by what rounding can lower its eigenvalues."""
    K = matrix.values.astype(np.float64)
    unit = max(np.finfo(float).eps, matrix.source[-1])
    K[np.diag_indices(len(K))] += 4.0 * np.sqrt(len(K)) * unit * float(np.abs(K.diagonal()).max())
    return K


def _definite_but_for_rounding(matrix: GridMatrix) -> bool:
    """Whether no eigenvalue of a matrix is negative by more than rounding."""
    return bool(potrf(_raised(matrix), lower=1, overwrite_a=1)[1] == 0)


def single(result: GridResult, g: int = 0, k: int = -1) -> MarginResult:
    """One problem of a grid as a result of its own."""
    values, scale = result.values[g, k], float(result.values["scale"][g, k])
    coef, image, bias = result.coefs[g][k], result.images[g][k], float(values["bias"])
    variant = result.variants[[k]]
    right, left = terms_of(result.groups, g, variant, float(values["bound"])).slopes_at(coef)
    return MarginResult(
        coef=scale * coef,
        bias=bias,
        outputs=scale * image + bias,
        dual_coef=coef,
        image=image,
        scale=scale,
        bias_interval=(float((right - image).max()), float((left - image).min())),
        objective=float(values["objective"]),
        dual_objective=float(values["dual_objective"]),
        rounding=float(values["rounding"]),
        violation=float(values["violation"]),
        n_iter=int(values["n_iter"]),
        n_newton=int(values["n_newton"]),
        n_rounds=1,
        status=STATUS[int(values["status"])],
        direction=result.weights[g, k] if result.weights.size else None,
    )
