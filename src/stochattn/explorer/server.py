"""A server of pages on this machine: it listens on the loopback interface, behind a token in the address."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from contextlib import suppress
from importlib.resources import files
from urllib.parse import unquote

import panel as pn
from panel.io.server import get_server
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, HTTPServerRequest
from tornado.web import Application, ErrorHandler, OutputTransform

from .._backend.html import text
from ..kinds.options import InputError
from .panel import asset
from .session import Session
from .state import Explorer

HOST = "127.0.0.1"
NAMES = (HOST, "localhost", "[::1]")  # hosts that a request may name, without the port
TOKEN_BYTES = 24
# Bokeh compiles templates in the page and writes styles and scripts into it; no other host is contacted.
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; base-uri 'none'; "
HEADERS = {
    "Content-Security-Policy": POLICY + "form-action 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address holds the token
}
"""Headers of every response: the page loads only from this server and cannot be embedded in a frame."""


class Server:
    """Serves pages of an explorer at `address`. Every path begins with the token."""

    def __init__(self, explorer: Explorer, port: int = 0, title: str = "stochattn") -> None:
        self.explorer, self.title, self.token = explorer, title, secrets.token_urlsafe(TOKEN_BYTES)
        self._sessions: set[Session] = set()
        _require_free(port)
        self._server = get_server(
            {"/": self._page},
            port=port,
            address=HOST,
            prefix=self.token,
            title=title,
            start=False,
            show=False,
            ico_path="none",  # an icon would be served without the token
            check_unused_sessions_milliseconds=5_000,
            unused_session_lifetime_milliseconds=20_000,
        )
        _refuse_foreign_hosts(self._server._tornado)
        self._server._tornado.add_transform(SafeHeaders)

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return int(self._server.port)

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def start(self) -> None:
        """Serve pages while the event loop runs in which this object was created."""
        self._server.start()

    def stop(self) -> None:
        """Stop serving, and stop the work of open pages."""
        for session in tuple(self._sessions):  # Bokeh does not call the hooks of sessions when it stops
            self._close(session)
        self._server.stop()

    def run(self, *, open_browser: bool) -> None:
        """Serve pages until Ctrl-C."""
        self.start()
        loop = self._server.io_loop
        if open_browser:
            loop.call_later(0.1, webbrowser.open, self.address)
        try:
            with suppress(KeyboardInterrupt):
                loop.start()
        finally:
            self.stop()

    def _page(self) -> pn.Template:
        session = Session(self.explorer)
        template = pn.Template((files(__package__) / "assets" / "page.html").read_text("utf-8"))
        template.add_panel("explorer", session.view())
        template.add_variable("page_title", text(self.title))
        template.add_variable("page_style", asset("page.css"))
        pn.state.onload(session.begin)
        self._sessions.add(session)
        pn.state.on_session_destroyed(lambda context: self._close(session))
        return template

    def _close(self, session: Session) -> None:
        self._sessions.discard(session)
        session.close()


class SafeHeaders(OutputTransform):  # type: ignore[misc]
    """Adds `HEADERS` to every response."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Add the headers to the first chunk."""
        headers.update(HEADERS)
        return status_code, headers, chunk


def _refuse_foreign_hosts(application: Application) -> None:
    """Refuse requests to another host than the loopback names of this machine, or to an impossible path.

    The name of another site may resolve to 127.0.0.1 (DNS rebinding), so that a browser takes its page for the same
    origin. A forwarded port changes only the port.
    """
    find = application.find_handler

    def find_handler(request: HTTPServerRequest, **options: object) -> HTTPMessageDelegate:
        if request.host_name not in NAMES:
            return application.get_handler_delegate(request, ErrorHandler, {"status_code": 403})
        if "\0" in unquote(request.path):
            return application.get_handler_delegate(request, ErrorHandler, {"status_code": 400})
        return find(request, **options)

    application.find_handler = find_handler


def _require_free(port: int) -> None:
    """Raise InputError if the port cannot be used. Tornado would leave a socket open."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"port {port} cannot be used ({reason}): choose another, or leave it out.") from None
