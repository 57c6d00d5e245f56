"""Changes of an estimator that happen completely or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def all_or_nothing(estimator: object) -> Iterator[None]:
    """Put the attributes of ``estimator`` back as they were if the block raises.

    The attributes themselves are not copied: the block has to replace them, not change them.
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
