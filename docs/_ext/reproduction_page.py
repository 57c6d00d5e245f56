"""Write the page on reproduction from the stored results of ``oblong reproduce``.

The page itself has only an introduction; where it says ``<!-- results -->`` a list of all
experiments and their tables are put in. A full run goes before a quick one.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oblong_reproduction import catalogue, markdown, tally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sphinx.application import Sphinx

MARK = "<!-- results -->"
RESULTS = Path("reproduction") / "results"
# The papers' main claims, the experiments that test them, and which rows of their tables decide.
CLAIMS = (
    (
        "The relative margin machine has fewer errors on digits than the SVM, degrees 2 to 7",
        "rmm-table2",
        "^[a-z0-9-]+: polynomials of degree 2 to 7 with fewer errors of RMM than SVM$",
    ),
    (
        "The same, with one setting for all pairs",
        "rmm-table2",
        "^one setting.*degree 2 to 7 with fewer errors of RMM than SVM$",
    ),
    ("The same pair by pair on MNIST", "rmm-fig8", "^(pairs of digits with|errors of all pairs)"),
    ("On MNIST 3 against 5 errors fall as the bound falls", "rmm-fig7", "^errors fall as B falls"),
    (
        "Stretching the data moves the error of the SVM, not that of the relative margin machine",
        "rmm-fig5",
        "^the error of the (SVM rises|RMM does not move)",
    ),
    (
        "e-SVM and Bayes point beat the hard-margin SVM on most of eleven sets",
        "esvm-fig1",
        "^sets on which",
    ),
    (
        "CW-Stdev makes fewer mistakes than CW-Var, and that fewer than first-order learners",
        "cw-fig2",
        "^length 2, noise 2: mistakes of CW-(Stdev|Var)-full below those of (CW-Var-full|PA)$",
    ),
    (
        "IELLIP needs fewer updates than PA at equal or lower error",
        "iellip-fig1",
        "(IELLIP: test error after three passes|updates of IELLIP below those of PA)$",
    ),
    (
        "The ellipsoidal kernel machine is at least as accurate as the SVM on most sets",
        "ekm-table2",
        "sets on which EKM is at least as accurate as SVM$",
    ),
)


def stored(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the stored result of an experiment; None if there is none with a row."""
    for path in (folder / f"{name}.json", folder / f"{name}.quick.json"):
        if path.is_file():
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["rows"]:
                return document
    return None


def page(folder: Path) -> str:
    """Write the overview and the table of every experiment."""
    experiments = catalogue()
    documents = {name: stored(folder, name) for name in experiments}
    lines = ["| experiment | what | run | verdicts |", "|---|---|---|---|"]
    for name, experiment in experiments.items():
        document = documents[name]
        if document is None:
            lines.append(f"| {name} | {experiment.title} | no | |")
            continue
        kind = "quick" if document["quick"] else "full" if document["complete"] else "in part"
        link = f"[{name}](#{name}-{_anchor(experiment.title)})"
        verdicts = tally(document)
        lines.append(f"| {link} | {experiment.title} | {kind}, {document['date']} | {verdicts} |")
    lines += ["", "## The main claims", "", *claims(documents)]
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


def claims(documents: Mapping[str, dict[str, Any] | None]) -> list[str]:
    """Write the rows that decide about the papers' main claims."""
    lines = ["| claim | what | ours | verdict |", "|---|---|---|---|"]
    for claim, name, pattern in CLAIMS:
        document = documents[name]
        rows = document["rows"] if document else []
        found = [row for row in rows if re.search(pattern, row["what"])]
        for row in found:
            lines.append(f"| {claim} | {row['what']} | {row['ours']} | {row['verdict']} |")
            claim = ""
        if not found:
            lines.append(f"| {claim} | {name} | | not run |")
    return lines


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
    source[0] = source[0].replace(MARK, page(folder))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the page to its results."""
    app.connect("source-read", insert_results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
