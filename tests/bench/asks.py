"""The measures of asks: ours, and a peer that polls every 250 ms beside it. Each scenario in a fresh state root."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.ours import Ours
from tests.bench.procs import SECONDS, SLEEP, until
from tests.bench.run import Run, Scenario, settle

PEER = "poller"
HERE = Path(__file__)
ASK, POLLER = str(HERE.with_name("inside_asks.py")), str(HERE.with_name("poller.py"))
CHILDREN, EACH = 8, 25
PILE = 10_000
LOOK_S = 20.0
SESSION = "peer-session"
HOOK_EVENT = {
    "hook_event_name": "PermissionRequest",
    "session_id": "bench-child",
    "transcript_path": "",
    "cwd": "/",
    "tool_name": "Bash",
    "tool_input": {"command": "echo hi"},
}

Child = subprocess.Popen[bytes]


class Side:
    """One state root whose agent `lead` serves; or the peer's server. How to ask it, and what to kill."""

    def __init__(self, run: Run, ours: Ours, *, mode: str = "rules", foreground: bool = False) -> None:
        self.run, self.ours, self.who = run, ours, "ours"
        rule = json.dumps([{"action": "allow", "tool": "bash", "value": "echo *"}])
        ours.run("settings", "set", "asks.rules", rule)
        words = ["launch", "--name", "lead", "--asks", mode]
        if foreground:
            argv = [str(run.binaries / "supervisor"), *words, "shell", "--", SLEEP, SECONDS]
            self.keeper_process: Child | None = start(run, argv, env=ours.env)
            until(lambda: [r for r in ours.rows() if r["pid"]], 10)
        else:
            self.keeper_process = None
            ours.run(*words, "--detach", "shell", "--", SLEEP, SECONDS)
        (row,) = ours.rows()
        self.session, self.keeper, self.agent = row["sessionId"], row["keeperPid"], row["pid"]
        until(lambda: (ours.home / "forwarding" / "serving" / f"{self.session}.json").exists(), 10)

    def asking(self, count: int, value: str = "echo hi") -> Child:
        python = str(self.run.binaries / "python")
        words = [python, "-P", ASK, "ask", str(self.ours.home), self.session, str(count), value]
        return start(self.run, words, env=self.ours.env)

    def requests(self) -> list[str]:
        return listed(self.ours.home / "forwarding" / "sessions" / self.session / "requests")


class PeerSide:
    """The poller's server and children, in a folder of their own."""

    def __init__(self, run: Run, folder: Path, *, hold: bool = False) -> None:
        folder.mkdir(parents=True)
        self.run, self.root, self.who, self.session = run, folder, PEER, SESSION
        words = [sys.executable, POLLER, "serve", str(folder), SESSION, *(["hold"] if hold else [])]
        self.keeper_process: Child | None = start(run, words, env=run.env)
        self.keeper = self.agent = self.keeper_process.pid
        until(lambda: (folder / "serving" / f"{SESSION}.json").exists(), 10)

    def asking(self, count: int, value: str = "echo hi") -> Child:
        words = [sys.executable, POLLER, "ask", str(self.root), self.session, str(count), "600"]
        return start(self.run, words, env=self.run.env)

    def requests(self) -> list[str]:
        return listed(self.root / "sessions" / self.session / "requests")


AnySide = Side | PeerSide


def listed(folder: Path) -> list[str]:
    try:
        return [n for n in os.listdir(folder) if n.endswith(".json")]
    except OSError:
        return []


def start(run: Run, argv: Sequence[str], *, env: dict[str, str]) -> Child:
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, env=env, cwd=str(run.folder), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)


def result(child: Child, seconds: float = 120) -> dict[str, Any]:
    """What an asking process printed."""
    out, _ = child.communicate(timeout=seconds)
    found: dict[str, Any] = json.loads(out)
    return found


@contextmanager
def root(run: Run) -> Iterator[Ours]:
    """A fresh state root; what was started in it is ended afterwards."""
    try:
        yield run.ours()
    finally:
        run.marked.end_all()


def peer_folder(run: Run) -> Path:
    return run.folder / f"poller-{time.monotonic_ns()}"


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


# -- scenarios


def rule(run: Run) -> None:
    """One ask after the other, decided by a rule."""
    with root(run) as ours:
        side = Side(run, ours)
        result(side.asking(50))
        for _ in range(3):
            run.calm()
            took = result(side.asking(500))["ms"]
            run.results.add("askrule", percentile(took, 0.5))
            run.results.add("askrule99", percentile(took, 0.99))
    with root(run):
        peer = PeerSide(run, peer_folder(run))
        took = result(peer.asking(20))["ms"]
        run.results.add("askrule", percentile(took, 0.5), PEER)
        run.results.add("askrule99", percentile(took, 0.99), PEER)


def hook(run: Run) -> None:
    """The whole run of the hook, as Claude Code starts it."""
    with root(run) as ours:
        side = Side(run, ours)
        env = {**ours.env, "SUPERVISOR_SESSION_ID": "bench-child", "SUPERVISOR_PARENT_SESSION": side.session}
        argv = [str(run.binaries / "python"), "-P", "-m", "supervisor.hook", "claude"]
        for number in range(run.depth.cpu_runs + 1):
            run.calm()
            began = time.perf_counter()
            out, _ = start(run, argv, env=env).communicate(json.dumps(HOOK_EVENT).encode(), timeout=60)
            took = (time.perf_counter() - began) * 1000
            if b'"allow"' not in out:
                return run.problem(f"the hook printed {out[:200]!r}")
            if number:
                run.results.add("hookrule", took)
    return None


def nobody(run: Run) -> None:
    """A session that never served."""
    with root(run) as ours:
        ours.run("settings", "set", "asks.mode", "attended")
        argv = [str(run.binaries / "python"), "-P", ASK, "ask", str(ours.home), "nobody", "3", "echo hi"]
        found = result(start(run, argv, env=ours.env))
        _refused(run, found, "ours")
        run.results.add("never", [ms / 1000 for ms in found["ms"]])
    with root(run):
        argv = [sys.executable, POLLER, "ask", str(peer_folder(run)), "nobody", "2", "600"]
        run.results.add("never", [ms / 1000 for ms in result(start(run, argv, env=run.env))["ms"]], PEER)


def _refused(run: Run, found: dict[str, Any], who: str) -> None:
    if who == "ours" and set(found["codes"]) != {"not_serving"}:
        run.problem(f"asks of nobody ended as {set(found['codes'])}")


def killed(run: Run) -> None:
    """Parent and keeper are killed while the ask waits: reaped at once, or left as a zombie."""
    for name, foreground in (("killed", False), ("zombie", True)):
        if not run.wants(name):
            continue
        for _ in range(2):
            with root(run) as ours:
                _wait_for_refusal(run, Side(run, ours, mode="hold", foreground=foreground), name, signal.SIGKILL)
        with root(run):
            peer = PeerSide(run, peer_folder(run), hold=True)
            _wait_for_refusal(run, peer, name, signal.SIGKILL, reap=name == "killed")


def stopped(run: Run) -> None:
    """The keeper is stopped, not dead."""
    with root(run) as ours:
        _wait_for_refusal(run, Side(run, ours, mode="hold"), "stopped", signal.SIGSTOP)
    with root(run):
        _wait_for_refusal(run, PeerSide(run, peer_folder(run), hold=True), "stopped", signal.SIGSTOP)


def _wait_for_refusal(run: Run, side: AnySide, name: str, number: int, *, reap: bool = False) -> None:
    child = side.asking(1, "rm -rf x")
    if not until(side.requests, 10, 0.005):
        return run.problem(f"{name}: no ask came")
    settle(1.5)
    run.calm()
    struck = time.monotonic()
    for pid in {side.keeper, side.agent} if number == signal.SIGKILL else {side.keeper}:
        run.marked.kill(pid, number)
    if reap and side.keeper_process is not None:
        side.keeper_process.wait()
    found = result(child, 60)
    _refused(run, found, side.who)
    return run.results.add(name, found["at"] - struck, side.who)


def many(run: Run) -> None:
    """Children at once, and one child for long: outcomes other than the decision."""
    with root(run) as ours:
        side = Side(run, ours)
        if run.wants("lost200"):
            run.results.add("lost200", _lost(side, [EACH] * CHILDREN))
        if run.wants("lost10000"):
            run.results.add("lost10000", _lost(side, [run.depth.asks]))
    if run.wants("lost200"):
        with root(run):
            run.results.add("lost200", _lost(PeerSide(run, peer_folder(run)), [EACH] * CHILDREN), PEER)


def _lost(side: AnySide, counts: Sequence[int]) -> int:
    children = [side.asking(n) for n in counts]
    return sum(code != "approved" for child in children for code in result(child, 600)["codes"])


def pending(run: Run) -> None:
    """Ten thousand asks wait: the newest is shown."""
    with root(run) as ours:
        side = Side(run, ours, mode="hold")
        argv = [str(run.binaries / "python"), "-P", ASK, "pile", str(ours.home), side.session, str(PILE)]
        pile = start(run, argv, env=ours.env)
        assert pile.stdout is not None and pile.stdin is not None
        pile.stdout.readline()
        settle(5)
        for _ in range(3):
            run.calm()
            done = ours.run("asks")
            run.results.add("pending", done.wall)
            if f"perm-{PILE - 1:08}" not in done.out.decode()[-1000:]:
                run.problem("the newest of ten thousand asks was not shown")
        took = result(side.asking(20))["ms"]
        run.results.add("pendingrule", percentile(took, 0.5))
        pile.stdin.close()
        pile.wait()


def deliberation(run: Run) -> None:
    """A person looks at one ask for long; a second child's ask is answered meanwhile, and the first one waits on."""
    with root(run) as ours:
        side = Side(run, ours, mode="hold")
        ours.run("settings", "set", "asks.forwarding_timeout_ms", "5000")
        first = side.asking(1, "rm -rf first")
        until(side.requests, 10)
        (ask_id,) = [n[:-5] for n in side.requests()]
        argv = [str(run.binaries / "python"), "-P", ASK, "look", str(ours.home), ask_id]
        look = start(run, argv, env=ours.env)
        settle(LOOK_S / 2)
        second = side.asking(1, "rm -rf second")
        until(lambda: len(side.requests()) == 2, 10)
        (other,) = [n[:-5] for n in side.requests() if n[:-5] != ask_id]
        ours.run("answer", other, "allow")
        answered = result(second)["codes"] == ["approved"] and first.poll() is None
        settle(LOOK_S / 2)
        ours.run("answer", ask_id, "allow")
        run.results.add("meanwhile", int(answered and result(first)["codes"] == ["approved"]))
        assert look.stdin is not None
        look.stdin.close()
        look.wait()


ASKS: tuple[tuple[Scenario, tuple[str, ...]], ...] = (
    (rule, ("askrule", "askrule99")),
    (hook, ("hookrule",)),
    (nobody, ("never",)),
    (killed, ("killed", "zombie")),
    (stopped, ("stopped",)),
    (many, ("lost200", "lost10000")),
    (pending, ("pending", "pendingrule")),
    (deliberation, ("meanwhile",)),
)
"""Each with the measures it takes."""
