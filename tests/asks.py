"""A session and its keeper's serving side over real files, with a clock that is moved by hand. For unit tests."""

from __future__ import annotations

import json
import os
from typing import Any

from msgspec.structs import replace

from supervisor.core.ask_age import asked
from supervisor.core.ask_wire import Request, build_request, encode_request
from supervisor.core.entry import Entry, KeeperRef
from supervisor.core.liveness import Now
from supervisor.runtime.announcing import Announcer
from supervisor.runtime.answering import Answering
from supervisor.runtime.ask_facts import AskSettings, here_of
from supervisor.runtime.compose import Context
from supervisor.testing import FakeClock, make_entry


class Announced(Announcer):
    """Notes ids."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids

    def add(self, request: Request, entry: Entry) -> None:
        self.ids.append(request.id)

    def turn(self, now: Now, *, waiting: int) -> None:
        pass

    def close(self) -> None:
        pass


class World:
    """A session `p` with its keeper's serving side; its parent `root` serves when told so."""

    def __init__(self, context: Context) -> None:
        context.prepare()
        self.clock = FakeClock()
        self.parts = replace(context.parts, clock=self.clock)
        self.settings = AskSettings(mode="hold")
        self.asks = replace(context.asks, settings=lambda: self.settings)
        self.files = self.asks.files
        self.entry: Entry = make_entry(name="p", session_id="p", entry_id="e-p")
        me = self.parts.ref(os.getpid())
        assert me is not None
        self.me = me
        self.announced: list[str] = []
        self.keeper = self.serve()

    def serve(self) -> Answering:
        announcer = Announced(self.announced)
        return Answering(self.parts, self.asks, KeeperRef("k-1", self.me), on_terminal=False, announcer=announcer)

    def beat(self, ms: int = 1000) -> None:
        """A second later: a beat and a turn."""
        self.clock.advance(ms)
        self.keeper.beat(self.parts.now(), [self.entry])
        self.keeper.turn(self.parts.now())

    def ask(self, ask_id: str = "perm-1", *, value: str = "echo hi", **ours: Any) -> Request:
        here = here_of(self.parts.now())
        request = build_request(
            ask_id,
            now=self.clock.wall_ms(),
            requester="c",
            target="p",
            agent_name="kid",
            tool="bash",
            value=value,
            cwd="/",
            ours={"asked": asked(here), "hops": [], **ours},
        )
        self.files.write_request("p", ask_id, encode_request(request))
        return request

    def foreign(self, ask_id: str, created_at: int) -> None:
        """As another program writes it: core fields only."""
        ours = {"id": ask_id, "createdAt": created_at, "requesterSessionId": "c", "targetSessionId": "p"}
        self.files.write_request("p", ask_id, json.dumps({**ours, "requesterAgentName": "kid"}).encode())

    def answer(self, ask_id: str = "perm-1") -> dict[str, Any] | None:
        data = self.files.read_response("p", ask_id)
        return json.loads(data) if data else None

    def code(self, ask_id: str = "perm-1") -> str | None:
        found = self.answer(ask_id)
        return found["supervisor"]["code"] if found else None

    def events(self, *only: str) -> list[str]:
        return [e["event"] for e in self.asks.review.read() if not only or e["event"] in only]
