"""The command ``oblong play``."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from oblong.cli import main
from oblong.cli.play.server import PlayServer


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_the_command_serves_until_it_is_interrupted(tmp_path):
    table = tmp_path / "flowers.csv"
    table.write_text("a,b,c,kind\n1,2,3,x\n2,1,4,y\n1,2,3,x\n2,1,4,y\n", encoding="utf-8")
    words = ["play", str(table), "--columns", "c,a", "--no-browser"]
    with subprocess.Popen(
        [sys.executable, "-m", "oblong.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        address = process.stdout.readline().strip()
        port, token = re.fullmatch(r"http://127.0.0.1:(\d+)/\?token=(\S+)", address).groups()
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        headers = {"Content-Type": "application/json", "X-Oblong-Token": token}
        connection.request("POST", "/start", "{}", headers)
        found = json.loads(connection.getresponse().read())["table"]
        connection.close()
        advice = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (found["axes"], found["points"]) == (["c", "a"], 2 * [[3.0, 1.0, 0], [4.0, 2.0, 1]])
    assert (process.returncode, advice, out, err) == (0, "Ctrl-C ends it.\n", "", "")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--port", "70000"], "65535"),
        (["--columns", "1,2"], "expected DATA"),
        (["iris", "--columns", "1"], "two columns"),
        (["iris", "--columns", "petal,sepal"], "expected columns among sepal length"),
        (["lost.csv"], "no such file"),
    ],
)
def test_the_command_refuses(words, problem, capsys):
    assert main(["play", "--no-browser", *words]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "target", "classes"),
    [([], "kind", ["x", "y"]), (["--target", "shop"], "shop", ["inn", "pub"])],
)
def test_play__opens_tables_that_the_page_opens(tmp_path, monkeypatch, words, target, classes):
    rows = "".join(
        f"{'inn' if i % 3 else 'pub'},n{i},{i},{i}.5,2024-01-{i + 1:02d},{'xy'[i % 2]}\n"
        for i in range(20)
    )
    path = tmp_path / "mixed.csv"
    path.write_text("shop,name,a,b,when,kind\n" + rows, encoding="utf-8")
    begun = []
    monkeypatch.setattr(PlayServer, "serve_forever", lambda self, **_: begun.append(self))
    assert main(["play", "--no-browser", str(path), *words]) == 0
    (server,) = begun
    table = server.questions["/start"](None)["table"]
    assert (table["axes"], table["target"], table["classes"]) == (["a", "b"], target, classes)
    assert '"when" (dates)' in table["message"]
    assert server.questions["/table"]({"target": "shop"})["classes"] == ["inn", "pub"]
