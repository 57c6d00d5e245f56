"""Classifiers and regressors that learn from all rows at once."""

from oblong.batch.bayes_point import BayesPointClassifier
from oblong.batch.calibrated_margin import CalibratedMarginClassifier
from oblong.batch.ellipsoidal_kernel import EllipsoidalKernelClassifier
from oblong.batch.ellipsoidal_svc import EllipsoidalSVC
from oblong.batch.kernel_fisher import KernelFisherClassifier
from oblong.batch.linear_relative_margin import LinearRelativeMarginClassifier
from oblong.batch.margin_regressor import MarginRegressor
from oblong.batch.relative_margin import RelativeMarginClassifier
from oblong.batch.relative_margin_cv import RelativeMarginClassifierCV
from oblong.batch.relative_margin_path import RelativeMarginPath, relative_margin_path
from oblong.batch.sigma import SigmaSVC
from oblong.batch.universum import UniversumSVC

__all__ = [
    "BayesPointClassifier",
    "CalibratedMarginClassifier",
    "EllipsoidalKernelClassifier",
    "EllipsoidalSVC",
    "KernelFisherClassifier",
    "LinearRelativeMarginClassifier",
    "MarginRegressor",
    "RelativeMarginClassifier",
    "RelativeMarginClassifierCV",
    "RelativeMarginPath",
    "SigmaSVC",
    "UniversumSVC",
    "relative_margin_path",
]
