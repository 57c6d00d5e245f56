"""``oblong info``: what a model file contains.

Show what a model file contains: the model and its parameters, the data and the columns it was
trained on, its scores on held-out rows, the certificate of its solution, and the versions that
wrote it. The model is not loaded.

examples:
  oblong info iris.oblong
  oblong info iris.oblong --json | jq .certificate
"""  # noqa: D405, D406, D407

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from oblong._core.text import printable
from oblong.cli.shared.options import add_command, emphasis, print_json

_SHOWN = 12


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = add_command(subparsers, "info", __doc__)
    parser.add_argument("model", metavar="MODEL", help="file that oblong train has written")
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from oblong.persistence import read_manifest

    manifest = read_manifest(args.model)
    if args.json:
        print_json(manifest, indent=2, ensure_ascii=False)
        return 0
    lines = list(_lines(manifest))
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        print(f"{emphasis(name.ljust(width))}  {printable(text)}")
    return 0


def _lines(manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    steps = manifest.get("steps")
    whole = str(manifest.get("class"))
    if isinstance(steps, list) and steps:
        whole = " → ".join(str(step[-1]) for step in steps if isinstance(step, list) and step)
    yield "model", whole
    yield from _section("parameters", manifest.get("parameters"))
    training = _dict(manifest.get("training"))
    if "source" in training:
        yield "trained on", f"{training['source']}, {_count(training.get('rows'))} rows"
    yield "features", _count(manifest.get("n_features")) + _names(training, manifest)
    counts = training.get("class_counts")
    if isinstance(counts, list):
        pairs = [f"{c[0]} ({_count(c[1])})" for c in counts if isinstance(c, list) and len(c) == 2]
        yield "classes", _joined(pairs)
    elif isinstance(manifest.get("classes"), list):
        yield "classes", _joined([str(label) for label in manifest["classes"]])
    yield from _columns(training)
    tried = _dict(training.get("search")).get("candidates")
    if isinstance(tried, list):
        errors = [(_dict(each).get("model"), _dict(each).get("error")) for each in tried]
        yield "quick search", ", ".join(f"{model} {_percent(error)}" for model, error in errors)
    scores = _dict(training.get("scores"))
    if scores:
        shown = [f"error {_percent(scores.get('error'))}"]
        shown.append(f"balanced error {_percent(scores.get('balanced_error'))}")
        shown += [
            f"{title} {_short(scores[name])}"
            for name, title in (("auc", "AUC"), ("log_loss", "log loss"))
            if isinstance(scores.get(name), float)
        ]
        yield "held-out scores", f"{', '.join(shown)} ({scores.get('how')})"
    for name in ("threshold", "class_weight"):
        if training.get(name) is not None:
            yield name.replace("_", " "), _short(training[name])
    chosen = _dict(training.get("cross_validation"))
    if chosen:
        yield "held-out error", f"{_percent(chosen.get('error'))} ({chosen.get('folds')} folds)"
    for name in ("training_error", "progressive_error"):
        if name in training:
            yield name.replace("_", " "), _percent(training[name])
    yield from _section("certificate", manifest.get("certificate"))
    yield from _section("written with", manifest.get("versions"))
    yield "format", f"{manifest.get('format')} {manifest.get('version')}"


def _columns(training: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What the columns are that do not hold plain numbers, and what was odd about the data."""
    schema = _dict(training.get("schema"))
    names = schema.get("feature_names")

    def named(column: Any) -> str:
        if isinstance(names, list) and isinstance(column, int) and 0 <= column < len(names):
            return str(names[column])
        return f"column {column}"

    def listed(key: str) -> list[Any]:
        return schema[key] if isinstance(schema.get(key), list) else []

    hashed = listed("hashed")
    categories = [named(j) for j in listed("text") if j not in hashed]
    dates = [f"{named(d[0])} ({d[1]})" for d in listed("dates") if isinstance(d, list) and d[1:]]
    parts = (("categories", categories), ("text", [named(j) for j in hashed]), ("dates", dates))
    for title, columns in parts:
        if columns:
            yield title, _joined(columns)
    notes = training.get("notes")
    for note in notes if isinstance(notes, list) else []:
        yield "note", str(note).replace("drop=", "--drop")


def _section(name: str, values: Any) -> Iterator[tuple[str, str]]:
    if isinstance(values, dict) and values:
        parts = [f"{key}={_short(value)}" for key, value in values.items() if value is not None]
        yield name, ", ".join(parts)


def _names(training: dict[str, Any], manifest: dict[str, Any]) -> str:
    names = _dict(training.get("schema")).get("feature_names")
    names = names if isinstance(names, list) else manifest.get("feature_names")
    return f": {_joined([str(name) for name in names])}" if isinstance(names, list) else ""


def _dict(value: Any) -> dict[str, Any]:
    """A part of the file, which may hold anything."""
    return value if isinstance(value, dict) else {}


def _joined(parts: list[str]) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + _joined([_short(item) for item in value]) + "]"
    return str(value)


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"


def _percent(value: Any) -> str:
    return f"{100 * value:.2f} %" if isinstance(value, (int, float)) else "?"
