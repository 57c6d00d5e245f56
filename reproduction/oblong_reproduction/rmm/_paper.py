"""The paper."""

from __future__ import annotations

from oblong_reproduction._experiment import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    "rmm",
    "P. K. Shivaswamy and T. Jebara, Maximum Relative Margin and Data-Dependent Regularization, "
    "Journal of Machine Learning Research 11, 2010",
)
