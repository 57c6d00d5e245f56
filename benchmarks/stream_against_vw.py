"""``oblong stream`` next to Vowpal Wabbit, and to pandas with scikit-learn, on large files.

All run as commands, from their start to their end, over the same rows: Vowpal Wabbit has a format
of its own, which differs by a bar after the label. All do progressive validation, or, in the case
of pandas, score a chunk before it is learned from. Several passes read from a binary cache from the
second on, in both programs; the time of one such pass is the difference to a single pass, divided.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from _harness import write

COLUMNS, ENTRIES = 50_000, 50
DENSE_ROWS, DENSE_COLUMNS = 500_000, 30
PASSES = 5
PANDAS = """
import sys, pandas as pd
from sklearn.linear_model import SGDClassifier
model, mistakes, rows = SGDClassifier(), 0, 0
for chunk in pd.read_csv(sys.argv[1], chunksize=10_000):
    X, y = chunk.iloc[:, :-1].to_numpy(), chunk.iloc[:, -1].to_numpy()
    if rows:
        mistakes += (model.predict(X) != y).sum()
    rows += len(y)
    model.partial_fit(X, y, classes=[-1, 1])
print(mistakes / rows)
"""


def make_sparse(folder: Path, rows: int) -> tuple[Path, Path]:
    """Write the rows in both formats; the label is the sign of a linear function, with noise."""
    libsvm, wabbit = folder / f"{rows}.libsvm", folder / f"{rows}.vw"
    if libsvm.exists() and wabbit.exists():
        return libsvm, wabbit
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(COLUMNS)
    names = [f" {j + 1}:" for j in range(COLUMNS)]
    numbers = np.round(np.arange(-30_000, 30_001) / 1e4, 4)
    texts = [f"{x:.4f}" for x in numbers.tolist()]
    with open(libsvm, "w") as one, open(wabbit, "w") as other:
        for _ in range(0, rows, 1000):
            # One column of each of so many ranges, so that they are sorted and different.
            width = COLUMNS // ENTRIES
            columns = rng.integers(0, width, (1000, ENTRIES)) + width * np.arange(ENTRIES)
            values = np.clip((rng.standard_normal((1000, ENTRIES)) * 1e4).round(), -3e4, 3e4)
            values = values.astype(int) + 30_000
            outputs = (weights[columns] * numbers[values]).sum(axis=1)
            labels = outputs + 2.0 * rng.standard_normal(1000) > 0
            for label, js, vs in zip(labels, columns.tolist(), values.tolist()):
                row = "".join([names[j] + texts[v] for j, v in zip(js, vs)])
                sign = "1" if label else "-1"
                one.write(f"{sign}{row}\n")
                other.write(f"{sign} |{row}\n")
    return libsvm, wabbit


def make_dense(folder: Path, rows: int) -> tuple[Path, Path]:
    """The same for rows with all columns, as CSV with a header."""
    table, wabbit = folder / f"{rows}.csv", folder / f"{rows}.dense.vw"
    if table.exists() and wabbit.exists():
        return table, wabbit
    rng = np.random.default_rng(1)
    weights = rng.standard_normal(DENSE_COLUMNS)
    with open(table, "w") as one, open(wabbit, "w") as other:
        one.write(",".join([f"f{j}" for j in range(DENSE_COLUMNS)] + ["label"]) + "\n")
        for _ in range(0, rows, 1000):
            X = rng.standard_normal((1000, DENSE_COLUMNS)).round(4)
            labels = X @ weights + 2.0 * rng.standard_normal(1000) > 0
            for label, row in zip(labels, X.tolist()):
                sign, words = "1" if label else "-1", [f"{x:.4f}" for x in row]
                one.write(",".join([*words, sign]) + "\n")
                pairs = " ".join(f"{j}:{x}" for j, x in enumerate(words))
                other.write(f"{sign} | {pairs}\n")
    return table, wabbit


def measure(command: list[str]) -> tuple[float, float, float]:
    """Seconds of processor and clock, and megabytes of a command."""
    began = time.perf_counter()
    # As installed packages have it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=null, stderr=null, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{shlex.join(command)} failed")
    return usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / 1024


def vowpal_wabbit() -> list[str] | None:
    if shutil.which("vw"):
        return ["vw"]
    return [sys.executable, "-m", "vowpalwabbit"] if find_spec("vowpalwabbit") else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the sparse file")
    parser.add_argument("--dense-rows", type=int, default=DENSE_ROWS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the files are kept for the next run")
    parser.add_argument("--vw", type=shlex.split, default=vowpal_wabbit(), help="its command")
    parser.add_argument("--make", action="store_true", help="only make the files")
    arguments, _ = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        libsvm, sparse = make_sparse(folder, arguments.rows)
        table, dense = make_dense(folder, arguments.dense_rows)
        if arguments.make:
            return
        stream = [sys.executable, "-m", "oblong", "stream"]
        several = ["--passes", str(PASSES)]
        cases: dict[tuple[str, str], list[str]] = {}
        for what, file in (("LIBSVM", libsvm), ("CSV", table)):
            for learner in ("arow", "pa"):
                words = [*stream, str(file), "--json", "--learner", learner]
                cases[what, f"oblong stream, {learner}"] = words
                cases[f"{what}, {PASSES} passes", f"oblong stream, {learner}"] = words + several
        cases["CSV", "pandas chunks, SGDClassifier"] = [sys.executable, "-c", PANDAS, str(table)]
        if arguments.vw:
            options = ["--binary", "--loss_function", "hinge", "-b", "18", "--quiet"]
            for what, file in (("LIBSVM", sparse), ("CSV", dense)):
                words = [*arguments.vw, "-d", str(file), *options]
                cases[what, "Vowpal Wabbit"] = words
                cache = ["-k", "--cache_file", str(Path(temporary) / "cache"), *several]
                # It stops early by default.
                cache += ["--holdout_off"]
                cases[f"{what}, {PASSES} passes", "Vowpal Wabbit"] = words + cache
        else:
            print("Vowpal Wabbit is not installed: pip install vowpalwabbit", file=sys.stderr)
        best: dict[tuple[str, str], list[float]] = {}
        for _ in range(arguments.repeats):
            for case, command in cases.items():
                found = measure(command)
                best[case] = [min(a, b) for a, b in zip(found, best.get(case, found))]
    for (what, name), numbers in list(best.items()):
        single = best.get((what.partition(",")[0], name))
        if single is not None and "passes" in what:
            rest = [(a - b) / (PASSES - 1) for a, b in zip(numbers[:2], single[:2])]
            best[what.replace(f"{PASSES} passes", "a later pass"), name] = [*rest, numbers[2]]
    rows = []
    for (what, name), (processor, seconds, memory) in best.items():
        peer = best.get((what, "Vowpal Wabbit"))
        rows.append(
            {
                "input": what,
                "command": name,
                "processor s": processor,
                "seconds": seconds,
                "MB": round(memory),
                "of Vowpal Wabbit": peer[0] / processor if peer else None,
            }
        )
    rows.sort(key=lambda row: row["input"])
    write(
        "stream_against_vw",
        "A stream next to Vowpal Wabbit",
        f"{arguments.rows:,} LIBSVM rows with {ENTRIES} entries each, and {arguments.dense_rows:,} "
        f"CSV rows with {DENSE_COLUMNS} columns, from the start of the command to its end; the "
        f"best of {arguments.repeats} runs. The ratio is that of processor time, larger is better.",
        ["input", "command", "processor s", "seconds", "MB", "of Vowpal Wabbit"],
        rows,
    )


if __name__ == "__main__":
    main()
