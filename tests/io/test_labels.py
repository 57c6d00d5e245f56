"""Words as numbers: labels, and columns of categories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oblong.io import labels as labels_module
from oblong.io.errors import RowError
from oblong.io.labels import LabelCodes, Words, decode_labels, whole_number


def coded(words, coder):
    """Codes of words that stand side by side in a text."""
    tokens = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, tokens)])
    text = np.frombuffer(b"".join(tokens) + b"\n", dtype=np.uint8)
    return coder.codes(text, np.column_stack([ends[:-1], ends[1:]]))


@given(st.lists(st.text("abcé?0 ", max_size=6), max_size=60))
def test_words_are_numbered_as_they_come(words):
    coder = Words()
    codes, problems = coded(words, coder)
    assert not problems
    found = [coder.words[code] if code >= 0 else None for code in codes]
    assert found == [word.strip() if word.strip() not in ("", "?") else None for word in words]
    assert coder.words == list(dict.fromkeys(word for word in found if word))


def test_many_words_and_few_that_are_remembered(monkeypatch):
    monkeypatch.setattr(labels_module, "_MOST_SPELLINGS", 50)
    words = [f"{k % 300}.{'0' * (k % 7 + 1)}" for k in range(5000)]
    coder = LabelCodes()
    codes, _ = coded(words, coder)
    assert [coder.values()[code] for code in codes] == [k % 300 for k in range(5000)]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *[(word, 1) for word in ("1", "+1", "1.0", "1.", "1e0", "1.000000e+00", "10e-1")],
        *[
            (word, None)
            for word in ("01", "1.5", "one", "", "1e300", "9" * 19, "1_0", "0x1", "nan")
        ],
        ("-0", 0),
        ("9" * 18, 10**18 - 1),
    ],
)
def test_whole_numbers(word, value):
    assert whole_number(word) == value


def test_all_labels_are_words_if_one_is():
    coder = LabelCodes()
    coded(["2", "+1", "1.0"], coder)
    assert (coder.values(), coder.names()) == ([2, 1], ("+1", "2"))
    coded(["x"], coder)
    assert coder.values() == ["2", "1", "x"]
    assert coder.values(2) == [2, 1]
    assert decode_labels(["2", "+1", "x"], np.array([1, 2])).tolist() == ["1", "x"]


def test_labels_that_must_stay_numbers():
    coder = LabelCodes(steady=True)
    _, problems = coded(["2", "x", "1"], coder)
    assert "expected a whole number like the labels before" in str(problems[1])
    assert coder.values() == [2, 1]
    words = LabelCodes(steady=True)
    coded(["x", "1"], words)
    assert words.values() == ["x", "1"]


@pytest.mark.parametrize("word", ["", "NA", "?", "none", "a\x1bb", "\x01"])
def test_what_is_no_label(word):
    with pytest.raises(RowError, match="expected a class label"):
        LabelCodes().code(word.encode())
