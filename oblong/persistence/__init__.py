"""Models on disk, in a format that runs no code when it is loaded."""

from oblong.persistence._errors import ModelFileError
from oblong.persistence.models import load, load_with_manifest, read_manifest, save

__all__ = ["ModelFileError", "load", "load_with_manifest", "read_manifest", "save"]
