"""``oblong stream``: progressive validation of an online learner over a stream of rows."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from oblong._core.text import no_such
from oblong.cli.shared.options import add_command, check_apart, output_file, parameter, whole_number
from oblong.cli.streaming.learners import LEARNERS, learner_name
from oblong.io.errors import DataFileError

__all__ = ["add_parser"]

# Metrics over windows; their formulas are in oblong.cli.streaming.metrics.
SCORES = ("auc", "f1", "balanced-error", "log-loss")

_DESCRIPTION = """\
Run an online learner over a file, or standard input, of any size: every row is first
predicted and then learned from, so the errors are those on rows never seen before
(progressive validation). Memory does not depend on the number of rows.
"""

_EPILOG = """\
formats:
  libsvm    label index:value …, comments after #; with --hash-bits label name:value …
  csv, tsv  numbers and a label; with --hash-bits words and empty cells too
  json      an object per line; with --hash-bits words too
  any of these compressed by gzip or Zstandard
  parquet   and, with --format arrow, Arrow's IPC format

learners:
{learners}

A checkpoint holds the learner, the place in the input and the errors so far. After a crash the same
command with --resume goes on from the last one and ends with the same numbers, bit for bit.
SIGTERM writes one more before the command ends with exit code 143.

Rows of standard input are learned from as they arrive, with a checkpoint every few seconds.

examples:
  oblong stream train.libsvm -o model.oblong
  oblong stream clicks.csv.gz --target clicked --hash-bits 20 --report clicks.html
  oblong stream visits.csv --target bought --weight times
  zcat events.jsonl.gz | oblong stream - --format json --learner pa --json
  tail -f visits.csv | oblong stream - --format csv --target bought --window 100 --json
  oblong stream big.libsvm.zst --checkpoint big.ckpt --every 1000000 --resume
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "stream",
        _DESCRIPTION,
        _EPILOG.format(
            learners="\n".join(f"  {name:<12}  {about}" for name, (_, about) in LEARNERS.items())
        ),
    )
    parser.add_argument("data", metavar="FILE", help="the rows, or - for standard input")
    parser.add_argument(
        "--learner",
        type=learner_name,
        default="arow",
        metavar="NAME",
        help="online learner (default: %(default)s)",
    )
    parser.add_argument(
        "--param",
        type=parameter,
        action="append",
        default=[],
        metavar="K=V",
        help='parameter of the learner; covariance is "diag" for sparse rows unless given',
    )
    parser.add_argument(
        "--no-normalize",
        action="store_true",
        help="take the columns as they are, and not in units of their largest values so far",
    )
    parser.add_argument(
        "-i",
        "--initial",
        type=Path,
        metavar="MODEL",
        help="start from a saved linear online learner, in place of --learner and --param",
    )
    parser.add_argument(
        "--test-only", action="store_true", help="predict the rows and learn nothing; needs -i"
    )
    parser.add_argument(
        "--passes",
        type=whole_number(1),
        default=1,
        metavar="N",
        help="times to go over the rows, from the second on from a file in binary form; the "
        "errors are those of the first (default: %(default)s)",
    )
    parser.add_argument(
        "--delay",
        type=whole_number(0),
        default=0,
        metavar="N",
        help="rows that come between a row and its label (default: %(default)s)",
    )
    parser.add_argument(
        "--drift", choices=("adwin",), help="say where errors have grown, by adaptive windowing"
    )
    _add_input(parser.add_argument_group("input"))
    _add_output(parser.add_argument_group("output"))
    parser.set_defaults(run=_run)


def _add_input(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--format",
        choices=("libsvm", "csv", "tsv", "json", "arrow"),
        help="format of the rows (default: by the extension, or else the first row)",
    )
    group.add_argument(
        "--target", metavar="COL", help="label column (default: the last; in JSON: label, y, …)"
    )
    group.add_argument(
        "--weight",
        metavar="COL",
        help="weights of the rows, in a column of a table or of JSON objects; a row of weight 3 "
        "counts as three, of weight 0 as none",
    )
    group.add_argument(
        "--classes",
        type=_words,
        metavar="A,B,…",
        help="all classes there are (default: taken as they come)",
    )
    group.add_argument(
        "--hash-bits",
        type=_bits,
        default=0,
        metavar="B",
        help="hash the names of features to 2^B columns",
    )
    group.add_argument(
        "--text",
        type=lambda text: text.split(","),
        default=[],
        metavar="COL,…",
        help="columns whose texts are cut into words, a feature each; needs --hash-bits",
    )
    group.add_argument(
        "--features",
        type=whole_number(1),
        metavar="N",
        help="number of features of LIBSVM rows (default: grows as they come)",
    )
    group.add_argument(
        "--zero-based", action="store_true", help="indices of LIBSVM rows count from 0"
    )
    group.add_argument(
        "--no-header", action="store_true", help="the first row of a table is a row, not names"
    )
    group.add_argument(
        "--skip-bad", action="store_true", help="skip and count rows that are malformed"
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--window",
        type=whole_number(1),
        default=10_000,
        metavar="N",
        help="rows of a window of the metrics (default: %(default)s)",
    )
    group.add_argument(
        "--metrics",
        type=_metrics,
        default=[],
        metavar="NAME,…",
        help="metrics over windows beside the error: " + ", ".join(SCORES),
    )
    group.add_argument(
        "--checkpoint", type=output_file, metavar="FILE", help="where to write checkpoints"
    )
    group.add_argument(
        "--every",
        type=whole_number(1),
        default=1_000_000,
        metavar="N",
        help="rows between checkpoints (default: %(default)s)",
    )
    group.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint, if there is one"
    )
    group.add_argument(
        "--predictions",
        type=output_file,
        metavar="FILE",
        help="write the class predicted for each row before it is learned from, a line each",
    )
    group.add_argument("-o", "--output", type=output_file, metavar="FILE", help="save the model")
    group.add_argument(
        "--report",
        type=output_file,
        metavar="FILE",
        help="write the curve of the errors, as HTML or, for .json and .jsonl, as JSON lines",
    )
    group.add_argument("--json", action="store_true", help="print JSON lines, one per window")


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if len(words) < 2 or not all(words) or len(set(words)) < len(words):
        raise argparse.ArgumentTypeError("expected two or more different classes, with commas")
    return words


def _metrics(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip().replace("_", "-") for name in text.split(",")))
    for name in names:
        if name not in SCORES:
            raise argparse.ArgumentTypeError(no_such("metric", name, SCORES))
    return names


def _bits(text: str) -> int:
    bits = whole_number(1)(text)
    if bits > 30:
        raise argparse.ArgumentTypeError(f"expected at most 30 bits, got {bits}")
    return bits


def _run(args: argparse.Namespace) -> int:
    if args.resume and args.checkpoint is None:
        raise DataFileError("--resume", "needs --checkpoint, the file to go on from")
    if args.test_only and args.initial is None:
        raise DataFileError("--test-only", "needs a model: -i MODEL")
    if args.text and not args.hash_bits and args.initial is None:
        raise DataFileError("--text", "needs --hash-bits, the columns of the words")
    if args.passes > 1 and args.checkpoint is not None:
        problem = "cannot go with --checkpoint, since the rows of later passes are in a file that "
        problem += "ends with the run; make each pass a run of its own, from the second on with -i"
        raise DataFileError("--passes", problem)
    if args.delay and args.passes > 1:
        raise DataFileError("--delay", "cannot go with --passes: no label is late the second time")
    check_apart([args.data], [args.checkpoint, args.output, args.report, args.predictions])
    page = args.report is not None and args.report.suffix.lower() not in (".json", ".jsonl")
    if page and find_spec("matplotlib") is None:
        raise DataFileError("--report", 'HTML needs matplotlib: pip install "oblong[cli]"')
    # Here and not above, so that help comes at once.
    from oblong.cli.streaming.command import stream

    return stream(args)
