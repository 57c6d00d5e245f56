"""Write the page on reproduction from the stored results of ``oblong reproduce``.

The page itself has only explanations; the headline claims are put in where it says
``<!-- headlines -->``, and a list of all experiments with their tables where it says
``<!-- results -->``. A full run goes before a quick one. Protocols, findings and verdicts are those
of the code, applied to the stored results.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oblong_reproduction import HEADLINES, catalogue, judged, markdown, tally, verdict_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sphinx.application import Sphinx

    from oblong_reproduction import Experiment, Part

RESULTS = Path("reproduction") / "results"
# Verdicts with a colour of their own in the style sheet; the others have a ring.
COLOURS = {
    "confirmed": "green",
    "agrees: no difference": "blue",
    "not confirmed": "yellow",
    "contradicted": "red",
}


def dot(verdict: str) -> str:
    """A dot in the colour of a verdict; the word stands beside it."""
    return f'<span class="verdict {COLOURS.get(verdict, "open")}"></span>'


def stored(folder: Path, experiment: Experiment) -> dict[str, Any] | None:
    """Return the stored run of an experiment, judged by today's rules; None without a row."""
    for path in (folder / f"{experiment.name}.json", folder / f"{experiment.name}.quick.json"):
        if path.is_file():
            document = judged(experiment, json.loads(path.read_text(encoding="utf-8")))
            if document["rows"]:
                return document
    return None


def tables(documents: Mapping[str, dict[str, Any] | None]) -> str:
    """Write an overview and the table of every experiment."""
    experiments = catalogue()
    lines = ["| experiment | what | run | verdicts |", "|---|---|---|---|"]
    for name, experiment in experiments.items():
        document = documents[name]
        if document is None:
            lines.append(
                f"| {name} | {experiment.title} | no, {_cost(experiment.minutes)} | not run |"
            )
            continue
        kind = "quick" if document["quick"] else "full" if document["complete"] else _part(document)
        verdicts = tally(document)
        link = f"[{name}](#{name}-{_anchor(experiment.title)})"
        lines.append(f"| {link} | {experiment.title} | {kind}, {document['date']} | {verdicts} |")
    paper = None
    for name, document in documents.items():
        if document is None:
            continue
        if experiments[name].paper != paper:
            paper = experiments[name].paper
            lines += ["", f"## {paper.citation}"]
        pictures = f"../{RESULTS.as_posix()}/"
        lines += ["", markdown({**document, "paper": ""}, level=3, pictures=pictures)]
    return "\n".join(lines)


def _part(document: Mapping[str, Any]) -> str:
    """How much of an experiment has been run."""
    return f"{len(document['cells'])} of {document['cells_in_all']} parts"


def _cost(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"


def headlines(documents: Mapping[str, dict[str, Any] | None]) -> str:
    """Write the papers' main claims, one line and one colour each, and what they rest on."""
    lines = ["| verdict | claim | paper | evidence |", "|---|---|---|---|"]
    for headline in HEADLINES:
        verdict = headline.verdict(documents)
        evidence = "<br>".join(_evidence(part, documents) for part in headline.parts)
        lines.append(
            f"| {dot(verdict)} {verdict} | {headline.claim} | {headline.paper} | {evidence} |"
        )
    return "\n".join(lines)


def _evidence(part: Part, documents: Mapping[str, dict[str, Any] | None]) -> str:
    """The verdict of a part of a claim, with a link to its table."""
    document = documents[part.experiment]
    rows = part.deciding(document)
    title = catalogue()[part.experiment].title
    name = f"[{part.experiment}](#{part.experiment}-{_anchor(title)})" if document else ""
    where = f"{part.where}, " if part.where else ""
    shown = name or part.experiment
    return f"{dot(verdict_of(rows))} {where}{shown}: {tally({'rows': rows})}"


def _anchor(title: str) -> str:
    """The end of the anchor that the Markdown reader gives a heading."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def insert_results(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the results into the page."""
    if docname != "reproduction":
        return
    folder = Path(app.srcdir).parent / RESULTS
    for path in sorted(folder.glob("*.json")):
        app.env.note_dependency(str(path))
    documents = {name: stored(folder, experiment) for name, experiment in catalogue().items()}
    parts = {"headlines": headlines(documents), "results": tables(documents)}
    for name, text in parts.items():
        source[0] = source[0].replace(f"<!-- {name} -->", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the page to its results."""
    app.connect("source-read", insert_results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
