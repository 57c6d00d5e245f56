"""Write the table of errors of the README from the stored results of the reproduction.

Run it from anywhere after a result has changed; a test compares the README with it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[1]
DIGITS = {
    "mnist-full": "MNIST, 60,000 images",
    "mnist-1000": "MNIST, 1,000 images per pair of digits",
    "usps": "USPS, 7,291 images",
    "optdigits": "optdigits, 3,823 images",
}
MARKS = ("<!-- errors -->", "<!-- end of errors -->")


def stored(name: str) -> dict[str, str]:
    """Our values in a stored table, by what they are."""
    path = ROOT / "reproduction" / "results" / f"{name}.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row["what"]: row["ours"] for row in rows}


def table() -> str:
    """The table, in Markdown."""
    lines = ["| data | SVM | relative margin |", "|---|---:|---:|"]
    digits = stored("rmm-table2")
    for name, title in DIGITS.items():
        svm, rmm = (digits[f"{name}, poly5, {model}"] for model in ("SVM", "RMM"))
        lines.append(f"| {title}, degree 5 | {svm} errors | {rmm} errors |")
    sets = stored("rmm-table4")
    means = [
        fmean(
            float(re.match(r"[\d.]+", value)[0])  # type: ignore[index]
            for what, value in sets.items()
            if what.endswith(f", {model}")
        )
        for model in ("SVM", "RMM")
    ]
    svm, rmm = (f"{mean:.2f} %" for mean in means)
    lines.append(f"| thirteen small tables with two classes, RBF, mean error | {svm} | {rmm} |")
    return "\n".join(lines)


def readme(text: str) -> str:
    """The text of the README with the table of today."""
    before, _, rest = text.partition(MARKS[0])
    return f"{before}{MARKS[0]}\n\n{table()}\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text(encoding="utf-8")), encoding="utf-8")
