"""A directive that runs an ``oblong`` command and shows what it prints.

The pages on the command line are therefore never behind the program::

    .. oblong:: compare --help

With the option ``report`` the command also writes its report into the built pages.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class CommandOutput(SphinxDirective):
    """Show a command line and its output."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {"report": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Run the command; a command that fails, fails the build."""
        shown = f"oblong {self.arguments[0]}"
        words = [sys.executable, "-m", "oblong.cli", *shlex.split(self.arguments[0])]
        folder = self.env.app.outdir
        folder.mkdir(parents=True, exist_ok=True)
        if report := self.options.get("report"):
            words += ["--report", report]
            shown += f" --report {report}"
        here = os.pathsep.join(path for path in sys.path if path)
        done = subprocess.run(
            words,
            cwd=folder,
            env=os.environ | {"COLUMNS": "80", "PYTHONPATH": here},
            capture_output=True,
            encoding="utf-8",
        )
        if done.returncode:
            raise self.error(f"{shown!r} failed: {done.stderr.strip()}")
        lines = (line.rstrip() for line in done.stdout.strip("\n").splitlines())
        text = "\n".join([f"$ {shown}", *lines])
        return [nodes.literal_block(text, text, language="console")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("oblong", CommandOutput)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
