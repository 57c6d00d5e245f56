"""Classifiers and regressors that learn from all rows at once."""

from typing import TYPE_CHECKING

from oblong._core.lazy import lazy_names

if TYPE_CHECKING:
    from oblong.batch.bayes_point import BayesPointClassifier
    from oblong.batch.calibrated_margin import CalibratedMarginClassifier
    from oblong.batch.ellipsoidal_kernel import EllipsoidalKernelClassifier
    from oblong.batch.ellipsoidal_svc import EllipsoidalSVC
    from oblong.batch.kernel_fisher import KernelFisherClassifier
    from oblong.batch.linear_relative_margin import LinearRelativeMarginClassifier
    from oblong.batch.margin_path import RelativeMarginPath, relative_margin_path
    from oblong.batch.margin_regressor import MarginRegressor
    from oblong.batch.margin_regressor_cv import MarginRegressorCV
    from oblong.batch.relative_margin import RelativeMarginClassifier
    from oblong.batch.relative_margin_cv import RelativeMarginClassifierCV
    from oblong.batch.sigma import SigmaSVC
    from oblong.batch.universum import UniversumSVC

# One estimator needs a quarter of the modules of all.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "oblong.batch.bayes_point": ["BayesPointClassifier"],
        "oblong.batch.calibrated_margin": ["CalibratedMarginClassifier"],
        "oblong.batch.ellipsoidal_kernel": ["EllipsoidalKernelClassifier"],
        "oblong.batch.ellipsoidal_svc": ["EllipsoidalSVC"],
        "oblong.batch.kernel_fisher": ["KernelFisherClassifier"],
        "oblong.batch.linear_relative_margin": ["LinearRelativeMarginClassifier"],
        "oblong.batch.margin_regressor": ["MarginRegressor"],
        "oblong.batch.margin_regressor_cv": ["MarginRegressorCV"],
        "oblong.batch.relative_margin": ["RelativeMarginClassifier"],
        "oblong.batch.relative_margin_cv": ["RelativeMarginClassifierCV"],
        "oblong.batch.margin_path": ["RelativeMarginPath", "relative_margin_path"],
        "oblong.batch.sigma": ["SigmaSVC"],
        "oblong.batch.universum": ["UniversumSVC"],
    },
)

__all__ = [
    "BayesPointClassifier",
    "CalibratedMarginClassifier",
    "EllipsoidalKernelClassifier",
    "EllipsoidalSVC",
    "KernelFisherClassifier",
    "LinearRelativeMarginClassifier",
    "MarginRegressor",
    "MarginRegressorCV",
    "RelativeMarginClassifier",
    "RelativeMarginClassifierCV",
    "RelativeMarginPath",
    "SigmaSVC",
    "UniversumSVC",
    "relative_margin_path",
]
