"""The page of ``oblong play``: what it computes, and to whom it answers."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from importlib.resources import files

import numpy as np
import pytest

import oblong
from oblong.cli import main
from oblong.cli.play.models import MODELS, SETTINGS, BadRequest, State, as_python, fit
from oblong.cli.play.points import PRESETS, preset, uploaded
from oblong.cli.play.server import MOST_BYTES, PlayServer

VIEW = [-2.0, 2.5, -2.0, 2.0]


def request(models, kernel="linear", data="stripes", **settings):
    node = {"points": preset(data)["points"], "models": models, "kernel": kernel, "view": VIEW}
    return node | {"settings": settings}


def fit_all(node):
    """Ask as the page does: again, for those models that were not done in time."""
    answer = fit(node)
    while answer["rest"]:
        more = fit(node | {"models": answer["rest"]})
        assert len(more["rest"]) < len(answer["rest"])
        answer = more | {"models": answer["models"] + more["models"]}
    return answer


def field(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(float)


def grid(answer):
    lines = [np.linspace(low, high, answer["grid"]) for low, high in (VIEW[:2], VIEW[2:])]
    return np.stack(np.meshgrid(*lines), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_fields_are_decision_functions(kernel):
    node = request(["rmm", "ekm"], kernel, C=8.0, spread=0.25, coverage=0.9)
    answer = fit_all(node)
    table = np.array(node["points"])
    X, y = table[:, :2], table[:, 2].astype(int)
    rmm = oblong.RelativeMarginClassifier(C=8.0, spread=0.25, kernel=kernel).fit(X, y)
    ekm = oblong.EllipsoidalKernelClassifier(C=8.0, coverage=0.9, kernel=kernel).fit(X, y)
    rows = grid(answer)
    for model, known in zip(answer["models"], (rmm, ekm)):
        outputs = known.decision_function(rows)
        # The width of the kernel has six digits, so that it can be copied.
        near = {"rtol": 1e-3, "atol": 1e-3 * np.abs(outputs).max()}
        np.testing.assert_allclose(field(model["lines"]["boundary"][0]), outputs, **near)
        np.testing.assert_allclose(field(model["lines"]["margin"][0]), outputs - 1.0, **near)
        assert model["gap"] == pytest.approx(known.dual_gap_.max(), abs=1e-4)
        assert model["errors"] == np.sum(known.predict(X) != y)
    lines = answer["models"][0]["lines"]
    assert answer["models"][0]["bound"] == pytest.approx(rmm.B_[0], rel=1e-3)
    np.testing.assert_allclose(
        field(lines["bound"][1]) - field(lines["bound"][0]), 2.0 * rmm.B_[0], rtol=1e-2
    )
    inside = field(answer["models"][1]["lines"]["ellipsoid"][0]) <= 0.0
    assert np.mean(inside == (ekm.ellipsoid_.predict(rows) == 1)) > 0.999


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["svm", "ekm", "esvm", "bpm", "arow", "cellip"])
def test_boundaries_of_three_classes_separate_what_is_predicted(name):
    node = request([name], "rbf", "iris") | {"view": [0.0, 8.0, -1.0, 4.0]}
    answer = fit(node)["models"][0]
    assert "margin" not in answer["lines"]
    state = State.from_json(node)
    X, y = state.arrays()
    gamma = {"gamma": float(f"{1.0 / (2 * X.var()):.6g}"), "kernel": "rbf"}
    model = MODELS[name].make(state, gamma).fit(X, y)
    lines = np.linspace(0.0, 8.0, 64), np.linspace(-1.0, 4.0, 64)
    predicted = model.predict(np.stack(np.meshgrid(*lines), axis=-1).reshape(-1, 2))
    for k, text in enumerate(answer["lines"]["boundary"]):
        values = field(text)
        np.testing.assert_array_equal(values > 0, (predicted == k) & (values != 0))


def test_the_stretch_turns_the_svm_and_not_the_ellipsoidal_kernel():
    answer = fit_all(request(["svm", "rmm", "sigma", "ekm", "arow"], stretch=4.0))
    turned = {model["name"]: model["turned"] for model in answer["models"]}
    assert turned["svm"] > 45
    assert turned["rmm"] < 10
    assert turned["ekm"] < 0.01
    # No scaling of the columns helps, since the stretch runs across them.
    scaled = fit(request(["svm"], stretch=4.0) | {"standardize": True})
    assert scaled["models"][0]["turned"] > 45


def test_in_the_stretched_frame_the_same_boundary_is_drawn_elsewhere():
    node = request(["svm"], stretch=2.0, angle=30.0)
    here = fit(node)
    there = fit(node | {"stretched": True})
    table = np.array(node["points"])
    stretch = State.from_json(node).map()
    svm = oblong.RelativeMarginClassifier(spread=1.0, kernel="linear")
    svm.fit(table[:, :2] @ stretch, table[:, 2])
    for answer, rows in ((here, grid(here) @ stretch), (there, grid(there))):
        np.testing.assert_allclose(
            field(answer["models"][0]["lines"]["boundary"][0]),
            svm.decision_function(rows),
            atol=1e-4,
        )


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_the_copied_program_runs_and_fits_the_same(kernel, capsys):
    node = request(list(MODELS), kernel, stretch=3.0, angle=60.0) | {"standardize": True}
    scope: dict = {}
    exec(compile(as_python(node), "copied", "exec"), scope)
    told = dict(re.findall(r"(.+): (\d+) errors", capsys.readouterr().out))
    answers = {model["name"]: model for model in fit_all(node)["models"]}
    assert set(answers) == set(MODELS)
    for name, model in answers.items():
        if name != "mve":
            assert int(told[MODELS[name].title]) == model["errors"]
    assert len(scope["ellipsoids"]) == 2
    assert max(e.gap_ for e in scope["ellipsoids"].values()) == answers["mve"]["gap"]
    np.testing.assert_array_equal(scope["models"]["SVM"].dual_gap_.max(), answers["svm"]["gap"])


def test_what_cannot_be_fitted_is_said():
    one = request(["svm"]) | {"points": [[0.0, 0.0, 0], [1.0, 1.0, 0]]}
    assert "two classes" in fit(one)["message"]
    two = request(["svm", "mve"]) | {"points": [[0.0, 0.0, 0], [0.0, 0.0, 1]]}
    answers = fit_all(two)["models"]
    assert all(model["lines"] or model["message"] for model in answers)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"points": "x"}, "list"),
        ({"points": [[0.0, 0.0, 0]] * 2001}, "2000"),
        ({"points": [[0.0, float("nan"), 0]]}, "finite"),
        ({"points": [[0.0, True, 0]]}, "finite"),
        ({"points": [[0.0, 0.0, 0.5]]}, "classes"),
        ({"points": [[0.0, 0.0, 6]]}, "classes"),
        ({"points": [[1e200, 0.0, 0]]}, "moderate"),
        ({"models": ["svc"]}, "models"),
        ({"models": [["svm"]]}, "models"),
        ({"kernel": "sigmoid"}, "kernel"),
        ({"settings": {"C": -1.0}}, "C from"),
        ({"settings": {"C": "1"}}, "C from"),
        ({"settings": {"tol": 1.0}}, "settings"),
        ({"view": [0.0, 0.0, 1.0, 2.0]}, "left < right"),
        ({"view": None}, "view"),
    ],
)
def test_bad_requests(change, problem):
    with pytest.raises(BadRequest, match=problem):
        fit(request(["svm"]) | change)


def test_tables():
    text = "when,length,width,kind\n" + "".join(
        f"day {i % 5},{i},{'' if i == 3 else i * i},{'ab'[i % 2]}\n" for i in range(400)
    )
    found = uploaded({"text": text})
    assert (found["axes"], found["target"], found["classes"]) == (
        ["length", "width"],
        "kind",
        ["a", "b"],
    )
    assert found["columns"] == ["length", "width"]
    assert set(found["all"]) == {"when", "length", "width", "kind"}
    assert len(found["points"]) == 300
    assert found["message"] == "300 of 400 rows are shown."
    assert all(y == x * x and c == x % 2 for x, y, c in found["points"] if x < 300)
    turned = uploaded({"text": text, "x": "width", "y": "length", "target": "when"})
    assert len(turned["classes"]) == 5
    assert turned["points"][0][0] == turned["points"][0][1] ** 2
    numbers = "a,b,c\n" + "".join(f"{i},{-i},{i}\n" for i in range(9))
    many = uploaded({"text": numbers})
    assert many["points"] == []
    assert "choose another" in many["message"]
    bare = uploaded({"text": "1,2,0\n3,4,1\n5,6,0\n", "target": "1"})
    assert bare["columns"] == ["2", "3"]
    for text, problem in (("a,b\n1,x\n2,y\n", "two columns"), ("a,b,c\n1,2,x,9\n", "3 fields")):
        with pytest.raises(BadRequest, match=problem):
            uploaded({"text": text})
    with pytest.raises(BadRequest, match="among"):
        uploaded({"text": "1,2,0\n3,4,1\n", "x": "9"})
    assert all(len(preset(name)["points"]) >= 60 for name in PRESETS)


# The server --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with PlayServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()
    finally:
        connection.close()


def post(server, path="/fit", node=None, **headers):
    given = {"Content_Type": "application/json", "X_Oblong_Token": server.token} | headers
    body = node if isinstance(node, bytes) else json.dumps(node)
    return send(server, "POST", path, body, **{k: v for k, v in given.items() if v is not None})


def test_the_server_answers_this_machine_only(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url.startswith(f"http://127.0.0.1:{server.server_port}/?token=")
    assert len(server.token) >= 32


def test_page_and_questions(server):
    status, headers, page = send(server, "GET", f"/?token={server.token}")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert b"page.js" in page
    assert [send(server, "GET", f"/page.{kind}")[0] for kind in ("js", "css")] == [200, 200]
    status, _, body = post(server, "/start")
    assert status == 200
    assert [name for name, *_ in json.loads(body)["settings"]] == list(SETTINGS)
    status, _, body = post(server, node=request(["svm"]))
    assert status == 200
    assert json.loads(body)["models"][0]["gap"] < 1e-3


def test_who_does_not_know_the_token_gets_nothing(server):
    assert send(server, "GET", "/")[0] == 403
    assert send(server, "GET", "/?token=" + "x" * 32)[0] == 403
    assert post(server, X_Oblong_Token=None)[0] == 403
    assert post(server, X_Oblong_Token=server.token[:-1])[0] == 403
    assert post(server, X_Oblong_Token="ä".encode("latin-1").decode("latin-1"))[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1.evil.example:1", ""])
def test_other_hosts_are_refused(server, host):
    assert send(server, "GET", f"/?token={server.token}", Host=host)[0] == 421
    assert post(server, Host=host)[0] == 421


def test_pages_from_elsewhere_are_refused(server):
    assert post(server, Origin="https://evil.example")[0] == 403
    assert post(server, Origin="null")[0] == 403
    assert post(server, "/start", Origin=f"http://127.0.0.1:{server.server_port}")[0] == 200
    # A form, or a fetch that needs no leave, cannot have the right type.
    assert post(server, Content_Type="text/plain")[0] == 415
    assert send(server, "OPTIONS", "/fit")[0] == 501


def test_bodies_are_limited(server):
    assert post(server, node=b"{}", Content_Length=str(MOST_BYTES + 1))[0] == 413
    assert post(server, Content_Length="9" * 30)[0] == 413
    assert post(server, Content_Length="-1")[0] == 411
    assert post(server, node=b"", Transfer_Encoding="chunked", Content_Length="0")[0] == 411
    assert post(server, node=b"[" * 100_000)[0] == 400
    assert post(server, node=b"\xff")[0] == 400
    status, _, body = post(server, node=request(["svm"]) | {"kernel": "x"})
    assert (status, json.loads(body)["error"][:17]) == (400, "expected a kernel")
    # The server is still there.
    assert post(server, "/start")[0] == 200


def test_what_is_no_address_is_no_page(server):
    assert send(server, "GET", "ftp://[")[0] == 404


def test_a_page_that_has_gone_leaves_no_trace(server, capfd):
    head = f"POST /python HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
    head += f"X-Oblong-Token: {server.token}\r\nContent-Type: application/json\r\n"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.server_port)) as gone:
            # A connection that is reset, with an answer still to come.
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.sendall(f"{head}Content-Length: 9\r\n\r\n[".encode())
    assert post(server, "/preset", {"name": "stripes"})[0] == 200
    time.sleep(0.2)
    assert capfd.readouterr().err == ""


def test_every_answer_forbids_what_is_foreign(server):
    answers = [
        send(server, "GET", f"/?token={server.token}"),
        send(server, "GET", "/../../etc/passwd"),
        send(server, "GET", "/"),
        send(server, "DELETE", "/"),
        post(server, "/start"),
        post(server, "/nothing"),
    ]
    assert [answer[0] for answer in answers] == [200, 404, 403, 501, 200, 404]
    for _, headers, _ in answers:
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers


def test_the_page_is_small_and_its_own():
    pages = [files("oblong.cli.play").joinpath(f"page.{kind}") for kind in ("html", "css", "js")]
    texts = [page.read_text("utf-8") for page in pages]
    assert sum(len(text.encode()) for text in texts) <= 60_000
    addresses = set(re.findall(r"\w+://[\w./]+", "".join(texts)))
    # The name of a language, which nobody fetches.
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\bstyle=|\bon\w+=|innerHTML|eval\(", "".join(texts))


# The command -------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_the_command_serves_until_it_is_interrupted(tmp_path):
    table = tmp_path / "flowers.csv"
    table.write_text("a,b,c,kind\n1,2,3,x\n2,1,4,y\n", encoding="utf-8")
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
    assert (found["axes"], found["points"]) == (["c", "a"], [[3.0, 1.0, 0], [4.0, 2.0, 1]])
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
