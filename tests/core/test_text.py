from __future__ import annotations

from oblong._core.text import quote


def test_quoted_text_is_one_short_line():
    assert quote("a\tb") == '"a\\tb"'
    assert quote("x" * 50) == '"' + "x" * 39 + "…" + '"'
    assert quote("x" * 50, 60) == '"' + "x" * 50 + '"'
