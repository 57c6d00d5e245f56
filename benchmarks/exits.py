"""How `oblong train` and `oblong predict` on a CSV file end, over many separate processes.

Run it as ``python benchmarks/exits.py 500``: it prints how often each exit code came, and fails if
any was not 0. A library whose threads outlive the interpreter shows here as exit code -6.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    ends: Counter[tuple[str, int]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "rows.csv"), Path(folder, "rows.oblong")
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3_000, 10))
        label = np.where(X[:, 0] + rng.normal(size=len(X)) > 0, "yes", "no")
        kind = rng.choice(["a", "b", "c"], size=len(X))
        lines = [",".join([*map(repr, row), k, y]) for row, k, y in zip(X.tolist(), kind, label)]
        data.write_text("\n".join([",".join([*"abcdefghij", "kind", "label"]), *lines]) + "\n")
        train = ["train", data, "--model", "rmm-linear", "--categorical", "auto", "--no-score"]
        commands = [[*train, "-o", model], ["predict", model, data]]
        for run in range(runs):
            words = [sys.executable, "-m", "oblong", *map(str, commands[run % 2])]
            done = subprocess.run(words, capture_output=True, env=dict(os.environ), check=False)
            ends[str(words[3]), done.returncode] += 1
            if done.returncode:
                print(words[3], done.returncode, done.stderr.decode()[-500:], flush=True)
            if (run + 1) % 20 == 0:
                print(run + 1, dict(ends), flush=True)
    print(dict(ends))
    return int(any(code for _, code in ends))


if __name__ == "__main__":
    sys.exit(main())
