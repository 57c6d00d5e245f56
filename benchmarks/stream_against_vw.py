"""``oblong stream`` next to Vowpal Wabbit on a file of a million rows with 50 entries each.

Both run as commands, from their start to their end, over the same rows: Vowpal Wabbit has a format
of its own, which differs by a bar after the label. Both do progressive validation.
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


def make_files(folder: Path, rows: int) -> tuple[Path, Path]:
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


def measure(command: list[str]) -> tuple[float, float]:
    """Seconds and megabytes of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{shlex.join(command)} failed")
    return seconds, usage.ru_maxrss / 1024


def vowpal_wabbit() -> list[str] | None:
    if shutil.which("vw"):
        return ["vw"]
    return [sys.executable, "-m", "vowpalwabbit"] if find_spec("vowpalwabbit") else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the files are kept for the next run")
    parser.add_argument("--vw", type=shlex.split, default=vowpal_wabbit(), help="its command")
    parser.add_argument("--make", action="store_true", help="only make the files")
    arguments, _ = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        libsvm, wabbit = make_files(folder, arguments.rows)
        if arguments.make:
            return
        stream = [sys.executable, "-m", "oblong.cli", "stream", str(libsvm), "--json"]
        commands = {
            "oblong stream, pa": [*stream, "--learner", "pa"],
            "oblong stream, arow": [*stream, "--learner", "arow"],
        }
        if arguments.vw:
            options = ["--binary", "--loss_function", "hinge", "-b", "18", "--quiet"]
            commands["Vowpal Wabbit"] = [*arguments.vw, "-d", str(wabbit), *options]
        else:
            print("Vowpal Wabbit is not installed: pip install vowpalwabbit", file=sys.stderr)
        seconds = {name: [] for name in commands}
        memory = dict.fromkeys(commands, 0.0)
        for _ in range(arguments.repeats):
            for name, command in commands.items():
                taken, size = measure(command)
                seconds[name].append(taken)
                memory[name] = max(memory[name], size)
        rows = []
        fastest = min(seconds["Vowpal Wabbit"]) if arguments.vw else None
        for name in commands:
            best = min(seconds[name])
            rows.append(
                {
                    "command": name,
                    "seconds": best,
                    "rows/s": round(arguments.rows / best),
                    "MB": round(memory[name]),
                    "of Vowpal Wabbit": fastest / best if fastest else None,
                }
            )
    write(
        "stream_against_vw",
        "A stream next to Vowpal Wabbit",
        f"A file of {arguments.rows:,} rows with {ENTRIES} entries each, from the start of the "
        f"command to its end; the best of {arguments.repeats} runs.",
        ["command", "seconds", "rows/s", "MB", "of Vowpal Wabbit"],
        rows,
    )


if __name__ == "__main__":
    main()
