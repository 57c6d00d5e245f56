"""The base of estimators whose fits may take less time than a look at their signature."""

from __future__ import annotations

from functools import cache

from sklearn.base import BaseEstimator


class Estimator(BaseEstimator):
    """scikit-learn's base, with the names of the parameters looked up once per class."""

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        return super()._get_param_names()
