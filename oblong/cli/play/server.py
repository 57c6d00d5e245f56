"""The server behind the page: this computer only, one page, a few questions in JSON."""

import json
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from oblong.cli.play.models import BadRequest, describe, fit
from oblong.cli.play.points import PRESETS, preset
from oblong.cli.play.program import as_python
from oblong.cli.play.tables import Cells, columns_of, uploaded
from oblong.io.errors import first_line
from oblong.io.tables import Table

# Bytes of a request: 2,000 points, or a small table.
MOST_BYTES = 1 << 22
# Seconds that a request waits for the fits of others.
_LONGEST_WAIT = 20.0
_PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/picture.js": ("picture.js", "text/javascript; charset=utf-8"),
    "/history.js": ("history.js", "text/javascript; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_HEADERS = {
    # Nothing but this server's own files and answers; no frames, no forms, no inline code.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class PlayServer(ThreadingHTTPServer):
    """Serves the page at 127.0.0.1 until it is shut down.

    Parameters
    ----------
    port : int, default=0
        Port to listen at; a free one by default.
    table : Table or Cells, optional
        Table to begin with.
    columns : sequence of two str, optional
        Which of its columns to draw; the first two by default.
    """

    daemon_threads = True

    def __init__(
        self, port: int = 0, table: Table | Cells | None = None, columns: Sequence[str] = ()
    ) -> None:
        start = None if table is None else columns_of(table, *columns)
        super().__init__(("127.0.0.1", port), _Handler)
        self.token = secrets.token_urlsafe(24)
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}
        self._lock = threading.Lock()
        self.questions: dict[str, Callable[[Any], Any]] = {
            "/start": lambda _: (
                describe() | {"presets": _titles(), "table": start, "most_bytes": MOST_BYTES}
            ),
            "/fit": self._fit,
            "/python": lambda node: {"text": as_python(node)},
            "/preset": lambda node: preset(node.get("name") if isinstance(node, dict) else None),
            "/table": lambda node: uploaded(node, table),
        }

    def _fit(self, node: Any) -> dict[str, Any]:
        """Fit one after another: the page asks for the newest state only."""
        asked = time.perf_counter()
        if not self._lock.acquire(timeout=_LONGEST_WAIT):
            raise BadRequest("another fit is still running; wait, or take fewer points or models")
        try:
            waited = time.perf_counter() - asked
            answer = fit(node)
        finally:
            self._lock.release()
        return answer | {"delay": answer["delay"] + waited}

    def server_close(self) -> None:
        """Let a fit end that still runs: Python must not stop amid compiled code."""
        super().server_close()
        self._lock.acquire(timeout=_LONGEST_WAIT)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a page that was closed while its answer was on the way."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Address of the page, with the token that it takes."""
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"


def _titles() -> list[tuple[str, str]]:
    return [(name, title) for name, (title, _) in PRESETS.items()]


@cache
def _page(name: str) -> bytes:
    return files("oblong.cli.play").joinpath(name).read_bytes()


class _Refused(Exception):
    """A request that is not answered: the status and why."""


class _Handler(BaseHTTPRequestHandler):
    server: PlayServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "oblong", ""
    # A connection that says nothing for as long is closed.
    timeout = 30
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"

    def do_GET(self) -> None:
        """Send the page, to whom the command has shown the address, or one of its files."""
        self._reply(self._file)

    def do_POST(self) -> None:
        """Answer a question."""
        self._reply(self._answer)

    def _reply(self, make: Callable[[], tuple[bytes, str]]) -> None:
        """Send what is made, or why there is nothing to send: every request has an answer."""
        try:
            if self._header("Host") not in self.server.hosts:
                # A name from elsewhere that was pointed at this computer is not ours.
                raise _Refused(421, "this server answers requests to 127.0.0.1 only")
            content, kind = make()
        except _Refused as refused:
            self._refuse(*refused.args)
        except BadRequest as error:
            self._refuse(400, str(error))
        except TimeoutError:
            self._refuse(408, "the request did not arrive in time")
        except ConnectionError:
            raise
        except Exception as error:
            problem = f"the server has failed ({type(error).__name__}: {first_line(error)})"
            self._refuse(500, f"{problem}; please report what you did")
        else:
            self._send(content, kind)

    def _file(self) -> tuple[bytes, str]:
        if self._header("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            raise _Refused(400, "expected a request without content")
        path, _, query = self.path.partition("?")
        if path not in _PAGES:
            raise _Refused(404, "no such page")
        if path == "/":
            self._check_token((parse_qs(query).get("token") or [""])[0])
        name, kind = _PAGES[path]
        return _page(name), kind

    def _answer(self) -> tuple[bytes, str]:
        if self._header("Origin", None) not in {None, *self.server.origins}:
            raise _Refused(403, "the request came from another page")
        self._check_token(self._header("X-Oblong-Token"))
        question = self.server.questions.get(self.path)
        if question is None:
            raise _Refused(404, "no such question")
        # Pages from elsewhere cannot send this type without asking first.
        if self._header("Content-Type").partition(";")[0].strip().lower() != "application/json":
            raise _Refused(415, "expected application/json")
        text = json.dumps(question(self._body()), allow_nan=False, separators=(",", ":"))
        return text.encode(), "application/json"

    def _header(self, name: str, missing: Any = "") -> Any:
        """The value of a header that may be given once."""
        values = self.headers.get_all(name, [missing])
        if len(values) > 1:
            raise _Refused(400, f"expected one header {name}, got {len(values)}")
        return values[0]

    def _check_token(self, token: str) -> None:
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            raise _Refused(403, "open the address that the command printed, including the token")

    def _body(self) -> Any:
        length = self._header("Content-Length")
        if not length.isascii() or not length.isdigit() or "Transfer-Encoding" in self.headers:
            raise _Refused(411, "expected the length of the request")
        if len(length) > 9 or int(length) > MOST_BYTES:
            raise _Refused(413, f"expected at most {MOST_BYTES:,} bytes")
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise BadRequest("expected JSON") from None

    def _send(self, content: bytes, kind: str, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, code: int, why: str) -> None:
        # What was not read of the request must not be taken for the next one.
        self.close_connection = True
        self._send(json.dumps({"error": why}).encode(), "application/json", code)
        self._discard()

    def _discard(self) -> None:
        """Read the rest of a refused request: closing before would take the answer back."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1.0)
            left = 4 * MOST_BYTES
            while left > 0 and (part := self.rfile.read1(1 << 16)):
                left -= len(part)

    def end_headers(self) -> None:
        """Add what every answer carries, errors included."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the address holds the token."""
