"""How long after its arrival a row of a live stream has been learned from.

Rows go to ``oblong stream -`` one by one. With a window of one row the command prints a line when
the row has been learned from; the time until that line is here is measured. Run it as
``python benchmarks/live_stream.py 200``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import numpy as np

# Rows that are not counted: the first ones wait for modules and compiled code.
WARM_UP = 10


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    words = ["stream", "-", "--format", "csv", "--window", "1", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "oblong", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows + WARM_UP, 20))
    print(*(f"x{j}" for j in range(20)), "label", sep=",", file=process.stdin)
    times = []
    for k, x in enumerate(X.tolist()):
        began = time.perf_counter()
        print(*x, "yes" if k % 2 or x[0] > 0 else "no", sep=",", file=process.stdin, flush=True)
        process.stdout.readline()
        times.append(1e3 * (time.perf_counter() - began))
        # The next row finds a command that waits for it.
        time.sleep(0.02)
    process.stdin.close()
    process.wait()
    counted = sorted(times[WARM_UP:])
    late = counted[int(0.99 * len(counted))]
    print(f"{rows} rows: median {statistics.median(counted):.2f} ms, 99 % {late:.2f} ms")


if __name__ == "__main__":
    main()
