"""What a saved object holds: for each class the numbers and shapes of its attributes.

A declaration is a kind of numbers and the sides of an array, ``"f p n"``; without sides it is one
number. A side is a whole number, a name, or ``*`` for any length. A name stands for one length
throughout an object: ``n`` for its features, ``k`` for its classes, ``p`` for its binary problems,
and any other for the length that it is first found with. The kinds are

====  ===========================================================================================
f     floating point numbers, finite, and small enough to be squared
r     floating point numbers of any size
i     whole numbers that are not negative; ``i<n`` for numbers below the length ``n``
b     truth values
a     anything
X     rows of ``f``, dense or sparse
====  ===========================================================================================

``[k] f n *`` is a list of ``k`` arrays, and ``f n?`` may also be None. An attribute that is not
declared holds whatever it does; one that is need not be there.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

# Squares of larger numbers are infinite.
LARGEST = 1e154
# Rows may be wider than this only if an array of the model is as wide, or if they are sparse; and
# sparse rows only if they have many entries.
WIDEST, _WIDEST_ROWS = 1 << 22, 1 << 24
# Rows of more columns are sparse where a loaded model is tried; of those of fewer columns, and of
# columns that steps make, a file may announce so many in all.
DENSE, MOST_DENSE = 1000, 1 << 20


class Unsound(ValueError):
    """Content that no saved model has."""


_ROWS = {"n_features_in_": "i", "feature_names_in_": "a n"}
_PROBLEMS = {
    **dict.fromkeys(("intercept_", "soft_"), "f p"),
    **dict.fromkeys(("dual_gap_", "objective_", "loo_error_", "B_", "theta_"), "r p"),
    **dict.fromkeys(("relative_margin_", "residual_", "log_evidence_", "weight_norm_"), "r p"),
    **dict.fromkeys(("effective_dim_", "r_star_"), "r p"),
    "n_iter_": "i p",
}
# By the names of classes, those of bases included.
DECLARED: dict[str, dict[str, str]] = {
    "BaseEstimator": _ROWS,
    "OnlineClassifier": {"feature_names_in_": "a *", "multilabel_": "b", "classes_": "a k"},
    # Kernel classifiers and regressors.
    "KernelExpansion": {
        **_PROBLEMS,
        "_gamma": "r",
        "classes_": "a k",
        "coef_": "f p n",
        "converged_": "b",
        "support_": "i s",
        "support_vectors_": "X s n",
        "_kernel_coef": "f p v?",
        "_kernel_vectors": "X v n",
        "universum_coef_": "f p u",
        "universum_vectors_": "X u n",
        "support_coef_": "f p s",
        "class_weight_": "f k",
    },
    "PairwiseKernelClassifier": {"n_support_": "i k", "dual_coef_": "f c s"},
    "OneVsRestMixin": {
        "dual_coef_": "f p s",
        "_directions": "f p m",
        "_pivot_coef": "f p m",
        "_roots": "[p] f m *",
        "_factors": "[p] f * m",
        "_r": "f",
    },
    "MarginRegressor": {
        "dual_coef_": "f p s",
        "n_support_": "i 1",
        "dual_gap_": "*",
        "objective_": "*",
        "n_iter_": "i",
    },
    "RelativeMarginPathClassifier": {
        "spreads": "f p",
        "dual_gap_": "r *",
        "objective_": "r *",
        "n_iter_": "i *",
        "coefs_": "f p *",
        "biases_": "f p",
    },
    "RelativeMarginPath": {
        **dict.fromkeys(("spreads", "B", "intercept"), "f p"),
        **dict.fromkeys(("objective", "dual_gap", "relative_margin"), "r p"),
        **dict.fromkeys(("coef", "outputs"), "f p N"),
        **{"theta": "r", "classes": "a 2", "n_iter": "i p", "converged": "b"},
    },
    "LinearSVC": {"classes_": "a k", "coef_": "X o n", "n_iter_": "i"},
    "CalibratedMarginClassifier": {
        "classes_": "a k",
        "fold_of_": "i N",
        "_labels": "i<k N",
        "outputs_": "f N p",
        "sigmoids_": "f p 2",
        "_sizes": "f p",
        "temperature_": "f",
        "_one_vs_one": "b",
    },
    "RelativeMarginClassifierCV": {"classes_": "a k"},
    # Ellipsoids and coordinates.
    "MinimumVolumeEllipsoid": {
        **dict.fromkeys(("_threshold", "_scale", "offset_"), "f"),
        **dict.fromkeys(("E_", "gap_", "volume_", "log_volume_", "coverage_"), "r"),
        **{"center_": "f d", "factor_": "f d r", "inverse_factor_": "f r d", "rank_": "i"},
        **{"weights_": "f *", "support_": "i *", "_n_features_out": "i", "converged_": "b"},
    },
    "KernelizedRows": {"rows": "f N d?", "shift": "f d?"},
    "KernelCoordinates": {
        **{"coordinates": "f N r", "directions": "f N r", "eigenvalues": "f r", "means": "f N"},
        "explained": "f",
    },
    "LinearMap": {"normalize": "b", "constant": "b", "span": "f d m?"},
    "PivotMap": {
        **{"normalize": "b", "constant": "b", "pivots": "i m", "rows": "X m d?"},
        **{"factor": "f m m", "shift": "f d?"},
    },
    "EllipsoidalSVMResult": {
        **{"w": "f m", "b": "f", "alpha": "f N", "q": "r N", "factor": "f * *?", "outputs": "r N"},
        **{"objective": "r", "dual_objective": "r", "gap": "r", "n_iter": "i"},
    },
    # Online learners; the rest of their arrays is for compiled loops, and checked beside them.
    "OnlineEllipsoidalState": {
        **{"w": "f o m", "mean": "f o m", "g": "f o m", "pulls": "f o", "theta": "f o"},
        **dict.fromkeys(("P", "B", "mean_B", "G"), "f o m m"),
        "averaged": "b",
    },
    "KernelState": {"factor": "f s s", "dictionary": "X m *?", "budget": "i", "tol": "f"},
    # Steps of pipelines.
    "ColumnTransformer": {"sparse_output_": "b"},
    "LabelBinarizer": {"classes_": "a k", "sparse_input_": "b"},
    "LabelEncoder": {"classes_": "a k"},
    "LogisticRegression": {"classes_": "a k", "coef_": "X o n", "intercept_": "f o"},
    "MaxAbsScaler": {"scale_": "r n", "max_abs_": "r n"},
    "MinMaxScaler": dict.fromkeys(
        ("scale_", "min_", "data_min_", "data_max_", "data_range_"), "r n"
    ),
    "MissingIndicator": {"features_": "i<n *", "_precomputed": "b"},
    "Nystroem": {
        **{"components_": "X m n", "normalization_": "f m m", "component_indices_": "i m"},
        "_n_features_out": "i",
    },
    "OneHotEncoder": {
        **{"categories_": "[n] a *", "drop_idx_": "a n?", "_drop_idx_after_grouping": "a n?"},
        **{"_n_features_outs": "[n] i", "_infrequent_enabled": "b"},
    },
    "OneVsOneClassifier": {"classes_": "a k", "estimators_": "[pairs] *"},
    "OneVsRestClassifier": {"estimators_": "[] *"},
    "OrdinalEncoder": {"categories_": "[n] a *", "_infrequent_enabled": "b"},
    "PCA": {
        **{"mean_": "f n", "components_": "f m n", "n_components_": "i"},
        **dict.fromkeys(("explained_variance_", "singular_values_"), "f m"),
    },
    "PolynomialFeatures": dict.fromkeys(
        ("_min_degree", "_max_degree", "n_output_features_", "_n_out_full"), "i"
    ),
    "PowerTransformer": {"lambdas_": "r n"},
    "QuantileTransformer": {"quantiles_": "r q n", "references_": "f q", "n_quantiles_": "i"},
    "RBFSampler": {"random_weights_": "f n m", "random_offset_": "f m", "_n_features_out": "i"},
    "RobustScaler": {"center_": "r n?", "scale_": "r n?"},
    "SimpleImputer": {"statistics_": "a n"},
    "StandardScaler": {"mean_": "r n?", "var_": "r n?", "scale_": "r n?"},
    "TruncatedSVD": {"components_": "f m n"},
    "VarianceThreshold": {"variances_": "r n"},
}


def declared(kind: type) -> dict[str, str]:
    """Declarations of a class, its own before those of its bases."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        found = DECLARED.get(base.__name__, {}) | found
    return found


class Shapes:
    """The lengths that names stand for in one object.

    Parameters
    ----------
    **known : int
        Those that are known beforehand.

    Attributes
    ----------
    wide : bool
        Whether there is an array as wide as the rows, or rows that are sparse.
    """

    def __init__(self, **known: int) -> None:
        self.lengths = known
        self.wide = False

    def check(self, value: Any, text: str, name: str) -> None:
        """Raise :class:`Unsound` if an attribute is not what is declared."""
        if text.endswith("?"):
            if value is None:
                return
            text = text[:-1]
        if text == "*":
            return
        if text.startswith("["):
            length, _, text = text[1:].partition("] ")
            if not isinstance(value, (list, tuple)) or not self._is(length, len(value)):
                raise Unsound(f"{name}: expected a list, one for each")
            for item in value:
                self.check(item, text, name)
            return
        kind, *sides = text.split()
        if not sides:
            self._check_number(value, kind, name)
        else:
            self._check_array(value, kind, sides, name)

    def _is(self, side: str, length: int) -> bool:
        if side in ("*", ""):
            return True
        return length == (int(side) if side.isdigit() else self.lengths.setdefault(side, length))

    def _check_number(self, value: Any, kind: str, name: str) -> None:
        if isinstance(value, np.generic):
            value = value.item()
        if kind == "b":
            sound = isinstance(value, bool)
        elif kind == "i":
            sound = type(value) is int and 0 <= value < 2**63
        else:
            sound = type(value) in (int, float) and (kind == "r" or abs(value) <= LARGEST)
        if not sound:
            raise Unsound(f"{name}: {_NUMBERS[kind]}")

    def _check_rows(self, value: Any, name: str) -> None:
        """Sparse rows: a product of them takes a number for each column, used or not."""
        width = value.shape[1]
        if value.format != "csr" or (width > WIDEST and not value.has_canonical_format):
            raise Unsound(f"{name}: expected rows whose entries are in order")
        if width > max(_WIDEST_ROWS, 16 * value.nnz):
            raise Unsound(f"{name}: {width:,} columns for {value.nnz:,} entries")

    def _check_array(self, value: Any, kind: str, sides: list[str], name: str) -> None:
        if sp.issparse(value) and kind == "X":
            self.wide = True
            self._check_rows(value, name)
        elif not isinstance(value, np.ndarray):
            raise Unsound(f"{name}: expected an array")
        shape = value.shape
        fits = len(shape) == len(sides) and all(map(self._is, sides, shape))
        # Without a byte in the file it may announce any width.
        if not fits or (isinstance(value, np.ndarray) and not value.size and max(shape) > WIDEST):
            raise Unsound(f"wrong shapes: {name}: {shape} does not fit {' x '.join(sides)}")
        self.wide = self.wide or ("n" in sides and 0 not in shape)
        numbers = value.data if sp.issparse(value) else value
        if kind in ("f", "X", "r"):
            if numbers.dtype.kind != "f":
                raise Unsound(f"{name}: expected floating point numbers")
            if kind != "r":
                check_finite(numbers, name)
        elif kind == "b":
            if numbers.dtype.kind != "b":
                raise Unsound(f"{name}: expected truth values")
        elif kind[0] == "i":
            bound = self.lengths[kind[2:]] if "<" in kind else None
            check_places(numbers, bound, name)


_NUMBERS = {
    "b": "expected true or false",
    "i": "expected a whole number that is not negative",
    "f": "expected a number that is neither NaN nor too large",
    "r": "expected a number",
}


def check_finite(numbers: np.ndarray, name: str, largest: float = LARGEST) -> None:
    """Require numbers that are finite and not too large; a comparison with NaN is false."""
    if numbers.size and not -largest <= numbers.min() <= numbers.max() <= largest:
        raise Unsound(f"{name} holds NaN, infinity or numbers that are too large")


def check_places(numbers: np.ndarray, bound: int | None, name: str) -> None:
    """Require whole numbers from 0 to below a bound."""
    if numbers.dtype.kind not in "iu":
        raise Unsound(f"{name}: expected whole numbers")
    if not numbers.size:
        return
    if numbers.min() < 0 or (bound is not None and numbers.max() >= bound):
        raise Unsound(f"{name}: numbers out of range")
