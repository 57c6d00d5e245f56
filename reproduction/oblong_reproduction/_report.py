"""A stored result as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oblong_reproduction._verdict import CLAIM_VERDICTS, NUMBER_VERDICTS

_TENTH = 0.1


def markdown(document: Mapping[str, Any], level: int = 1, pictures: str = "") -> str:
    """Write the table of an experiment, with how it was made.

    Parameters
    ----------
    document : mapping
        Content of the JSON file of a run.
    level : int, default=1
        Level of the heading.
    pictures : str, default=""
        What to put before the name of the figure's file.
    """
    lines = [f"{'#' * level} {document['experiment']}: {document['title']}", ""]
    lines += [document["paper"], ""] if document["paper"] else []
    if document["quick"]:
        lines += [f"**Quick run**, not the full experiment: {document['reduction']}.", ""]
    if document["protocol"]:
        lines += [document["protocol"], ""]
    if document["rows"]:
        lines += ["| | paper | ours | difference | verdict | why |", "|---|---|---|---|---|---|"]
        for row in document["rows"]:
            cells = ("what", "paper", "ours", "difference", "verdict", "why")
            lines.append("| " + " | ".join(_escape(row[cell]) for cell in cells) + " |")
        lines.append("")
    if document["figure"]:
        lines += [f"![{_escape(document['title'])}]({pictures}{document['figure']})", ""]
    if document["finding"]:
        lines += [document["finding"], ""]
    at_edges = edges(document)
    lines += [at_edges, ""] if at_edges else []
    lines += [*_not_run(document), _made(document), ""]
    return "\n".join(lines)


def tally(document: Mapping[str, Any]) -> str:
    """Count the verdicts of an experiment, in words."""
    if not document["rows"]:
        return "not run"
    counts: dict[str, int] = {}
    for row in document["rows"]:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    order = (*NUMBER_VERDICTS, *CLAIM_VERDICTS)
    return ", ".join(f"{counts[word]} {word}" for word in order if word in counts)


def _not_run(document: Mapping[str, Any]) -> list[str]:
    lines = []
    reasons: dict[str, int] = {}
    for reason in document["not_run"].values():
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in reasons.items():
        lines += [f"Not run ({count} of {document['cells_in_all']} parts): {_escape(reason)}.", ""]
    for name, reason in document["failed"].items():
        lines += [f"Failed: {_escape(name)}: {_escape(reason)}.", ""]
    left = document["cells_in_all"] - len(document["not_run"]) - len(document["cells"])
    if left > 0 and not document["failed"]:
        lines += [f"Not complete: {left} of {document['cells_in_all']} parts are to come.", ""]
    unconverged = sum(cell["unconverged"] for cell in document["cells"])
    if unconverged:
        fits = "fit stopped before it" if unconverged == 1 else "fits stopped before they"
        its = "its" if unconverged == 1 else "their"
        lines += [f"{unconverged} {fits} met {its} tolerance.", ""]
    for message, count in document.get("warnings", {}).items():
        lines += [f"Warned {count} times: {_escape(message)}", ""]
    return lines


def edges(document: Mapping[str, Any]) -> str:
    """Parameters that were chosen at the end of their grid, in words; empty if none was.

    Where the validation error is flat, chance puts some choices at the ends of any grid: only an
    end with more than a tenth of the choices asks for a wider one.
    """
    found: dict[str, list[str]] = {"often": [], "seldom": [], "natural": []}
    for one in document.get("edges", []):
        natural = one["end"] == "natural"
        end = "" if natural else f" ({one['end']})"
        text = f"{one['what']} {one['value']:.8g}{end} in {one['count']} of {one['of']}"
        often = one["count"] > _TENTH * one["of"]
        found["natural" if natural else "often" if often else "seldom"].append(text)
    begin = {
        "often": "At the edge of the grid, which should be wider",
        "seldom": "At the edge of the grid in a tenth of the choices or fewer",
        "natural": "At an end that a wider grid would not move",
    }
    return " ".join(f"{begin[kind]}: {'; '.join(texts)}." for kind, texts in found.items() if texts)


def _made(document: Mapping[str, Any]) -> str:
    machine = document["machine"]
    data = sorted(set(document["data"].values()))
    source = f" Data: {', '.join(data)}." if data else ""
    packages = ", ".join(
        f"{package} {machine[package]}" for package in ("oblong", "numpy", "scikit-learn", "numba")
    )
    return (
        f"Seed {document['seed']}, {document['date']}, {_time(document['seconds'])} of one core of "
        f"{machine['processor']}; Python {machine['python']}, {packages}.{source}"
    )


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _escape(text: str) -> str:
    return str(text).replace("|", "\\|")
