"""The link to opencode, against a server in this process that says what a test wants."""

from __future__ import annotations

import base64
import json
import queue
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from supervisor.drivers import opencode_link
from supervisor.drivers.links import Garbled
from supervisor.drivers.opencode import Connected, Lost, Reply, Request
from supervisor.drivers.opencode_link import CONFIG, LOOK_AGAIN, OpencodeLink
from tests.unit.driving import around

WAIT_S = 60.0
PASSWORD = "the-password"
Stream = Callable[[Any], None]


class Server(ThreadingHTTPServer):
    """`streams`: what each connection for events gets, in order; then none. Remembers what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.streams: queue.SimpleQueue[Stream] = queue.SimpleQueue()
        self.seen: list[tuple[str, str, bytes, str | None]] = []
        self.replies: dict[str, tuple[int, bytes]] = {}
        self.over = threading.Event()

    @property
    def line(self) -> bytes:
        """What the CLI prints when it listens."""
        return b"opencode server listening on http://127.0.0.1:%d" % self.server_address[1]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, body, self.headers.get("Authorization")))
        if self.path == "/event":
            return self._stream()
        code, data = self.server.replies.get(self.path, (200, b"true"))
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        return None

    do_GET = do_POST

    def _stream(self) -> None:
        try:
            stream = self.server.streams.get_nowait()
        except queue.Empty:
            self.send_response(503)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        stream(self.wfile)
        self.close_connection = True
        return None


class World:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.posted: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.link = OpencodeLink({}, password=PASSWORD)
        assert self.link.start(around(post=self.posted.put)) is None

    def listens(self, *streams: Stream) -> World:
        for stream in streams:
            self.server.streams.put(stream)
        assert list(self.link.line(self.server.line)) == []
        return self

    def next(self) -> Any:
        return self.posted.get(timeout=WAIT_S)

    def stays(self, *events: Any) -> Stream:
        """A stream that says these and then nothing, until the test is over."""

        def stream(out: Any) -> None:
            says(*events)(out)
            self.server.over.wait(WAIT_S)

        return stream


def says(*events: Any) -> Stream:
    """A stream that says these, as JSON or as bytes, and ends."""

    def stream(out: Any) -> None:
        for event in events:
            out.write(event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n")
        out.flush()

    return stream


def event(kind: str, **about: Any) -> dict[str, Any]:
    return {"type": kind, "properties": about}


@pytest.fixture
def world() -> Iterator[World]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    world = World(server)
    yield world
    world.link.close()
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_events_arrive_in_order_and_others_are_left_out(world: World) -> None:
    idle, asked = event("session.idle", sessionID="s"), event("permission.asked", id="p")
    world.listens(world.stays(event("server.connected"), idle, event("plugin.added"), asked))
    assert [world.next() for _ in range(3)] == [Connected(), idle, asked]


def test_a_lost_connection_is_made_again(world: World) -> None:
    idle = event("session.idle", sessionID="s")
    world.listens(says(idle), world.stays(idle))
    assert [world.next() for _ in range(4)] == [Connected(), idle, Connected(), idle]


def test_when_no_connection_can_be_had_any_more_that_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencode_link, "TRIES", 2)
    world.listens()
    assert world.next() == Lost("status 503")


@pytest.mark.parametrize(
    "other", [b": a comment\nid: 7\nevent: x\n\n", b"\n\n\n", b'data: {"type": "lsp.updated"}\n\n']
)
def test_what_is_no_event_of_interest_is_passed_over(world: World, other: bytes) -> None:
    idle = event("session.idle", sessionID="s")
    world.listens(world.stays(other, idle))
    assert [world.next(), world.next()] == [Connected(), idle]


@pytest.mark.parametrize(
    "odd",
    [
        b'data: {"type": "permission.asked", "prop\n\n',
        b"data: 5\n\n",
        b'data: {"type": "session.idle"}\n\n',
        b'data: {"type": [], "properties": {}}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
    ],
)
def test_an_event_that_cannot_be_read_has_asks_looked_for(world: World, odd: bytes) -> None:
    idle = event("session.idle", sessionID="s")
    world.listens(world.stays(odd, idle))
    assert [world.next() for _ in range(3)] == [Connected(), LOOK_AGAIN, idle]


def test_an_event_on_several_lines_is_one(world: World) -> None:
    world.listens(world.stays(b'data: {"type": "session.idle",\r\ndata:  "properties": {}}\r\n\r\n'))
    assert [world.next(), world.next()] == [Connected(), event("session.idle")]


def test_an_event_too_long_to_be_read_has_asks_looked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencode_link, "MAX_BODY", 1000)
    idle = event("session.idle", sessionID="s")
    world.listens(world.stays(b'data: {"type": "permission.asked", "x": "' + b"y" * 5000 + b'"}\n\n', idle))
    assert [world.next() for _ in range(3)] == [Connected(), LOOK_AGAIN, idle]


def test_a_request_goes_out_with_the_password_and_its_reply_comes_back(world: World) -> None:
    world.server.replies["/session"] = (200, b'{"id": "ses_1"}')
    world.listens(world.stays())
    assert world.next() == Connected()
    world.link.send(Request("create", "POST", "/session", {"text": "h\u00e4 \ud800"}))
    assert world.next() == Reply("create", 200, {"id": "ses_1"})
    method, path, body, authorization = world.server.seen[-1]
    assert (method, path, json.loads(body)) == ("POST", "/session", {"text": "h\u00e4 ?"})
    assert authorization == "Basic " + base64.b64encode(b"opencode:the-password").decode()


@pytest.mark.parametrize(
    ("given", "reply"),
    [
        ((404, b'{"name": "NotFoundError"}'), Reply("look", 404, {"name": "NotFoundError"})),
        ((204, b""), Reply("look", 204, None)),
        ((200, b"<html>"), Reply("look", 200, None)),
    ],
)
def test_a_reply_is_its_status_and_what_can_be_read(world: World, given: tuple[int, bytes], reply: Reply) -> None:
    world.server.replies["/session/x"] = given
    world.listens(world.stays())
    assert world.next() == Connected()
    world.link.send(Request("look", "GET", "/session/x"))
    assert world.next() == reply


def test_a_request_that_reaches_nobody_says_so(world: World) -> None:
    world.listens(world.stays())
    assert world.next() == Connected()
    world.server.socket.close()
    world.link._port = 1
    world.link.send(Request("look", "GET", "/session/x"))
    reply = world.next()
    assert (reply.tag, reply.status) == ("look", 0)
    assert "refused" in reply.problem


def test_after_its_end_nothing_is_sent_or_heard(world: World) -> None:
    world.listens(world.stays())
    assert world.next() == Connected()
    world.link.close()
    world.link.send(Request("create", "POST", "/session", {}))
    assert [path for _, path, _, _ in world.server.seen] == ["/event"]


def test_nothing_is_sent_to_a_port_on_which_another_process_listens(world: World) -> None:
    link = OpencodeLink({}, password=PASSWORD)
    link.start(around(post=world.posted.put, listens=lambda _port: False))
    (garbled,) = link.line(world.server.line)
    assert isinstance(garbled, Garbled)
    assert world.server.seen == []


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"opencode server listening on http://10.0.0.1:80",
        b"opencode server listening on http://127.0.0.1:80/x",
        b"opencode server listening on http://127.0.0.1:123456",
        b"opencode server listening on http://127.0.0.1.evil:80",
    ],
)
def test_only_the_line_of_a_loopback_server_is_one(world: World, line: bytes) -> None:
    assert list(world.link.line(line)) == []
    assert world.server.seen == []


# ---------------------------------------------------------------- what the server is told by its environment


def test_the_server_gets_a_password_and_is_told_to_ask() -> None:
    env = OpencodeLink({}, password=PASSWORD).environment()
    assert env["OPENCODE_SERVER_PASSWORD"] == PASSWORD
    assert json.loads(env["OPENCODE_CONFIG_CONTENT"]) == CONFIG


def test_what_the_user_sets_for_this_launch_stays() -> None:
    given = {"OPENCODE_CONFIG_CONTENT": '{"permission": {"webfetch": "deny"}}'}
    made = json.loads(OpencodeLink(given, password=PASSWORD).environment()["OPENCODE_CONFIG_CONTENT"])
    assert (made["permission"]["bash"], made["permission"]["webfetch"], made["share"]) == ("ask", "deny", "disabled")


@pytest.mark.parametrize("given", ["{", "5", "[]", "// note\n{}"])
def test_a_configuration_that_cannot_be_read_is_refused_before_anything_starts(given: str) -> None:
    link = OpencodeLink({"OPENCODE_CONFIG_CONTENT": given}, password=PASSWORD)
    why = link.start(around())
    assert why is not None
    assert "OPENCODE_CONFIG_CONTENT" in why
