"""The types that a model file may hold: a fixed list, by names that do not move with files."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GroupKFold,
    KFold,
    LeaveOneOut,
    StratifiedKFold,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    LabelBinarizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC

import oblong.batch
import oblong.geometry
import oblong.online
import oblong.svm
from oblong.batch.margin_path import RelativeMarginPathClassifier
from oblong.geometry._kernel_rows import KernelizedRows
from oblong.kernels import Kernel
from oblong.linalg.feature_map import LinearMap, PivotMap
from oblong.linalg.kernel_coordinates import KernelCoordinates
from oblong.solvers.esvm.online.state import OnlineEllipsoidalState
from oblong.solvers.esvm.solve import EllipsoidalSVMResult
from oblong.solvers.online.kernel import KernelState
from oblong.solvers.online.state import OnlineState

__all__ = ["is_record", "known_types", "name_of"]

# What stands around a classifier in a pipeline, and the folds that it may be given. Trees and
# neighbours are not here: they are objects of compiled code whose memory a file could corrupt.
_AROUND = (
    Binarizer,
    ColumnTransformer,
    FeatureUnion,
    GroupKFold,
    FixedThresholdClassifier,
    HashingVectorizer,
    KFold,
    LabelBinarizer,
    LabelEncoder,
    LeaveOneOut,
    LinearSVC,
    LogisticRegression,
    MaxAbsScaler,
    MinMaxScaler,
    MissingIndicator,
    Normalizer,
    Nystroem,
    OneHotEncoder,
    OneVsOneClassifier,
    OneVsRestClassifier,
    OrdinalEncoder,
    PCA,
    Pipeline,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RBFSampler,
    RobustScaler,
    SVC,
    SimpleImputer,
    StandardScaler,
    StratifiedKFold,
    TruncatedSVD,
    VarianceThreshold,
)
# What estimators keep inside.
_INSIDE = (
    EllipsoidalSVMResult,
    Kernel,
    KernelCoordinates,
    KernelState,
    KernelizedRows,
    LinearMap,
    OnlineEllipsoidalState,
    OnlineState,
    PivotMap,
    RelativeMarginPathClassifier,
)


@cache
def known_types() -> dict[str, type]:
    """Types by their names in a file."""
    own = [
        value
        for package in (oblong.batch, oblong.geometry, oblong.online, oblong.svm)
        for value in (getattr(package, name) for name in package.__all__)
        if isinstance(value, type) and (issubclass(value, BaseEstimator) or is_dataclass(value))
    ]
    return {name_of(known): known for known in (*own, *_INSIDE, *_AROUND)}


def name_of(known: type) -> str:
    """How a file names a type: its package and its own name."""
    return f"{known.__module__.partition('.')[0]}.{known.__name__}"


def is_record(known: type) -> bool:
    """Whether the fields of a type are all of its state; an estimator learns more than those."""
    return is_dataclass(known) and not issubclass(known, BaseEstimator)
