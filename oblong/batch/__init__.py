"""Classifiers that learn from all rows at once."""

from oblong.batch.relative_margin import RelativeMarginClassifier

__all__ = ["RelativeMarginClassifier"]
