"""Classifiers that use the shape of data, with certificates, for scikit-learn.

All estimators can be imported from here; :func:`save` and :func:`load` store them on disk. There
are also :mod:`oblong.svm` with the classes of :mod:`sklearn.svm`, :mod:`oblong.display` with plots,
:mod:`oblong.datasets` with data sets and readers of files, :mod:`oblong.streams` for files of any
size, :mod:`oblong.bounds` with the theory, and the command ``oblong``.
"""

# ruff: noqa: F403, F405

from typing import TYPE_CHECKING

from oblong import batch, online
from oblong._core.lazy import lazy_names

if TYPE_CHECKING:
    from oblong.batch import *
    from oblong.geometry import MinimumVolumeEllipsoid
    from oblong.io import read_table
    from oblong.online import *

__version__ = "0.2.0"

# Names are imported when they are first used. The package itself then costs nothing, and a command
# is in charge, of Ctrl-C above all, before the second that scikit-learn may take to load.
_HOMES = {
    "oblong.batch": batch.__all__,
    "oblong.export": ("to_onnx",),
    "oblong.geometry": ("MinimumVolumeEllipsoid",),
    "oblong.io": ("read_table",),
    "oblong.online": [name for name in online.__all__ if name[0].isupper()],
    "oblong.persistence": ("ModelFileError", "load", "save"),
}
__getattr__, __dir__ = lazy_names(
    __name__,
    _HOMES,
    {"bounds", "datasets", "display", "streams", "svm", *(home[7:] for home in _HOMES)},
)

__all__ = ["MinimumVolumeEllipsoid", "ModelFileError", "__version__", "read_table", "to_onnx"]
__all__ += batch.__all__
__all__ += online.__all__
__all__.remove("progressive_validation")
