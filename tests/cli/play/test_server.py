"""To whom the page answers, and that every request has an answer."""

from __future__ import annotations

import http.client
import json
import re
import socket
import struct
import threading
import time
from importlib.resources import files

import pytest

from oblong.cli.play.models import SETTINGS
from oblong.cli.play.server import MOST_BYTES
from tests.cli.play.asking import HUGE, request


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
