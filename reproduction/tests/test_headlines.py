from __future__ import annotations

import pytest

from oblong_reproduction import Choice, Headline, Part

HEADLINE = Headline("a claim", "paper", (Part("one", "^decides"), Part("two", "^also")))


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ([], "not run"),
        (["confirmed", "confirmed"], "confirmed"),
        (["confirmed", "not comparable"], "confirmed"),
        (["confirmed", "agrees: no difference"], "confirmed"),
        (["confirmed", "not confirmed"], "not confirmed"),
        (["confirmed", "contradicted"], "not confirmed"),
        (["not confirmed", "contradicted"], "contradicted"),
        (["agrees: no difference", "contradicted"], "contradicted"),
        (["agrees: no difference", "agrees: no difference"], "agrees: no difference"),
        (["agrees: no difference", "not confirmed"], "not confirmed"),
        (["too few runs", "too few runs", "not run"], "too few runs"),
    ],
)
def test_a_headline_is_confirmed_by_all_its_rows_only(words, verdict):
    rows = [{"what": f"decides {k}", "verdict": word} for k, word in enumerate(words)]
    rows += [{"what": "another row", "verdict": "contradicted"}]
    one = Headline("a claim", "paper", HEADLINE.parts[:1])
    assert one.verdict({"one": {"rows": rows}}) == verdict
    assert len(one.parts[0].deciding({"rows": rows})) == len(words)


def test_a_headline_rests_on_all_its_parts():
    first = {"one": {"rows": [{"what": "decides", "verdict": "confirmed"}]}}
    level = {"two": {"rows": [{"what": "also", "verdict": "agrees: no difference"}]}}
    assert HEADLINE.verdict({**first, **level}) == "confirmed"
    few = {"two": {"rows": [{"what": "also", "verdict": "too few runs"}]}}
    assert HEADLINE.verdict({**first, **few}) == "too few runs"
    assert HEADLINE.verdict(first) == "not run"
    second = {"two": {"rows": [{"what": "also", "verdict": "contradicted"}]}}
    assert HEADLINE.verdict({**first, **second}) == "not confirmed"
    assert HEADLINE.verdict({"one": None, **second}) == "contradicted"
    assert HEADLINE.verdict({}) == "not run"


@pytest.mark.parametrize(
    ("value", "natural", "edge"),
    [
        (0.1, (), "smallest"),
        (0.1 + 1e-12, (), "smallest"),
        (1.0, (), ""),
        (10.0, (), "largest"),
        (10.0, (10.0,), "natural"),
        (30.0, (), ""),
    ],
)
def test_choices_know_the_ends_of_their_grid(value, natural, edge):
    assert Choice("C", value, (1.0, 0.1, 10.0), natural).edge == edge


def test_a_grid_of_one_value_has_no_edge():
    assert Choice("C", 1.0, (1.0,)).edge == ""


def test_a_grid_is_widened_beyond_the_end_that_was_chosen():
    assert Choice("C", 0.1, (0.1, 1.0)).wider(10.0, 2) == [0.001, 0.01, 0.1, 1.0]
    assert Choice("C", 1.0, (0.1, 1.0), natural=(1.0,)).wider(10.0) == [0.1, 1.0]
