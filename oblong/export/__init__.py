"""Export of fitted models to other runtimes."""

from oblong.export.onnx_model import to_onnx

__all__ = ["to_onnx"]
