"""HTTP and server-sent events to an opencode server that is our own child. Standard library only.

Owns the password (it reaches the server by its environment alone), the connections and their threads. The port is the
server's own choice; nothing is sent before it has said that it listens: what comes earlier is never answered.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.adapters.clock import pause
from supervisor.core.opencode_config import ASKED, VARIABLE, merged
from supervisor.core.timing import TICK_MS
from supervisor.drivers.links import Around, Garbled
from supervisor.drivers.opencode import Connected, Lost, Reply, Request

MAX_BODY = 32 * 1024 * 1024
"""Of a reply, and of one event; a longer event cannot be read."""

REPLY_WAIT_S = 30.0
"""For the slowest reply; usual ones take a hundredth."""

SILENCE_S = 35.0
"""Three missed heartbeats of the server (it sends one each 10 s): the connection is made anew."""

TRIES = 40
"""Attempts to connect again, a tick apart, before events count as lost: a server that is gone is heard of earlier."""

CONFIG = {"permission": ASKED, "autoupdate": False, "share": "disabled"}
HEARD = frozenset(
    {
        "permission.asked",
        "permission.replied",
        "question.asked",
        "server.heartbeat",
        "message.part.updated",
        "session.error",
        "session.status",
        "session.idle",
    }
)
LOOK_AGAIN = {"type": "server.heartbeat", "properties": {}}
"""In place of an event that cannot be read: what it may have asked is looked for."""

_LISTENS = re.compile(rb"opencode server listening on http://127\.0\.0\.1:([0-9]{1,5})\s*\Z")


class OpencodeLink:
    """`given` is the environment that the agent got."""

    def __init__(self, given: Mapping[str, str], *, password: str) -> None:
        self._given = given
        self._password = password
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(f"opencode:{password}".encode()).decode(),
            "Content-Type": "application/json",
        }
        self._around: Around | None = None
        self._port = 0
        self._closed = threading.Event()
        self._events: socket.socket | None = None

    def environment(self) -> Mapping[str, str]:
        """The password, and what must be asked; what the user has set for this launch stays."""
        config = merged(self._given.get(VARIABLE), CONFIG)
        own = {"OPENCODE_SERVER_PASSWORD": self._password}
        return own if config is None else {**own, VARIABLE: json.dumps(config)}

    def start(self, around: Around) -> str | None:
        """Why it must not be started, if so."""
        self._around = around
        if merged(self._given.get(VARIABLE), CONFIG) is None:
            return f"{VARIABLE} is no JSON object: opencode could not be told to ask"
        return None

    def line(self, line: bytes) -> Sequence[Any]:
        """Only the line that says where it listens is of interest."""
        found = _LISTENS.search(line)
        if found is None or self._port or self._around is None:
            return ()
        port = int(found.group(1))
        if not self._around.listens(port):
            return (Garbled(f"opencode says that it listens on port {port}, but another process does"),)
        self._port = port
        threading.Thread(target=self._hear, daemon=True).start()
        return ()

    def send(self, message: Any) -> None:
        """One request, in a thread of its own: a slow reply holds up no other."""
        if not self._closed.is_set():
            threading.Thread(target=self._request, args=(message,), daemon=True).start()

    def close(self) -> None:
        """No more events."""
        self._closed.set()
        if (events := self._events) is not None:
            with contextlib.suppress(OSError):
                events.shutdown(socket.SHUT_RDWR)

    def ended(self) -> None:
        """There is nothing to put in order."""

    # -- threads

    def _post(self, message: Any) -> None:
        if self._around is not None and not self._closed.is_set():
            self._around.post(message)

    def _request(self, request: Request) -> None:
        body = None if request.body is None else json.dumps(request.body, ensure_ascii=False).encode(errors="replace")
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=REPLY_WAIT_S)
        try:
            connection.request(request.method, request.path, body, self._headers)
            response = connection.getresponse()
            data = response.read(MAX_BODY + 1)
            reply = Reply(request.tag, response.status, _json(data))
        except Exception as error:  # noqa: BLE001  whatever it is: somebody waits for a reply
            reply = Reply(request.tag, 0, None, f"{type(error).__name__}: {error}")
        finally:
            connection.close()
        self._post(reply)

    def _hear(self) -> None:
        """Events, again after each lost connection."""
        failed = 0
        why = ""
        while not self._closed.is_set() and failed < TRIES:
            if failed:
                pause(TICK_MS / 1000)
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SILENCE_S)
            try:
                connection.request("GET", "/event", headers=self._headers)
                self._events = connection.sock
                response = connection.getresponse()
                if response.status == 200:
                    self._post(Connected())
                    failed = 0
                    self._read_events(response)
                    why = "it was closed"
                else:
                    why = f"status {response.status}"
            except Exception as error:  # noqa: BLE001  whatever it is: a thread that died would be waited for for ever
                why = f"{type(error).__name__}: {error}"
            finally:
                connection.close()
            failed += 1
        self._post(Lost(why))

    def _read_events(self, response: http.client.HTTPResponse) -> None:
        data, too_long = bytearray(), False
        while line := response.readline(MAX_BODY):
            if line in (b"\n", b"\r\n"):
                event = LOOK_AGAIN if too_long else _event(bytes(data))
                if event is not None:
                    self._post(event)
                data, too_long = bytearray(), False
            elif line.startswith(b"data:") or not line.endswith(b"\n"):
                data += line.removeprefix(b"data:")
                too_long = too_long or len(data) >= MAX_BODY or not line.endswith(b"\n")
                if too_long:
                    data.clear()


def _event(data: bytes) -> Mapping[str, Any] | None:
    """An event that is listened to; None for others, and for a comment."""
    if not data:
        return None
    event: Any = _json(data)
    kind = event.get("type") if isinstance(event, dict) else None
    if isinstance(kind, str) and kind not in HEARD:
        return None
    return event if isinstance(kind, str) and isinstance(event.get("properties"), dict) else LOOK_AGAIN


def _json(data: bytes) -> Any:
    if len(data) > MAX_BODY:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
