"""``oblong export``: a saved model for other runtimes."""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from typing import Any

from oblong._core.text import printable
from oblong.cli.shared.options import (
    add_command,
    busy,
    check_apart,
    output_file,
    print_json,
    write_whole,
)
from oblong.datasets import DataFileError

__all__ = ["add_parser"]

_DESCRIPTION = """\
Write a saved model as an ONNX graph, which any ONNX runtime computes without Python. Its inputs
are X, the columns of numbers, and, if the model encodes columns of text, text; its outputs are
label, scores and, for models that have them, probabilities.
"""

_EPILOG = """\
examples:
  oblong export --onnx iris.oblong -o iris.onnx
  oblong export --onnx iris.oblong --float32 -o iris.onnx
"""

_SHOWN = 12


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = add_command(subparsers, "export", _DESCRIPTION, _EPILOG)
    parser.add_argument("model", metavar="MODEL", help="file that oblong train has written")
    parser.add_argument("--onnx", action="store_true", required=True, help="as an ONNX graph")
    parser.add_argument(
        "--float32", action="store_true", help="take single precision (default: double)"
    )
    parser.add_argument(
        "-o", "--output", required=True, type=output_file, metavar="FILE", help="the graph"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if find_spec("onnx") is None:
        raise DataFileError("oblong export", 'needs onnx: pip install "oblong[onnx]"')
    from oblong.export import to_onnx
    from oblong.persistence import load_with_manifest

    check_apart([args.model], [args.output])
    model, manifest = load_with_manifest(args.model)
    try:
        with busy("writing the graph"):
            graph = to_onnx(
                model,
                input_type="float32" if args.float32 else "float64",
                feature_names=_names(manifest),
            )
            content = graph.SerializeToString()
    except ValueError as error:
        raise DataFileError(args.model, str(error)) from None
    write_whole(args.output, content)
    columns = {note.key.rpartition(" ")[2]: json.loads(note.value) for note in graph.metadata_props}
    if args.json:
        found: dict[str, Any] = {"file": str(args.output), "operators": len(graph.graph.node)}
        found["inputs"] = {each.name: columns[each.name] for each in graph.graph.input}
        found["outputs"] = [each.name for each in graph.graph.output]
        print_json(found)
        return 0
    inputs = [f"{each.name} ({_listed(columns[each.name])})" for each in graph.graph.input]
    outputs = [each.name for each in graph.graph.output]
    print(f"{args.output}: {len(graph.graph.node)} operators")
    print(f"inputs: {', '.join(inputs)}; outputs: {', '.join(outputs)}")
    return 0


def _names(manifest: dict[str, Any]) -> list[str] | None:
    """Names of the columns of the training data, where the file has them."""
    training = manifest.get("training")
    schema = training.get("schema") if isinstance(training, dict) else None
    names = schema.get("feature_names") if isinstance(schema, dict) else None
    return names if isinstance(names, list) else None


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return printable(", ".join(names[:_SHOWN]) + more)
