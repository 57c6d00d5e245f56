"""Models on disk, in a format that runs no code when it is loaded."""

from typing import TYPE_CHECKING

from oblong._core.lazy import lazy_names
from oblong.persistence._errors import ModelFileError

if TYPE_CHECKING:
    from oblong.persistence.models import load, load_with_manifest, read_manifest, save

# The error alone needs no scikit-learn.
__getattr__, __dir__ = lazy_names(
    __name__, {"oblong.persistence.models": ["load", "load_with_manifest", "read_manifest", "save"]}
)

__all__ = ["ModelFileError", "load", "load_with_manifest", "read_manifest", "save"]
