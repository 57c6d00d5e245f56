"""What a command raises when the input was fine and the run was not."""

from __future__ import annotations


class RunError(RuntimeError):
    """A run that failed on input that was fine."""
