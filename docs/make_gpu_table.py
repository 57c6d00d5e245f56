"""Write the numbers of the guide's page on GPUs from the stored results of the benchmark.

Run it from anywhere after ``benchmarks/on_device.py``; a test compares the page with it.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MARKS = (".. Numbers from docs/make_gpu_table.py:", ".. End of these numbers.")
MNIST, SMALL, FASHION = (
    f"{name}, ten classes" for name in ("mnist", "10,000 rows of mnist", "fashion_mnist")
)
CLUSTERS, SEARCH = "clusters, 10000 x {}", "rbf, 50 C x 10 folds, {}"
TIGHTER = (("spread 1/2", "0.5"), ("spread 1/4", "0.25"), ("spread 1/10", "0.1"))
# Problem, the data and the settings of its row of results, and published times.
ROWS = [
    ("MNIST, 60,000 rows, ten classes, SVM, rbf, C=1", MNIST, "rbf, C=1, spread=1", ""),
    *((f"the same, {name}", MNIST, f"rbf, C=1, spread={spread}", "") for name, spread in TIGHTER),
    (
        "MNIST, SVM, rbf, C=100", MNIST, "rbf, C=100, spread=1",
        "ThunderSVM 19.6 s, LIBSVM 661 s (published, other gamma, GPU not named)",
    ),
    *((f"the same, {name}", MNIST, f"rbf, C=100, spread={spread}", "") for name, spread in TIGHTER),
    ("MNIST, C=1, bound with penalty D=5", MNIST, "rbf, D=5", ""),
    ("the same, nu=100", MNIST, "rbf, D=5, nu=100", ""),
    ("10,000 rows of MNIST, D=5", SMALL, "rbf, D=5", ""),
    ("the same, nu=100", SMALL, "rbf, D=5, nu=100", ""),
    ("Fashion-MNIST, ten classes, SVM, rbf, C=1", FASHION, "rbf, C=1, spread=1", ""),
    *((f"the same, {name}", FASHION, f"rbf, C=1, spread={spread}", "") for name, spread in TIGHTER),
    (
        "MNIST, 0-4 against 5-9, degree 5, tolerance 2e-3", "mnist, 0-4 against 5-9",
        "poly 5, C=1, svm, tol 2e-3", "",
    ),
    (
        "500,000 rows of covtype (resampled), seven classes, tolerance 1e-2",
        "covtype, 500000 rows, seven classes", "rbf, C=1, tol 1e-2", "",
    ),
    *(
        (
            f"10,000 x {columns:,}, rbf, 50 penalties x 10 folds", CLUSTERS.format(columns),
            SEARCH.format("one batch"), f"TorchKM {published} s on an L40S (published, own data)",
        )
        for columns, published in ((1000, 37.7), (100, 17.9), (10, 23.3))
    ),
    *(
        (
            f"10,000 x {columns:,}, by RelativeMarginClassifierCV", CLUSTERS.format(columns),
            SEARCH.format("the CV estimator"), "",
        )
        for columns in (1000, 100, 10)
    ),
    (
        "breast cancer, linear kernel, columns not scaled", "breast cancer, not scaled",
        "linear, spread=0.5", "",
    ),
]  # fmt: skip


def seconds(row: dict[str, Any]) -> str:
    """Time with two digits."""
    return f"{row['seconds']:.{'2f' if row['seconds'] < 1.0 else '2g'}}"


def numbers(stored: dict[str, Any]) -> str:
    """The table and what was compared, in reStructuredText."""
    every = [row for part in stored["parts"].values() for row in part]
    found = {(row["data"], row["settings"]): row for row in every}
    lines = [
        ".. csv-table::",
        '   :header: "Problem", "Seconds", "For comparison"',
        "   :widths: 50, 10, 40",
        "",
    ]
    for title, data, settings, published in ROWS:
        row = found[data, settings]
        here = found.get((data, f"{settings}, on 16 cores"))
        others = [f"{seconds(here)} s on sixteen cores of that computer"] if here else []
        others += [f"{row['on cores (s)']:.2g} s on cores"] if "on cores (s)" in row else []
        others += [published] if published else []
        lines.append(f'   "{title}", "{seconds(row)}", "{"; ".join(others)}"')
    largest = max(row["largest gap"] for row in every if "covtype" not in row["data"]
                  and "largest gap" in row)  # fmt: skip
    covtype = max(row["largest gap"] for row in every if "covtype" in row["data"])
    pairs = [row for row in every if "labels that differ" in row]
    digits = [row for row in every if row["data"] == MNIST and "support vectors" in row]
    predictions = [1e3 * row["prediction of 10,000 rows (s)"] for row in digits
                   if "prediction of 10,000 rows (s)" in row]  # fmt: skip
    vectors = [row["support vectors"] for row in digits]
    duals = max(row.get("largest difference of dual objectives", 0.0) for row in pairs)
    penalised = max(row.get("largest difference of objectives", 0.0) for row in pairs)
    differ = [row["labels that differ"] for row in pairs]
    same = f"all but {max(differ)} or fewer" if max(differ) else "all"
    text = (
        f"Relative duality gaps are at most {largest:.1e}, and {covtype:.1e} for covtype. "
        f"The models on the device and on the CPU predict the same class for {same} of MNIST's "
        "10,000 test images, with spread 1 and 1/2 and, fitted to 10,000 rows, with D alone and "
        f"with nu; their dual objectives for the same bounds agree to {duals:.1e}, and the "
        f"objectives with a penalty to {penalised:.1e}. Prediction takes {min(predictions):.0f} to "
        f"{max(predictions):.0f} ms for these images, with {round(min(vectors), -3):,} to "
        f"{round(max(vectors), -3):,} support vectors."
    )
    lines += ["", *textwrap.wrap(text, 99, break_long_words=False, break_on_hyphens=False)]
    on_cores = {row["revision"] for row in every if "cores" in row["settings"]}
    others = {row["revision"] for row in every if "cores" not in row["settings"]}
    revisions = ", ".join(sorted(others))
    if on_cores != others:
        revisions += f", and {', '.join(sorted(on_cores))} for the comparison with cores"
    text = (
        f"Measured on one {stored['device']} with revision {revisions}; all of it is in "
        "``benchmarks/results/on_device.json``, made by ``benchmarks/on_device.py``."
    )
    lines += ["", *textwrap.wrap(text, 99, break_long_words=False, break_on_hyphens=False)]
    return "\n".join(lines)


def page(text: str) -> str:
    """The text of the page with the numbers of today."""
    stored = json.loads((ROOT / "benchmarks/results/on_device.json").read_text("utf-8"))
    before, _, rest = text.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    return f"{before}{MARKS[0]}\n\n{numbers(stored)}\n\n{MARKS[1]}{after}"


if __name__ == "__main__":
    path = ROOT / "docs" / "guide" / "gpu.rst"
    path.write_text(page(path.read_text("utf-8")), encoding="utf-8")
