"""How fast ``oblong train`` reads a large CSV file, next to pandas and polars.

Every reader ends with what a classifier takes: an array of features and an array of labels.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _harness import earlier, interleaved, run_per_thread_count, write

COLUMNS = 50


def make_numbers(path: Path, megabytes: int) -> None:
    """Write a table of numbers with a label of text."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write(",".join(f"x{j}" for j in range(COLUMNS)) + ",kind\n")
        while file.tell() < megabytes << 20:
            X = rng.normal(size=(2000, COLUMNS))
            labels = rng.choice(["near", "far"], 2000)
            text = [",".join(map("{:.6g}".format, row)) for row in X]
            file.writelines(f"{row},{label}\n" for row, label in zip(text, labels))


def make_mixed(path: Path, megabytes: int) -> None:
    """Write a table of which a fifth of the columns is text, quoted, and some cells are empty."""
    rng = np.random.default_rng(1)
    words = np.array(['"New York, NY"', "Paris", '"a ""quoted"" word"', "Rome", "Oslo", ""])
    numbers = COLUMNS - COLUMNS // 5
    with open(path, "w") as file:
        file.write(",".join(f"x{j}" for j in range(COLUMNS)) + ",kind\n")
        while file.tell() < megabytes << 20:
            X = rng.normal(size=(2000, numbers))
            gaps = rng.random(X.shape) < 0.01
            text = words[rng.integers(len(words), size=(2000, COLUMNS - numbers))]
            labels = rng.choice(["near", "far"], 2000)
            for row, gap, cells, label in zip(X, gaps, text, labels):
                fields = ["" if g else f"{x:.6g}" for x, g in zip(row, gap)]
                file.write(",".join([*fields, *cells, label]) + "\n")


def with_oblong(path: Path, mixed: bool) -> tuple:
    from oblong.datasets.tables import read_training_table

    table = read_training_table(path, categorical="auto" if mixed else "none", gaps=mixed)
    return table.X, table.y


def with_pandas(path: Path, engine: str) -> tuple:
    import pandas as pd

    frame = pd.read_csv(path, engine=engine)
    return frame.iloc[:, :-1].to_numpy(), frame.iloc[:, -1].to_numpy()


def with_polars(path: Path) -> tuple:
    import polars as pl

    frame = pl.read_csv(path)
    return frame[:, :-1].to_numpy(), frame[:, -1].to_numpy()


def child(path: Path, mixed: bool, threads: int, repeats: int) -> None:
    tasks: dict[str, Callable[[], tuple]] = {
        "oblong": lambda: with_oblong(path, mixed),
        "pandas, C": lambda: with_pandas(path, "c"),
        "pandas, pyarrow": lambda: with_pandas(path, "pyarrow"),
        "polars": lambda: with_polars(path),
    }
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    seconds = interleaved(tasks, repeats)
    size = path.stat().st_size / 2**20
    rows = [
        {
            "data": f"{path.stem}, {size:.0f} MB",
            "threads": threads,
            "reader": name,
            "seconds": value,
            "MB/s": size / value,
            "times pandas, C": seconds["pandas, C"] / value,
        }
        for name, value in seconds.items()
    ]
    json.dump(rows, sys.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3, help="0: write the files only")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--keep", type=Path, help="folder for the files, which are used again")
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="numbers or mixed; the other keeps its rows")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        path = Path(arguments.data)
        child(path, path.stem == "mixed", arguments.child, arguments.repeats)
        return
    rows = earlier("reading_files", arguments.only) if arguments.only else []
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("numbers", make_numbers), ("mixed", make_mixed)):
            path = (arguments.keep or Path(folder)) / f"{name}.csv"
            if not path.exists():
                make(path, arguments.megabytes)
            if not arguments.repeats or arguments.only not in ("", name):
                continue
            arguments.data = str(path)
            rows += run_per_thread_count(__file__, arguments)
    if not rows:
        return
    write(
        "reading_files",
        "Reading CSV files",
        f"A file of {COLUMNS} columns and the labels, from the disk cache, to arrays of features "
        "and labels. Numbers have six digits; of the columns of the mixed file a fifth is quoted "
        "text, and one cell in a hundred is empty.",
        ["data", "threads", "reader", "seconds", "MB/s", "times pandas, C"],
        rows,
    )


if __name__ == "__main__":
    main()
