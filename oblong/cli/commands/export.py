"""``oblong export``: a saved model for other runtimes.

Write a saved model as an ONNX graph, which any ONNX runtime computes without Python. Its inputs
are X, the columns of numbers, and, if the model encodes columns of text, text; its outputs are
label, scores and, for models that have them, probabilities.

examples:
  oblong export --onnx iris.oblong -o iris.onnx
  oblong export --onnx iris.oblong --float32 -o iris.onnx
"""  # noqa: D405, D406, D407

import argparse
import json
from typing import Any

from oblong._core.text import listed, printable
from oblong.cli.shared import options
from oblong.io.errors import DataFileError


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = options.add_command(subparsers, "export", __doc__)
    add = options.adder(parser)
    add("model MODEL", "file that oblong train has written")
    add("--onnx", "as an ONNX graph", action="store_true", required=True)
    add("--float32", "take single precision (default: double)")
    add("-o --output FILE", "the graph", options.output_file, required=True)
    add("--json", "print JSON instead of sentences")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    options.check_model(args.model)
    options.check_apart([args.model], [args.output])
    options.require("oblong export", "onnx", extra="onnx")
    from oblong.export import to_onnx
    from oblong.persistence import load_with_manifest

    model, manifest = load_with_manifest(args.model)
    try:
        with options.busy("writing the graph"):
            graph = to_onnx(
                model,
                input_type="float32" if args.float32 else "float64",
                feature_names=_names(manifest),
            )
            content = graph.SerializeToString()
    except ValueError as error:
        raise DataFileError(args.model, str(error)) from None
    options.write_whole(args.output, content)
    columns = {note.key.rpartition(" ")[2]: json.loads(note.value) for note in graph.metadata_props}
    count, outputs = len(graph.graph.node), [each.name for each in graph.graph.output]
    inputs = {each.name: columns[each.name] for each in graph.graph.input}
    if args.json:
        found = {"file": str(args.output), "operators": count, "inputs": inputs}
        options.print_json(found | {"outputs": outputs})
        return 0
    shown = [f"{name} ({printable(listed(names))})" for name, names in inputs.items()]
    print(f"{args.output}: {count} operators")
    print(f"inputs: {', '.join(shown)}; outputs: {', '.join(outputs)}")
    return 0


def _names(manifest: dict[str, Any]) -> list[str] | None:
    """Names of the columns of the training data, where the file has them."""
    schema = manifest["training"].get("schema")
    names = schema.get("feature_names") if isinstance(schema, dict) else None
    return names if isinstance(names, list) else None
