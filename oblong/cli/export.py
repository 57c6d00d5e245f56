"""``oblong export``: a saved model for other runtimes."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from oblong.cli.options import busy, output_file, write_whole
from oblong.datasets import DataFileError

__all__ = ["add_parser"]

_DESCRIPTION = """\
Write a saved model as an ONNX graph with the input X and the outputs label and scores, which
any ONNX runtime computes without Python.
"""

_EPILOG = """\
examples:
  oblong export --onnx iris.oblong -o iris.onnx
  oblong export --onnx iris.oblong --float32 -o iris.onnx
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "export",
        help="write a saved model as an ONNX graph",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="file that oblong train has written")
    parser.add_argument("--onnx", action="store_true", required=True, help="as an ONNX graph")
    parser.add_argument(
        "--float32", action="store_true", help="take single precision (default: double)"
    )
    parser.add_argument(
        "-o", "--output", required=True, type=output_file, metavar="FILE", help="the graph"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if find_spec("onnx") is None:
        raise DataFileError("oblong export", 'needs onnx: pip install "oblong[onnx]"')
    from oblong.export import to_onnx
    from oblong.persistence import load

    model = load(args.model)
    try:
        with busy("writing the graph"):
            graph = to_onnx(model, input_type="float32" if args.float32 else "float64")
    except ValueError as error:
        raise DataFileError(args.model, str(error)) from None
    write_whole(args.output, graph.SerializeToString())
    print(f"{args.output}: {len(graph.graph.node)} operators, input X, outputs label and scores")
    return 0
