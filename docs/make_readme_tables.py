"""Write the table of errors of the README from the stored results of the reproduction.

Run it from anywhere after a result has changed; a test compares the README with it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[1]
# Sets with several classes, those on which the two models differ first.
SETS = {
    "optdigits": "optdigits (handwritten digits)",
    "mnist": "MNIST (handwritten digits)",
    "usps": "USPS (handwritten digits)",
    "letter": "letter (shapes of printed letters)",
    "isolet": "isolet (spoken letters)",
    "satimage": "satimage (satellite images)",
    "dna": "dna",
    "shuttle": "shuttle",
    "fashion_mnist": "Fashion-MNIST (photographs)",
    "pendigits": "pendigits (digits from a pen)",
    "waveform": "waveform (simulated)",
}
MARKS = ("<!-- errors -->", "<!-- end of errors -->")


def stored(name: str) -> dict[str, dict[str, str]]:
    """The rows of a stored table, by what they are."""
    path = ROOT / "reproduction" / "results" / f"{name}.json"
    return {row["what"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}


def table() -> str:
    """The table, in Markdown; the lower of two errors that differ significantly is bold."""
    lines = ["| data | SVM | relative margin |", "|---|---:|---:|"]
    cells, two = {}, []
    for what, row in stored("rmm-when").items():
        if match := re.match(r"(\w+), 2000 rows: RMM, best of four spreads", what):
            rmm, svm = re.findall(r"[\d.]+ %", row["ours"])
            bold = {"confirmed": (svm, f"**{rmm}**"), "contradicted": (f"**{svm}**", rmm)}
            cells[match[1]] = bold.get(row["verdict"], (svm, rmm))
            if match[1] not in SETS:
                two.append((float(svm[:-2]), float(rmm[:-2])))
    lines += [f"| {title} | {cells[name][0]} | {cells[name][1]} |" for name, title in SETS.items()]
    means = " | ".join(f"{fmean(errors):.2f} %" for errors in zip(*two))
    lines.append(f"| mean of {len(two)} sets with two classes | {means} |")
    digits = stored("rmm-table2")
    svm, rmm = (digits[f"mnist-full, poly5, {model}"]["ours"] for model in ("SVM", "RMM"))
    lines += [
        "",
        "On all 60,000 training images of MNIST, with polynomial kernels of degree 5, the SVM",
        f"misclassifies {svm} of the 10,000 test images and the relative margin machine {rmm}.",
    ]
    return "\n".join(lines)


def readme(text: str) -> str:
    """The text of the README with the table of today."""
    before, _, rest = text.partition(MARKS[0])
    return f"{before}{MARKS[0]}\n\n{table()}\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text(encoding="utf-8")), encoding="utf-8")
