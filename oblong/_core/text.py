"""Text from outside, in messages."""

from collections.abc import Iterable, Sequence


def quote(value: object, limit: int = 40) -> str:
    r"""Quote a user's text for a message: one line, printable and of bounded length.

    Examples
    --------
    >>> from oblong._core.text import quote
    >>> print(quote("two\nlines"))
    "two\nlines"
    """
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f'"{printable}"'


def printable(text: str) -> str:
    """Text that cannot steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def listed(names: Sequence[object]) -> str:
    """The first dozen of some names, and how many there are beyond.

    Examples
    --------
    >>> from oblong._core.text import listed
    >>> listed(range(20))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8 more'
    """
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(str(name) for name in names[:12]) + more


def no_such(kind: str, name: str, known: Iterable[str], shown: Iterable[str] = ()) -> str:
    """A message about a name that nothing has: the closest that there is, and what there is.

    Examples
    --------
    >>> from oblong._core.text import no_such
    >>> print(no_such("fruit", "aple", ["apple", "pear"]))
    no fruit "aple" (did you mean "apple"?); the fruits are apple, pear
    """
    # Here, since most commands have no need of it.
    from difflib import get_close_matches

    known = list(known)
    same = [other for other in known if other.casefold() == name.casefold()]
    close = same or get_close_matches(name, known, n=1)
    hint = f" (did you mean {quote(close[0])}?)" if close else ""
    return f"no {kind} {quote(name)}{hint}; the {kind}s are {', '.join(shown or known)}"
