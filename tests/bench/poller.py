"""A peer for asks: the same protocol as pi speaks it, by polling every 250 ms. Standard library only; runs by itself.

`serve ROOT SESSION [hold]` beats and answers each request with yes (with `hold` none). `ask ROOT SESSION COUNT TIMEOUT`
asks in sequence and prints JSON: milliseconds and outcome of each, and when the last ended (monotonic seconds).
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

POLL = 0.25
REFRESH, STALE, GRACE = 4 * POLL, 20 * POLL, 8 * POLL


def write(path: str, body: dict[str, Any]) -> None:
    temp = f"{path}.{os.getpid()}.{uuid.uuid4().hex}.tmp"
    with open(temp, "x") as file:
        json.dump(body, file)
    os.replace(temp, path)


def read(path: str) -> Any:
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def quietly(do: Callable[[str], None], path: str) -> None:
    try:
        do(path)
    except OSError:
        pass


class Inbox:
    """The folders of one session."""

    def __init__(self, root: str, session: str) -> None:
        self.session = session
        self.folder = os.path.join(root, "sessions", session)
        self.requests = os.path.join(self.folder, "requests")
        self.responses = os.path.join(self.folder, "responses")
        self.beat = os.path.join(root, "serving", f"{session}.json")

    def tidy(self) -> None:
        """Empty folders go, in this order."""
        quietly(os.rmdir, self.requests)
        if not os.path.exists(self.requests):
            quietly(os.rmdir, self.responses)
            quietly(os.rmdir, self.folder)

    def serving(self) -> bool:
        record = read(self.beat)
        if record is None:
            return False
        try:
            os.kill(record["pid"], 0)
        except OSError:
            return False
        return time.time() * 1000 - record["updatedAt"] < STALE * 1000


def serve(inbox: Inbox, *, hold: bool) -> None:
    due = 0.0
    while True:
        if time.monotonic() >= due:
            os.makedirs(os.path.dirname(inbox.beat), mode=0o700, exist_ok=True)
            write(inbox.beat, {"sessionId": inbox.session, "pid": os.getpid(), "updatedAt": int(time.time() * 1000)})
            due = time.monotonic() + REFRESH
        try:
            names = [] if hold else [n for n in os.listdir(inbox.requests) if n.endswith(".json")]
        except OSError:
            names = []
        for name in names:
            os.makedirs(inbox.responses, mode=0o700, exist_ok=True)
            body = {"approved": True, "state": "approved", "responderSessionId": inbox.session}
            write(os.path.join(inbox.responses, name), body)
            quietly(os.unlink, os.path.join(inbox.requests, name))
            inbox.tidy()
        time.sleep(POLL)


def ask(inbox: Inbox, timeout: float) -> str:
    ask_id = f"perm-{uuid.uuid4()}"
    request, response = (os.path.join(f, f"{ask_id}.json") for f in (inbox.requests, inbox.responses))
    body = {"id": ask_id, "createdAt": int(time.time() * 1000), "requesterSessionId": "c", "requesterAgentName": "kid"}
    for folder in (inbox.requests, inbox.responses):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        write(request, {**body, "targetSessionId": inbox.session, "surface": "bash", "value": "echo hi"})
    except OSError:
        return "write_failed"
    began = time.monotonic()
    unserved = None
    while time.monotonic() - began < timeout:
        found = read(response)
        if found is not None:
            for path in (response, request):
                quietly(os.unlink, path)
            inbox.tidy()
            return "approved" if found.get("approved") is True else "denied"
        if inbox.serving():
            unserved = None
        else:
            unserved = unserved or time.monotonic()
            if time.monotonic() - unserved >= GRACE:
                quietly(os.unlink, request)
                return "not_serving"
        time.sleep(POLL)
    quietly(os.unlink, request)
    return "timeout"


def main() -> None:
    what, root, session, *more = sys.argv[1:]
    inbox = Inbox(root, session)
    if what == "serve":
        return serve(inbox, hold=more == ["hold"])
    took, codes = [], []
    for _ in range(int(more[0])):
        began = time.perf_counter()
        codes.append(ask(inbox, float(more[1])))
        took.append((time.perf_counter() - began) * 1000)
    return json.dump({"ms": took, "codes": codes, "at": time.monotonic()}, sys.stdout)


if __name__ == "__main__":
    main()
