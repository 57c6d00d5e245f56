"""``oblong info``: what a model file contains.

Show what a model file contains: the model and its parameters, the data and the columns it was
trained on, its scores on held-out rows, the certificate of its solution, and the versions that
wrote it. The model is not loaded.

examples:
  oblong info iris.oblong
  oblong info iris.oblong --json | jq .certificate
"""  # noqa: D405, D406, D407

import argparse
from collections.abc import Iterator
from typing import Any

from oblong._core.text import listed, printable
from oblong.cli.shared.options import add_command, check_model, emphasis, print_json, spelled


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = add_command(subparsers, "info", __doc__)
    parser.add_argument("model", metavar="MODEL", help="file that oblong train has written")
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    check_model(args.model)
    from oblong.persistence import ModelFileError, read_manifest

    manifest = read_manifest(args.model)
    if args.json:
        print_json(manifest, indent=2, ensure_ascii=False)
        return 0
    try:
        lines = list(_lines(manifest))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise ModelFileError(args.model, "damaged: the description of the model") from None
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        print(f"{emphasis(name.ljust(width))}  {printable(text)}")
    return 0


def _lines(manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    training = manifest["training"]
    schema = training.get("schema") or {}
    names = schema.get("feature_names") or manifest.get("feature_names")
    steps = manifest.get("steps") or [[manifest["class"]]]
    yield "model", " → ".join(step[-1] for step in steps)
    yield from _section("parameters", manifest.get("parameters"))
    if "source" in training:
        yield "trained on", f"{training['source']}, {training['rows']:,} rows"
    count = f"{manifest['n_features']:,}" if "n_features" in manifest else "?"
    yield "features", f"{count}: {listed(names)}" if names else count
    if "class_counts" in training:
        yield "classes", listed([f"{name} ({n:,})" for name, n in training["class_counts"]])
    elif "classes" in manifest:
        yield "classes", listed(manifest["classes"])
    yield from _columns(schema)
    for note in training.get("notes") or []:
        yield "note", spelled(note)
    if search := training.get("search"):
        tried = [f"{each['model']} {_percent(each['error'])}" for each in search["candidates"]]
        yield "quick search", ", ".join(tried)
    if scores := training.get("scores"):
        shown = [f"error {_percent(scores['error'])}"]
        shown.append(f"balanced error {_percent(scores['balanced_error'])}")
        titles = {"auc": "AUC", "log_loss": "log loss"}
        known = {name: title for name, title in titles.items() if scores.get(name) is not None}
        shown += [f"{title} {_short(scores[name])}" for name, title in known.items()]
        yield "held-out scores", f"{', '.join(shown)} ({scores['how']})"
    for name in ("threshold", "class_weight"):
        if training.get(name) is not None:
            yield name.replace("_", " "), _short(training[name])
    if chosen := training.get("cross_validation"):
        yield "held-out error", f"{_percent(chosen['error'])} ({chosen['folds']} folds)"
    for name in ("training_error", "progressive_error"):
        if name in training:
            yield name.replace("_", " "), _percent(training[name])
    yield from _section("certificate", manifest.get("certificate"))
    yield from _section("written with", manifest.get("versions"))
    yield "format", f"{manifest.get('format')} {manifest.get('version')}"


def _columns(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Which columns do not hold plain numbers."""
    names = schema.get("feature_names")

    def named(column: int) -> str:
        return f"column {column}" if names is None else names[column]

    hashed = schema.get("hashed") or []
    parts = {
        "categories": [named(j) for j in schema.get("text") or [] if j not in hashed],
        "text": [named(j) for j in hashed],
        "dates": [f"{named(j)} ({form})" for j, form in schema.get("dates") or []],
    }
    yield from ((title, listed(columns)) for title, columns in parts.items() if columns)


def _section(name: str, values: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    if values:
        parts = [f"{key}={_short(value)}" for key, value in values.items() if value is not None]
        yield name, ", ".join(parts)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"[{listed([_short(v) for v in value])}]" if isinstance(value, list) else str(value)


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{100 * value:.2f} %"
