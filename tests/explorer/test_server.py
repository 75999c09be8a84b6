"""The server: its token, the origins that it answers, and where it listens."""

import re
import socket
import urllib.error
import urllib.request

import pytest

from .serving import Pages


@pytest.fixture(scope="module")
def server(explorers):
    pages = Pages()
    yield pages.serve(explorers["table"])
    pages.close()


def test_without_the_token_there_is_nothing(server):
    root = f"http://127.0.0.1:{server.port}/"
    for path in ("", "wrong/", f"{server.token[:-1]}/", "static/js/bokeh.min.js", "ws", "autoload.js", "favicon.ico"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(root + path, timeout=20)
        assert refused.value.code == 404
    with urllib.request.urlopen(server.address, timeout=20) as answer:
        assert answer.status == 200
    assert len(server.token) >= 32


@pytest.mark.parametrize(("origin", "status"), [("http://evil.example", 403), ("http://127.0.0.1:1", 403), (None, 101)])
def test_other_origins_are_refused(server, origin, status):
    own = f"http://127.0.0.1:{server.port}"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        lines = [
            f"GET /{server.token}/ws HTTP/1.1",
            f"Host: 127.0.0.1:{server.port}",
            f"Origin: {origin or own}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: bokeh, {_session(server)}",
        ]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        assert connection.recv(4096).split()[1] == str(status).encode()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("localhost:8888", 200),  # a forwarded port
        ("[::1]:{port}", 200),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.0.7:{port}", 403),
        ("", 403),
    ],
)
def test_requests_that_name_another_host_are_refused(server, host, status):
    """A name of another site may be made to resolve to this machine: it is then the same origin for a browser."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        lines = [f"GET /{server.token}/ HTTP/1.1", f"Host: {host.format(port=server.port)}", "Connection: close"]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = connection.recv(200_000)
    assert answer.split()[1] == str(status).encode()


@pytest.mark.parametrize("path", ["", "static/js/bokeh.min.js", "static/js/%00", "nothing"])
def test_every_answer_forbids_frames_and_other_sources(server, path):
    try:
        answer = urllib.request.urlopen(server.address + path, timeout=20)
    except urllib.error.HTTPError as refused:
        answer = refused
    with answer:
        assert answer.status == {"static/js/%00": 400, "nothing": 404}.get(path, 200)
        policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
        assert policy["frame-ancestors"] == "'none'"
        assert "http" not in policy["default-src"]
        assert "*" not in policy["default-src"]
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"


def _session(server):
    """The token of a session, from a page."""
    with urllib.request.urlopen(server.address, timeout=20) as answer:
        return re.search(r'"token":"([^"]+)"', answer.read().decode())[1]


def test_the_server_listens_on_the_loopback_interface_only(server):
    sockets = server._server._http._sockets.values()
    assert {one.getsockname()[:2] for one in sockets} == {("127.0.0.1", server.port)}
