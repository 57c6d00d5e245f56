"""Tables that the page draws."""

from __future__ import annotations

import re

import pytest

from oblong.cli.play.models import BadRequest
from oblong.cli.play.points import PRESETS, preset
from oblong.cli.play.tables import uploaded


def test_tables():
    text = "when,length,width,kind\n" + "".join(
        f"day {i % 5},{i},{'' if i == 3 else i * i},{'ab'[i % 2]}\n" for i in range(400)
    )
    sheet = uploaded({"text": text, "file": "my plants.csv"})
    assert (sheet["axes"], sheet["target"], sheet["classes"]) == (
        ["length", "width"],
        "kind",
        ["a", "b"],
    )
    assert sheet["source"] == "my plants.csv"
    assert sheet["columns"] == ["length", "width"]
    assert set(sheet["all"]) == {"when", "length", "width", "kind"}
    assert len(sheet["points"]) == 300
    assert sheet["message"] == (
        'Columns left out: "when" (text). 1 row without a class or a number is left out. '
        "300 of 399 rows are shown."
    )
    assert all(y == x * x and c == x % 2 for x, y, c in sheet["points"] if x < 300)
    turned = uploaded({"text": text, "x": "width", "y": "length", "target": "when"})
    assert len(turned["classes"]) == 5
    assert turned["points"][0][0] == turned["points"][0][1] ** 2
    bare = uploaded({"text": "1,2,0\n3,4,1\n5,6,0\n", "target": "1"})
    assert bare["columns"] == ["2", "3"]
    with pytest.raises(BadRequest, match="among"):
        uploaded({"text": "1,2,0\n3,4,1\n", "x": "9"})
    assert all(len(preset(name)["points"]) >= 60 for name in PRESETS)


MIXED = "Datum;Kunde;Größe;Umsatz;Art;Notiz\n" + "".join(
    f"{i % 28 + 1}.03.2024;Kunde {i};{i},5;1.{i:03},25;{'ja' if i % 3 else 'nein'};n{i}\n"
    for i in range(40)
)


def test_uploaded__text_dates_and_decimal_commas_are_no_obstacle():
    sheet = uploaded({"text": MIXED, "file": "q.csv"})
    assert (sheet["axes"], sheet["target"]) == (["Größe", "Umsatz"], "Art")
    assert sheet["classes"] == ["ja", "nein"]
    assert sheet["points"][1] == [1.5, 1001.2, 0]
    message = 'Columns left out: "Datum" (dates), "Kunde" (text), "Notiz" (text).'
    assert sheet["message"] == message


def test_uploaded__bad_rows_are_left_out_and_counted():
    text = "a,a,b,kind\n1,2,3,x\n#N/A,4,5,y\n3,4\n5,6,7,x\n1,2,9,\n8,1,2,y\nsum,3,4,5,6\n"
    sheet = uploaded({"text": text})
    assert sheet["columns"] == ["a", "a (2)", "b"]
    assert sheet["points"] == [[1.0, 2.0, 0], [5.0, 6.0, 0], [8.0, 1.0, 1]]
    assert sheet["message"] == (
        "2 rows are left out: row 4 has 2 fields instead of 4. "
        "2 rows without a class or a number are left out."
    )
    # Other columns have other gaps.
    assert len(uploaded({"text": text, "x": "a (2)", "y": "b"})["points"]) == 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,x\n2,y\n", 'expected two columns of numbers beside "b", got only "a"'),
        ("a,b,c\nx,u,r\ny,v,s\n", "got none"),
        ("a,b,c\n1,2,x,9\n", "expected rows of 3 fields"),
        ("a\n1\n", "row 1: expected columns separated by comma"),
        ("", "the file is empty"),
        ('a,b,c\n1,"2,3\n', "row 2: badly quoted"),
        ("a,b,c\n1,\x00,3\n", "row 2: expected text, got binary"),
        (
            "a,b,c\n" + "".join(f"{i},{-i},{i}\n" for i in range(9)),
            "no column has two to 6 different",
        ),
        (
            "a,b,c\n" + "".join(f"{i},{-i},n{i}\n" for i in range(9)),
            "9 different values; at most 6",
        ),
        ("a,b,c\n1,,x\n,2,y\n3,,x\n,4,y\n", "no row has a class and numbers in both"),
    ],
)
def test_uploaded__what_cannot_be_drawn_is_said_in_the_words_of_the_page(text, problem):
    with pytest.raises(BadRequest, match=problem) as caught:
        uploaded({"text": text, "file": "Mappe (1).csv"})
    assert str(caught.value).startswith("Mappe (1).csv")
    assert not re.search(r"\w=|--\w", str(caught.value))


@pytest.mark.parametrize("file", ["-", "../x", "a\x00b", "\ud800.csv", "." * 999, ""])
def test_uploaded__any_name_of_a_file_is_only_a_name(file):
    assert uploaded({"text": "a,b,c\n1,2,x\n3,4,y\n", "file": file})["points"]
