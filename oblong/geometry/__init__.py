"""The shape of data without labels."""

from oblong.geometry.ellipsoid import MinimumVolumeEllipsoid

__all__ = ["MinimumVolumeEllipsoid"]
