"""The types that a model file may hold: a fixed list, by names that do not move with files."""

from dataclasses import is_dataclass
from functools import cache
from importlib import import_module

from sklearn.base import BaseEstimator

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

# What stands around a classifier in a pipeline, and the folds that it may be given. Trees and
# neighbours are not here: they are objects of compiled code whose memory a file could corrupt.
_AROUND = {
    "compose": "ColumnTransformer",
    "decomposition": "PCA TruncatedSVD",
    "feature_extraction.text": "HashingVectorizer",
    "feature_selection": "VarianceThreshold",
    "impute": "MissingIndicator SimpleImputer",
    "kernel_approximation": "Nystroem RBFSampler",
    "linear_model": "LogisticRegression",
    "model_selection": "FixedThresholdClassifier GroupKFold KFold LeaveOneOut StratifiedKFold",
    "multiclass": "OneVsOneClassifier OneVsRestClassifier",
    "pipeline": "FeatureUnion Pipeline",
    # Of a FunctionTransformer only the one without a function, by which columns pass through.
    "preprocessing": "Binarizer FunctionTransformer LabelBinarizer LabelEncoder MaxAbsScaler "
    "MinMaxScaler Normalizer OneHotEncoder OrdinalEncoder PolynomialFeatures PowerTransformer "
    "QuantileTransformer RobustScaler StandardScaler",
}
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
    around = [
        getattr(import_module(f"sklearn.{module}"), name)
        for module, names in _AROUND.items()
        for name in names.split()
    ]
    return {name_of(known): known for known in (*own, *_INSIDE, *around)}


def name_of(known: type) -> str:
    """How a file names a type: its package and its own name."""
    return f"{known.__module__.partition('.')[0]}.{known.__name__}"


def is_record(known: type) -> bool:
    """Whether the fields of a type are all of its state; an estimator learns more than those."""
    return is_dataclass(known) and not issubclass(known, BaseEstimator)
