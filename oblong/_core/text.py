"""Text for messages."""

from __future__ import annotations

__all__ = ["quote"]


def quote(value: object, limit: int = 40) -> str:
    r"""Quote a user's text for a message: one line, printable and of bounded length.

    Examples
    --------
    >>> from oblong._core.text import quote
    >>> quote("two\nlines")
    '"two\\nlines"'
    """
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f'"{printable}"'
