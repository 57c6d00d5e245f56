"""How fast ``oblong train`` reads a large CSV file, next to pandas and polars.

Every reader ends with what a classifier takes: features and labels, as arrays. "Frame" is pandas
without that step. ``--command`` also runs ``oblong train`` as a whole, with a cheap model.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _harness import earlier, interleaved, run_per_thread_count, write

COLUMNS = 50
TRAIN = "oblong train, all of it"
# Larger files repeat so many megabytes.
FRESH = 200


def make_file(path: Path, megabytes: int, rows_of: Callable) -> None:
    """Write a table of so many megabytes."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write(",".join(f"x{j}" for j in range(COLUMNS)) + ",kind\n")
        start = file.tell()
        while file.tell() < min(megabytes, FRESH) << 20:
            labels = rng.choice(["near", "far"], 2000).tolist()
            file.writelines(f"{row},{label}\n" for row, label in zip(rows_of(rng), labels))
    with open(path, "rb") as file:
        file.seek(start)
        fresh = file.read()
    with open(path, "ab") as file:
        while file.tell() + len(fresh) < (megabytes << 20) + len(fresh) // 2:
            file.write(fresh)


def numbers(rng: np.random.Generator) -> list[str]:
    """Rows of numbers."""
    return [",".join(map("{:.6g}".format, row)) for row in rng.normal(size=(2000, COLUMNS))]


def mixed(rng: np.random.Generator) -> list[str]:
    """Rows of which a fifth of the columns is text, quoted, and some cells are empty."""
    words = np.array(['"New York, NY"', "Paris", '"a ""quoted"" word"', "Rome", "Oslo", ""])
    width = COLUMNS - COLUMNS // 5
    X = rng.normal(size=(2000, width))
    gaps = rng.random(X.shape) < 0.01
    text = words[rng.integers(len(words), size=(2000, COLUMNS - width))]
    return [
        ",".join(["" if g else f"{x:.6g}" for x, g in zip(row, gap)] + cells)
        for row, gap, cells in zip(X, gaps, text.tolist())
    ]


def with_oblong(path: Path, mixed: bool) -> tuple:
    from oblong.io.tables import read_training_table

    table = read_training_table(path, categorical="auto" if mixed else "none", gaps=mixed)
    return table.X, table.y


def with_pandas(path: Path, engine: str) -> tuple:
    import pandas as pd

    frame = pd.read_csv(path, engine=engine)
    return frame.iloc[:, :-1].to_numpy(), frame.iloc[:, -1].to_numpy()


def with_frame(path: Path) -> tuple:
    import pandas as pd

    return (pd.read_csv(path, engine="c"),)


def with_polars(path: Path) -> tuple:
    import polars as pl

    frame = pl.read_csv(path)
    return frame[:, :-1].to_numpy(), frame[:, -1].to_numpy()


def readers(path: Path) -> dict[str, Callable[[], tuple]]:
    return {
        "oblong": lambda: with_oblong(path, path.stem == "mixed"),
        "pandas, C": lambda: with_pandas(path, "c"),
        "pandas, C, frame": lambda: with_frame(path),
        "pandas, pyarrow": lambda: with_pandas(path, "pyarrow"),
        "polars": lambda: with_polars(path),
    }


def measure(command: list[str], threads: int | None = None) -> tuple[float, float]:
    """Seconds and megabytes of a command, which this process starts while it is small.

    Linux counts what a process was before it became the command.
    """
    hold = None
    if threads and hasattr(os, "sched_setaffinity"):
        processors = sorted(os.sched_getaffinity(0))[:threads]
        hold = lambda: os.sched_setaffinity(0, processors)  # noqa: E731
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=hold)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} failed")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def train(path: Path, threads: int) -> dict:
    """Seconds and megabytes of ``oblong train`` with a model that takes little time."""
    command = [sys.executable, "-m", "oblong.cli", "train", str(path)]
    command += ["--model", "PassiveAggressiveClassifier"]
    if path.stem == "mixed":
        command += ["--categorical", "auto", "--impute", "mean"]
    with tempfile.TemporaryDirectory() as folder:
        seconds, memory = measure([*command, "-o", f"{folder}/model.oblong"], threads)
    row = {"data": label(path), "threads": threads, "reader": TRAIN, "seconds": seconds}
    return row | {"MB/s": path.stat().st_size / 2**20 / seconds, "peak MB": round(memory)}


def label(path: Path) -> str:
    return f"{path.stem}, {path.stat().st_size / 2**20:.0f} MB"


def child(path: Path, threads: int, repeats: int, chosen: list[str]) -> None:
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    tasks = {name: task for name, task in readers(path).items() if not chosen or name in chosen}
    seconds = interleaved(tasks, repeats)
    size = path.stat().st_size / 2**20
    rows = [
        {
            "data": label(path),
            "threads": threads,
            "reader": name,
            "seconds": value,
            "MB/s": size / value,
            "times pandas, C": seconds["pandas, C"] / value,
            "times its frame": seconds["pandas, C, frame"] / value,
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
    parser.add_argument("--readers", nargs="+", help="some of them; pandas, C and its frame too")
    parser.add_argument("--command", action="store_true", help="run oblong train too")
    parser.add_argument("--memory", action="store_true", help="measure memory too")
    parser.add_argument("--only", default="", help="numbers or mixed")
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        readers(Path(arguments.data))[arguments.one]()
        return
    if arguments.child:
        chosen = json.loads(os.environ.get("READERS", "[]"))
        child(Path(arguments.data), arguments.child, arguments.repeats, chosen)
        return
    chosen = [*arguments.readers, "pandas, C", "pandas, C, frame"] if arguments.readers else []
    extra = {"READERS": json.dumps(chosen)}
    rows, peaks = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for rows_of in (numbers, mixed):
            path = (arguments.keep or Path(folder)) / f"{rows_of.__name__}.csv"
            if arguments.only not in ("", path.stem):
                continue
            if not path.exists():
                make_file(path, arguments.megabytes, rows_of)
            if arguments.repeats:
                arguments.data = str(path)
                rows += run_per_thread_count(__file__, arguments, extra)
            if arguments.command:
                rows += [train(path, threads) for threads in arguments.threads]
            if arguments.memory:
                again = [sys.executable, __file__, "--data", str(path), "--one"]
                for name in chosen or readers(path):
                    peaks[label(path), name] = round(measure([*again, name])[1])
    if not rows and not peaks:
        return
    measured = {_kind(row) for row in rows}
    # Other sizes, and what is not measured now, keep their rows.
    rows += [row for row in earlier("reading_files", "\n") if _kind(row) not in measured]
    for row in rows:
        row["peak MB"] = peaks.get((row["data"], row["reader"]), row.get("peak MB"))
    write(
        "reading_files",
        "Reading CSV files",
        f"A file of {COLUMNS} columns and the labels, from the disk cache, to arrays of features "
        "and labels; pandas also to its frame only. Numbers have six digits; of the columns of the "
        "mixed file a fifth is quoted text, and one cell in a hundred is empty. Where pandas makes "
        f"an array of objects of it, oblong holds words as numbers. Files of more than {FRESH} MB "
        "repeat their rows. Memory is the peak of a process that reads once. The last reader is "
        "the whole command with a cheap model: start, reading, scaling, training and saving.",
        [
            "data",
            "threads",
            "reader",
            "seconds",
            "MB/s",
            "peak MB",
            "times pandas, C",
            "times its frame",
        ],
        sorted(rows, key=lambda row: (row["data"].split(",")[0] == "mixed", *_size(row))),
    )


def _kind(row: dict) -> tuple[str, int, str]:
    return row["data"], row["threads"], row["reader"]


def _size(row: dict) -> tuple[int, int, bool, str]:
    return int(row["data"].split()[1]), row["threads"], row["reader"] == TRAIN, row["reader"]


if __name__ == "__main__":
    main()
