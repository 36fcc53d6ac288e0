"""The serving side under any order of events: exactly one outcome for each ask, and no allow that nobody has given."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from supervisor.core.entry import KeeperRef, ParentRef
from supervisor.core.rules import Rule
from supervisor.core.serving import encode_beat
from supervisor.runtime.compose import Context
from supervisor.runtime.deciding import Desk
from supervisor.runtime.serving_marks import serving_beat
from tests.asks import World

IDS = ("perm-1", "perm-2")
ASKS = st.sampled_from(IDS)
RULES = (Rule(action="allow", value="ls*"), Rule(action="deny", value="rm*"))
EVENTS = st.one_of(
    st.tuples(st.just("ask"), ASKS, st.sampled_from(["ls", "rm x", "make"])),
    st.tuples(st.just("bytes"), ASKS, st.sampled_from([b"", b"{", b'{"id":"perm-1"}', b"[" * 500])),
    st.tuples(st.just("beat"), st.sampled_from([1, 250, 1000, 5000, 700_000])),
    st.tuples(st.just("step"), st.sampled_from([-3_600_000, 3_600_000])),
    st.tuples(st.just("mode"), st.sampled_from(["attended", "rules", "hold"])),
    st.tuples(st.just("person"), ASKS, st.booleans()),
    st.tuples(st.just("above"), ASKS, st.sampled_from(["allow", "deny", "garbage", "silence", "gone"])),
    st.tuples(st.just("withdraw"), ASKS),
    st.tuples(st.just("restart")),
)


class Run:
    """One sequence of events. A child asks once per id; `outcomes` are the responses that it would have read."""

    def __init__(self, folder: str) -> None:
        env = {"SUPERVISOR_HOME": os.path.join(folder, "s"), "HOME": folder, "XDG_CONFIG_HOME": folder}
        self.world = World(Context(env, cwd="/"))
        self.world.settings = replace(self.world.settings, rules=RULES)
        self.world.entry = replace(self.world.entry, parent=ParentRef(session_id="root"))
        self.asked: dict[str, str] = {}
        self.allowed: set[str] = set()
        self.outcomes: dict[str, bytes] = {}

    def play(self, event: tuple[Any, ...]) -> None:
        getattr(self, f"on_{event[0]}")(*event[1:])
        self.look()

    def look(self) -> None:
        """The first answer is the only one."""
        for ask_id in self.asked:
            data = self.world.files.read_response("p", ask_id)
            if data is not None:
                assert self.outcomes.setdefault(ask_id, data) == data

    def on_ask(self, ask_id: str, value: str) -> None:
        if ask_id not in self.asked:
            self.asked[ask_id] = value
            self.world.ask(ask_id, value=value)

    def on_bytes(self, ask_id: str, data: bytes) -> None:
        if ask_id not in self.asked:
            self.asked[ask_id] = "bytes"
            self.world.files.write_request("p", ask_id, data)

    def on_beat(self, ms: int) -> None:
        self.world.beat(ms)

    def on_step(self, ms: int) -> None:
        self.world.clock.step_wall(ms)

    def on_mode(self, mode: Any) -> None:
        self.world.settings = replace(self.world.settings, mode=mode)

    def on_person(self, ask_id: str, approved: bool) -> None:
        desk = Desk(self.world.parts, self.world.asks)
        for item in [p for p in desk.pending(["p"]) if p.request.id == ask_id]:
            if desk.answer(item, approved=approved, who="ann").what == "applied" and approved:
                self.allowed.add(ask_id)

    def on_above(self, ask_id: str, how: str) -> None:
        files = self.world.files
        if how == "gone":
            return files.stop_serving("root")
        me = KeeperRef("k-0", self.world.me)
        files.beat("root", encode_beat(serving_beat("root", me, self.world.parts.now())))
        if how == "silence" or not files.has_request("root", ask_id):
            return None
        body = {"approved": how == "allow", "state": "approved" if how == "allow" else "denied"}
        data = b"{" if how == "garbage" else json.dumps({**body, "responderSessionId": "root"}).encode()
        if files.publish_response("root", ask_id, data) and how == "allow":
            self.allowed.add(ask_id)
        return None

    def on_withdraw(self, ask_id: str) -> None:
        self.world.files.remove_request("p", ask_id)

    def on_restart(self) -> None:
        """The keeper is killed, another takes its place."""
        self.world.keeper = self.world.serve()

    def end(self) -> None:
        """Somebody serves, nobody decides, time passes: every ask that nobody took back has its outcome."""
        self.on_mode("rules")
        waiting = set(self.world.files.requests("p"))
        self.on_above("perm-1", "gone")
        for ms in (1000, 700_000, 1000, 1000, 1000, 1000):
            self.on_beat(ms)
            self.look()
        assert list(self.world.files.requests("p")) == []
        assert waiting <= set(self.outcomes)
        assert list(self.world.files.requests("root")) == []
        for ask_id, data in self.outcomes.items():
            approved = json.loads(data)["approved"] is True
            assert not approved or ask_id in self.allowed or self.asked[ask_id] == "ls"
            assert not (approved and self.asked[ask_id] == "rm x")


@given(st.lists(EVENTS, max_size=14))
@example([("ask", "perm-1", "make"), ("above", "perm-1", "allow"), ("beat", 1), ("restart",)])  # litter at the parent
def test_every_ask_ends_in_exactly_one_outcome_and_no_allow_that_nobody_gave(events: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder)
        for event in events:
            run.play(event)
        run.end()
