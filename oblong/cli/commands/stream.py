"""``oblong stream``: progressive validation of an online learner over a stream of rows.

Run an online learner over a file, or standard input, of any size: every row is first
predicted and then learned from, so the errors are those on rows never seen before
(progressive validation). Memory does not depend on the number of rows.

formats:
  libsvm    label index:value …, comments after #; with --hash-bits label name:value …
  csv, tsv  numbers and a label; with --hash-bits words and empty cells too
  json      an object per line; with --hash-bits words too
  any of these compressed by gzip or Zstandard
  parquet   and, with --format arrow, Arrow's IPC format

learners:
{learners}

A checkpoint holds the learner, the position in the input and the errors so far. After a crash the
same command with --resume continues from the last one and ends with the same numbers, bit for bit.
SIGTERM writes one more before the command ends with exit code 143.

Rows of standard input are learned from as they arrive, with a checkpoint every few seconds.

examples:
  oblong stream train.libsvm -o model.oblong
  oblong stream clicks.csv.gz --target clicked --hash-bits 20 --report clicks.html
  oblong stream visits.csv --target bought --weight times
  zcat events.jsonl.gz | oblong stream - --format json --learner pa --json
  tail -f visits.csv | oblong stream - --format csv --target bought --window 100 --json
  oblong stream big.libsvm.zst --checkpoint big.ckpt --every 1000000 --resume
"""  # noqa: D405, D406, D407

import argparse
from collections.abc import Callable
from pathlib import Path

from oblong._core.text import no_such
from oblong.cli.shared import options
from oblong.cli.streaming.learners import LEARNERS, learner_name
from oblong.io.errors import DataFileError

# Metrics over windows; their formulas are in oblong.cli.streaming.metrics.
SCORES = ("auc", "f1", "balanced-error", "log-loss")


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    learners = "\n".join(f"  {name:<12}  {about}" for name, (_, about) in LEARNERS.items())
    parser = options.add_command(subparsers, "stream", __doc__, learners=learners)
    add = options.adder(parser)
    add("data FILE", "the rows, or - for standard input")
    add("--learner NAME", "online learner (default: %(default)s)", learner_name, "arow")
    add("--param K=V", "parameter of the learner", options.parameter, [], action="append")
    about = "do not divide the columns by their largest absolute values so far"
    add("--no-normalize", about)
    about = "start from a saved linear online learner, in place of --learner and --param"
    add("-i --initial MODEL", about, Path)
    add("--test-only", "predict the rows and learn nothing; needs -i")
    about = "number of passes over the rows; later ones read a temporary file, and the errors "
    add(
        "--passes N",
        about + "are those of the first (default: %(default)s)",
        options.whole_number(1),
        1,
    )
    about = "number of rows that arrive between a row and its label (default: %(default)s)"
    add("--delay N", about, options.whole_number(0), 0)
    about = "report where errors have grown, by adaptive windowing"
    add("--drift", about, choices=("adwin",))
    _add_input(options.adder(parser.add_argument_group("input")))
    _add_output(options.adder(parser.add_argument_group("output")))
    parser.set_defaults(run=_run)


def _add_input(add: Callable[..., None]) -> None:
    about = "format of the rows (default: by the extension, or else the first row)"
    add("--format", about, choices=("libsvm", "csv", "tsv", "json", "arrow"))
    add("--target COL", "label column (default: the last; in JSON: label, y, …)")
    about = "weights of the rows, in a column of a table or of JSON objects; a row of weight 3 "
    add("--weight COL", about + "counts as three, of weight 0 as none")
    add("--classes A,B,…", "full list of classes (default: discovered from the data)", _words)
    add("--hash-bits B", "hash the names of features to 2^B columns", _bits, 0)
    about = "columns whose texts are split into words, one feature each; needs --hash-bits"
    add("--text COL,…", about, lambda text: text.split(","), [])
    about = "number of features of LIBSVM rows (default: grows with the rows)"
    add("--features N", about, options.whole_number(1, 2**31 - 1))
    add("--zero-based", "indices of LIBSVM rows count from 0")
    add("--no-header", "the first row of a table is data, not a header")
    add("--skip-bad", "skip and count rows that are malformed")


def _add_output(add: Callable[..., None]) -> None:
    about = "number of rows per window of the metrics (default: %(default)s)"
    add("--window N", about, options.whole_number(1), 10_000)
    about = "metrics over windows in addition to the error: " + ", ".join(SCORES)
    add("--metrics NAME,…", about, _metrics, [])
    add("--checkpoint FILE", "where to write checkpoints", options.output_file)
    about = "rows between checkpoints (default: %(default)s)"
    add("--every N", about, options.whole_number(1), 1_000_000)
    add("--resume", "continue from the checkpoint, if there is one")
    about = "write the class predicted for each row before it is learned from"
    add("--predictions FILE", about, options.output_file)
    add("-o --output FILE", "save the model", options.output_file)
    about = "write the error curve, as HTML or, for .json and .jsonl, as JSON lines"
    add("--report FILE", about, options.output_file)
    add("--json", "print JSON lines, one per window")


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
    bits = options.whole_number(1)(text)
    if bits > 30:
        raise argparse.ArgumentTypeError(f"expected at most 30 bits, got {bits}")
    return bits


def _run(args: argparse.Namespace) -> int:
    if args.resume and args.checkpoint is None:
        raise DataFileError("--resume", "needs --checkpoint, the file to continue from")
    if args.test_only and args.initial is None:
        raise DataFileError("--test-only", "needs a model: -i MODEL")
    if args.text and not args.hash_bits and args.initial is None:
        raise DataFileError("--text", "needs --hash-bits, for the columns of the words")
    if args.delay and args.passes > 1:
        problem = "cannot be combined with --passes: labels are late in the first pass only"
        raise DataFileError("--delay", problem)
    options.check_apart([args.data], [args.checkpoint, args.output, args.report, args.predictions])
    page = args.report is not None and args.report.suffix.lower() not in (".json", ".jsonl")
    if page:
        options.require("an HTML --report", "matplotlib")
    # Here and not above, so that help comes at once.
    from oblong.cli.streaming.command import stream

    return stream(args)
