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
from oblong.cli.play import models as play_models
from oblong.cli.play.models import MODELS, SETTINGS, BadRequest, State, fit
from oblong.cli.play.points import PRESETS, preset
from oblong.cli.play.program import as_python
from oblong.cli.play.server import MOST_BYTES, PlayServer
from oblong.cli.play.tables import uploaded

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


def run_program(text, monkeypatch):
    """Run a copied program as a script does, but for the window; returns its names and axes."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    scope: dict = {}
    exec(compile(text, "copied", "exec"), scope)
    plt.close("all")
    return scope, scope["ax"]


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_the_copied_program_runs_and_fits_the_same(kernel, capsys, monkeypatch):
    node = request(list(MODELS), kernel, stretch=3.0, angle=60.0) | {"standardize": True}
    scope, _ = run_program(as_python(node), monkeypatch)
    told = dict(re.findall(r"(.+): (\d+) errors", capsys.readouterr().out))
    answers = {model["name"]: model for model in fit_all(node)["models"]}
    assert set(answers) == set(MODELS)
    for name, model in answers.items():
        if name != "mve":
            assert int(told[MODELS[name].title]) == model["errors"]
    assert len(scope["ellipsoids"]) == 2
    assert max(e.gap_ for e in scope["ellipsoids"].values()) == answers["mve"]["gap"]
    np.testing.assert_array_equal(scope["models"]["SVM"].dual_gap_.max(), answers["svm"]["gap"])


@pytest.mark.parametrize("stretched", [False, True])
def test_as_python__draws_what_the_page_shows(stretched, monkeypatch, capsys):
    node = request(["svm", "ekm", "mve"], stretch=4.0) | {"axes": ["wei'ght", "length"]}
    scope, ax = run_program(as_python(node | {"stretched": stretched}), monkeypatch)
    table, stretch = np.array(node["points"]), State.from_json(node).map()
    shown = table[:, :2] @ stretch if stretched else table[:, :2]
    np.testing.assert_allclose(ax.collections[0].get_offsets(), shown, atol=1e-12)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("wei'ght", "length")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["SVM", "EKM", "Ellipsoid per class"]
    # Boundary and margins of two models, and two ellipsoids.
    contours = [c for c in ax.collections[1:] if hasattr(c, "levels")]
    assert len(contours) == 8
    svm = scope["models"]["SVM"]
    for contour in contours[:3]:
        corners = np.concatenate([path.vertices for path in contour.get_paths()])
        seen = corners if stretched else corners @ stretch
        np.testing.assert_allclose(svm.decision_function(seen), contour.levels[0], atol=1e-6)


def test_as_python__draws_boundaries_of_three_classes(monkeypatch, capsys):
    _, ax = run_program(as_python(request(["svm"], "rbf", "iris")), monkeypatch)
    assert sum(hasattr(c, "levels") for c in ax.collections) == 3
    run_program(as_python(request([])), monkeypatch)


def test_what_cannot_be_fitted_is_said():
    one = request(["svm"]) | {"points": [[0.0, 0.0, 0], [1.0, 1.0, 0]]}
    assert "two classes" in fit(one)["message"]
    two = request(["svm", "mve"]) | {"points": [[0.0, 0.0, 0], [0.0, 0.0, 1]]}
    answers = fit_all(two)["models"]
    assert all(model["lines"] or model["message"] for model in answers)


def test_fit__what_did_not_converge_is_said_without_parameters():
    places = np.random.default_rng(0).normal(size=(200, 2)).tolist()
    points = [[*place, k % 2] for k, place in enumerate(places)]
    model = fit({"points": points, "models": ["cw"], "kernel": "linear", "view": VIEW})["models"][0]
    assert model["message"] == "The fit has not converged."


HUGE = [[0.0, 0.0, 0], [1e100, 1e100, 1], [1e100, -1e100, 0], [3.0, 1.0, 1]]


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("stretch", [1.0, 16.0])
@pytest.mark.parametrize("view", [[-3.0, 3.0, -3.0, 3.0], [-1e299, 1e299, -1e299, 1e299]])
def test_fit__numbers_that_overflow_get_a_sentence(kernel, stretch, view, recwarn):
    near = [[0.0, 0.0, 0], [1.0, 1.0, 1], [2.0, 0.0, 0], [3.0, 1.0, 1]]
    for points in (HUGE, near):
        node = {"points": points, "models": list(MODELS), "kernel": kernel, "view": view}
        answers = fit_all(node | {"settings": {"stretch": stretch}})
        json.dumps(answers, allow_nan=False)
        assert [model["name"] for model in answers["models"]] == list(MODELS)
        assert all(model["lines"] or model["message"] for model in answers["models"])
    assert [str(each.message) for each in recwarn] == []


def test_fit__the_time_of_a_fit_has_no_loading_in_it(monkeypatch):
    class Slow:
        """Loads for a while before its first fit, as compiled code does."""

        loaded = False

        def fit(self, X, y):
            if not Slow.loaded:
                time.sleep(0.3)
            Slow.loaded = True
            return oblong.RelativeMarginClassifier().fit(X, y)

    slow = MODELS["pa"]._replace(kind=Slow, group="batch", sliders=(), fixed={})
    monkeypatch.setattr(play_models.Model, "make", lambda self, *_: self.kind())
    monkeypatch.setitem(MODELS, "pa", slow)
    monkeypatch.setattr(play_models, "_loading", {})
    first = fit(request(["pa"], C=1.7))
    assert first["delay"] > first["models"][0]["seconds"]
    assert fit(request(["pa"], C=1.8))["delay"] == 0.0


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
        ("a,b,c\n" + "".join(f"{i},{-i},{i}\n" for i in range(9)), "9 different values; at most 6"),
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
    assert post(server, Origin=f"127.0.0.1:{server.server_port}")[0] == 403
    assert post(server, Origin=f"https://127.0.0.1:{server.server_port}")[0] == 403
    assert post(server, "/start", Origin=f"http://127.0.0.1:{server.server_port}")[0] == 200
    # A form, or a fetch that needs no leave, cannot have the right type.
    assert post(server, Content_Type="text/plain")[0] == 415
    assert send(server, "OPTIONS", "/fit")[0] == 501


def exchange(server, text):
    """All that comes back for what is sent over one connection."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(text)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(1 << 16), b""))


def test_a_page_with_a_body_is_refused_and_its_body_is_no_request(server):
    host = f"Host: 127.0.0.1:{server.server_port}\r\n"
    inner = f"GET /page.css HTTP/1.1\r\n{host}\r\n"
    for header in (f"Content-Length: {len(inner)}", "Transfer-Encoding: chunked"):
        asked = f"GET /page.js HTTP/1.1\r\n{host}{header}\r\n\r\n{inner}"
        answer = exchange(server, asked.encode())
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1 ") == 1
    # Without a body the connection is kept.
    assert exchange(server, 2 * inner.encode()).count(b"HTTP/1.1 200 ") == 2


def test_headers_that_must_be_single_are(server):
    own = f"127.0.0.1:{server.server_port}"
    head = "POST /start HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    head += f"Host: {own}\r\nX-Oblong-Token: {server.token}\r\nOrigin: http://{own}\r\n"
    assert exchange(server, f"{head}\r\n{{}}".encode()).startswith(b"HTTP/1.1 200 ")
    for more in (
        "Host: evil.example",
        f"Host: {own}",
        "Content-Length: 2",
        f"X-Oblong-Token: {server.token}",
        "Origin: http://evil.example",
        "Content-Type: text/plain",
    ):
        answer = exchange(server, f"{head}{more}\r\n\r\n{{}}".encode())
        assert answer.startswith(b"HTTP/1.1 400 ")


def test_a_large_body_that_is_refused_has_an_answer(server):
    status, _, body = post(server, node=b" " * (MOST_BYTES + 1))
    assert status == 413
    assert "bytes" in json.loads(body)["error"]


def test_a_request_that_does_not_come_is_answered(server, monkeypatch):
    monkeypatch.setattr("oblong.cli.play.server._Handler.timeout", 0.2)
    head = f"POST /start HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
    head += f"X-Oblong-Token: {server.token}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(f"{head}Content-Length: 9\r\n\r\n[".encode())
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 408 ")


def test_a_request_does_not_wait_for_ever(server, monkeypatch):
    monkeypatch.setattr("oblong.cli.play.server._LONGEST_WAIT", 0.05)
    running, end = threading.Event(), threading.Event()

    def long_fit(node):
        running.set()
        end.wait(60)
        return {"delay": 0.0}

    monkeypatch.setattr("oblong.cli.play.server.fit", long_fit)
    first = threading.Thread(target=post, args=(server,))
    first.start()
    assert running.wait(60)
    status, _, body = post(server)
    end.set()
    first.join()
    assert status == 400
    assert "still running" in json.loads(body)["error"]
    assert post(server)[0] == 200


def test_a_failure_of_the_server_is_an_answer_too(server, monkeypatch, capfd):
    def broken(_):
        raise RuntimeError("too bad\nat all")

    monkeypatch.setitem(server.questions, "/preset", broken)
    status, _, body = post(server, "/preset", {"name": "stripes"})
    assert status == 500
    assert "(RuntimeError: too bad)" in json.loads(body)["error"]
    assert post(server, "/start")[0] == 200
    assert capfd.readouterr().err == ""


def test_overflow_is_answered_and_nothing_is_printed(server, capfd):
    view = [-1e299, 1e299, -1e299, 1e299]
    node = {"points": HUGE, "models": ["svm", "ekm", "bpm"], "kernel": "poly", "view": view}
    status, _, body = post(server, node=node)
    assert status == 200
    assert "too large" in json.loads(body)["models"][0]["message"]
    assert post(server, "/python", node)[0] == 200
    assert capfd.readouterr().err == ""


def test_warm_up__loads_before_the_page_asks(server):
    server.warm_up()
    status, _, body = post(server, node=request(["svm", "rmm"], C=3.0))
    assert status == 200
    assert json.loads(body)["delay"] < 0.1


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
    folder = files("oblong.cli.play").iterdir()
    texts = [page.read_text("utf-8") for page in folder if page.suffix in (".html", ".css", ".js")]
    assert len(texts) == 5
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
