"""A new ask is announced once, harmlessly, and to nobody who sees it anyway."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.adapters.tmux import message_argv
from supervisor.core.announcement import (
    MAX_VALUE,
    NewAsk,
    NewOrphan,
    desktop_argv,
    line,
    off_terminal,
    on_terminal,
    orphans_line,
    variables,
)
from supervisor.core.ask_wire import Request
from supervisor.core.entry import Entry, Grace, ParentRef, Resumable, Terminal
from supervisor.runtime.announcing import HELPER_MS, Announcer
from supervisor.runtime.compose import from_environment
from supervisor.testing import FakeClock, FakeProcessTable, FakeSignals, FakeSpawner, make_entry

EVIL = "kid\x1b]0;x\x07\x1b[2J\n#(touch x)%H"
TERM = {"TERM": "xterm-256color", "PATH": "/nowhere"}


@pytest.fixture(autouse=True)
def root(home: Path) -> None:
    from_environment().prepare()


class Desk:
    """An announcer over fakes, and what it did."""

    def __init__(
        self,
        *,
        env: Mapping[str, str] = TERM,
        command: tuple[str, ...] = (),
        kind: str = "foreground",
        popup: tuple[str, ...] = (),
    ) -> None:
        self.clock, self.table = FakeClock(), FakeProcessTable()
        self.spawner, self.signals = FakeSpawner(self.table, parent=1), FakeSignals(self.table, me=1)
        parts = replace(
            from_environment().parts,
            clock=self.clock,
            processes=self.table,
            spawner=self.spawner,
            signals=self.signals,
        )
        self.parts, self.written = parts, b""
        self.entry: Entry = replace(make_entry(session_id="s"), terminal=Terminal(kind=kind))  # type: ignore[arg-type]
        self.announcer = Announcer(
            parts,
            env=env,
            command=lambda: command,
            popup=lambda _session: popup,
            on_terminal=kind != "detached",
            write=self._write,
        )

    def _write(self, data: bytes) -> bool:
        self.written += data
        return True

    def ask(self, *ids: str, requester: str = "c", agent: str = "kid", waiting: int = 1) -> None:
        for ask_id in ids:
            request = Request(ask_id, 1, requester, "s", agent_name=agent, surface="bash", value="rm -rf x")
            self.announcer.add(request, self.entry)
        self.turn(waiting)

    def turn(self, waiting: int = 1) -> None:
        self.announcer.turn(self.parts.now(), waiting=waiting)


def test_a_terminal_gets_a_title_and_a_bell_and_nothing_that_draws() -> None:
    desk = Desk()
    desk.ask("perm-1")
    assert desk.written == b"\x1b[22;2t\x1b]2;kid asks to use bash (lead): supervisor inbox\a\a"


def test_an_ask_is_announced_once() -> None:
    desk = Desk(command=("/bin/tell",))
    desk.ask("perm-1")
    for _ in range(5):
        desk.clock.advance(1000)
        desk.turn()
    assert (len(desk.spawner.requests), desk.written.count(b"\a\a")) == (1, 1)


def test_the_title_goes_when_nothing_waits_any_more() -> None:
    desk = Desk()
    desk.ask("perm-1")
    desk.written = b""
    desk.turn(waiting=0)
    desk.turn(waiting=0)
    assert desk.written == b"\x1b]2;lead\a\x1b[23;2t"


@pytest.mark.parametrize("term", ["", "dumb", "linux"])
def test_a_terminal_without_titles_gets_the_bell_alone(term: str) -> None:
    assert (on_terminal("x", term=term, first=True), off_terminal("x", term=term)) == (b"\a", b"")


def test_what_an_agent_has_written_drives_no_terminal() -> None:
    ask = NewAsk(id="perm-1", agent=EVIL, tool=EVIL, value=EVIL * 1000, session=EVIL)
    data = on_terminal(line(ask, waiting=1), term="xterm", first=False)
    assert re.fullmatch(rb"\x1b\]2;[^\x00-\x1f\x7f]*\x07\x07", data)
    facts = variables(ask, waiting=3)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", "".join(facts.values()))
    assert len(facts["SUPERVISOR_ASK_VALUE"]) < 5 * MAX_VALUE
    argv = desktop_argv("/usr/bin/notify-send", line(ask, waiting=1))
    assert (argv[:4], len(argv)) == (("/usr/bin/notify-send", "--app-name=supervisor", "--", "supervisor"), 5)


def test_tmux_expands_nothing() -> None:
    argv = message_argv("%3", "#(touch x) #[fg=red] ##{pid} 5%;", env={"TMUX": "/tmp/t,1,0"})
    assert argv[:6] == ("tmux", "-S", "/tmp/t", "-u", "display-message", "-d")
    assert argv[-1] == "##(touch x) ## [fg=red] ####{pid} 5%%\\;"


def test_the_users_command_gets_the_facts_and_nothing_of_ours() -> None:
    desk = Desk(env={**TERM, "SUPERVISOR_SESSION_ID": "s"}, command=("/bin/tell", "-v"), kind="detached")
    desk.ask("perm-1", agent=EVIL)
    (request,) = desk.spawner.requests
    assert (request.argv, request.new_session, request.stdin) == (("/bin/tell", "-v"), True, "/dev/null")
    assert request.env == {
        **TERM,
        "SUPERVISOR_ASK_ID": "perm-1",
        "SUPERVISOR_ASK_AGENT": "kid\\x1b]0;x\\x07\\x1b[2J #(touch x)%H",
        "SUPERVISOR_ASK_SESSION": "lead",
        "SUPERVISOR_ASK_TOOL": "bash",
        "SUPERVISOR_ASK_VALUE": "rm -rf x",
        "SUPERVISOR_ASKS_WAITING": "1",
    }
    assert desk.written == b""


def test_many_asks_are_one_announcement_and_one_process() -> None:
    desk = Desk(command=("/bin/tell",))
    desk.ask("perm-1")
    desk.ask(*(f"perm-{n}" for n in range(2, 1000)), waiting=999)
    assert len(desk.spawner.requests) == 1
    desk.table.end(desk.spawner.started[0])
    desk.spawner.reap()
    desk.turn(waiting=999)
    assert [r.env["SUPERVISOR_ASK_ID"] for r in desk.spawner.requests] == ["perm-1", "perm-999"]
    assert desk.spawner.requests[-1].env["SUPERVISOR_ASKS_WAITING"] == "999"


def test_a_command_that_hangs_is_ended_and_holds_up_nothing_for_long() -> None:
    desk = Desk(command=("/bin/tell",))
    desk.ask("perm-1")
    desk.clock.advance(HELPER_MS)
    desk.turn()
    assert desk.signals.to(desk.spawner.started[0]) == [signal.SIGKILL]
    desk.spawner.reap()
    desk.ask("perm-2")
    assert len(desk.spawner.requests) == 2


def test_a_command_that_cannot_be_started_is_only_not_told() -> None:
    desk = Desk(command=("/bin/tell",))
    desk.spawner.fail("/bin/tell", "it was not found")
    desk.ask("perm-1")
    assert desk.written.endswith(b"\a\a")


def test_in_tmux_its_clients_are_told() -> None:
    desk = Desk(env={**TERM, "TMUX": "/tmp/t,1,0", "TMUX_PANE": "%7"})
    desk.ask("perm-1")
    (request,) = desk.spawner.requests
    assert request.argv[:3] == ("tmux", "-S", "/tmp/t") and "%7" in request.argv


def test_the_desktop_is_told_where_there_is_one(tmp_path: Path) -> None:
    program = tmp_path / "notify-send"
    program.write_text("")
    program.chmod(0o755)
    without, display = {**TERM, "PATH": str(tmp_path)}, {"DISPLAY": ":0"}
    for env, told in ((without, 0), (without | display, 1)):
        desk = Desk(env=env)
        desk.ask("perm-1")
        assert len(desk.spawner.requests) == told


def test_an_agents_own_ask_is_not_announced_on_the_terminal_that_shows_its_dialog() -> None:
    desk = Desk(command=("/bin/tell",))
    desk.ask("perm-1", requester="s")
    assert (desk.written, len(desk.spawner.requests)) == (b"", 1)


def test_one_that_was_answered_at_once_is_not_announced() -> None:
    desk = Desk(command=("/bin/tell",))
    desk.ask("perm-1", waiting=0)
    assert (desk.written, desk.spawner.requests) == (b"", [])


def in_tmux(*words: str) -> Desk:
    env = {**TERM, "TMUX": "/run/sock,1,0", "TMUX_PANE": "%7"}
    return Desk(env=env, kind="tmux", popup=words)


def popups(desk: Desk) -> list[tuple[str, ...]]:
    return [r.argv for r in desk.spawner.requests if "display-popup" in r.argv]


def test_in_tmux_an_inbox_pops_up_where_that_is_wanted() -> None:
    desk = in_tmux("/bin/py", "-m", "supervisor", "_popup", "/state", "s;")
    desk.ask("perm-1")
    ((*start, home, session),) = popups(desk)
    assert start[:7] == ["tmux", "-S", "/run/sock", "-u", "display-popup", "-E", "-t"]
    assert (start[-5:], home, session) == (["--", "/bin/py", "-m", "supervisor", "_popup"], "/state", "s\\;")


def test_no_popup_where_it_is_not_wanted_or_there_is_no_tmux() -> None:
    desk = in_tmux()
    desk.ask("perm-1")
    plain = Desk(popup=("/bin/py", "x"))
    plain.ask("perm-1")
    assert (popups(desk), popups(plain)) == ([], [])


def test_one_popup_at_a_time_and_it_is_not_ended_like_a_notification() -> None:
    desk = in_tmux("/bin/py", "x")
    desk.ask("perm-1")
    desk.clock.advance(HELPER_MS * 3)
    desk.turn()
    desk.ask("perm-2", waiting=2)
    desk.clock.advance(HELPER_MS * 3)
    desk.turn()
    assert len(popups(desk)) == 1


# -- orphans


def orphan(name: str, evidence: str = "lead: pid 3 is gone", parent: str = "session-lead") -> Entry:
    entry = make_entry(name, parent=ParentRef(session_id=parent))
    return replace(
        entry, state=Resumable(since=1, agent=entry.agent, grace=Grace(until=77, until_ns=1, evidence=evidence))
    )


def told_of_orphans(desk: Desk) -> list[dict[str, str]]:
    return [{k: v for k, v in r.env.items() if k.startswith("SUPERVISOR_")} for r in desk.spawner.requests]


def test_agents_that_have_lost_their_parent_are_told_together_and_once() -> None:
    desk = Desk(command=("/bin/tell",), kind="detached")
    for name in ("tests", *(f"kid{n}" for n in range(9))):
        desk.announcer.orphaned(orphan(name))
    desk.turn(0)
    desk.turn(0)
    assert told_of_orphans(desk) == [
        {
            "SUPERVISOR_ORPHAN_AGENT": "tests",
            "SUPERVISOR_ORPHAN_EVIDENCE": "lead: pid 3 is gone",
            "SUPERVISOR_ORPHAN_UNTIL": "77",
            "SUPERVISOR_ORPHANS": "10",
        }
    ]


def test_those_of_another_parent_are_told_on_their_own() -> None:
    desk = Desk(command=("/bin/tell",), kind="detached")
    for name, parent in (("tests", "lead"), ("docs", "boss"), ("lint", "lead")):
        desk.announcer.orphaned(orphan(name, f"{parent}: pid 3 is gone", f"session-{parent}"))
    desk.turn(0)
    desk.table.end(desk.spawner.started[0])
    desk.turn(0)
    told = [(t["SUPERVISOR_ORPHAN_EVIDENCE"], t["SUPERVISOR_ORPHANS"]) for t in told_of_orphans(desk)]
    assert told == [("lead: pid 3 is gone", "2"), ("boss: pid 3 is gone", "1")]


def test_a_notification_says_how_many_have_lost_whom() -> None:
    orphans = [NewOrphan(agent=f"kid{n}", parent="s", evidence="lead: pid 3 is gone", until=1) for n in range(10)]
    assert orphans_line(orphans[:1]) == "kid0 has lost its parent (lead: pid 3 is gone): supervisor orphans"
    many = "10 agents have lost their parent (lead: pid 3 is gone), kid0 and 9 more: supervisor orphans"
    assert orphans_line(orphans) == many


def test_the_line_of_an_orphan_drives_no_terminal() -> None:
    found = orphans_line([NewOrphan(agent=EVIL, parent=EVIL, evidence=EVIL, until=1)])
    assert not re.search(r"[\x00-\x1f]", found)
    assert found.endswith("supervisor orphans")
