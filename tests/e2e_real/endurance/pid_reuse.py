"""Forced reuse of pids, in a pid namespace of its own: `unshare --pid --fork --mount-proc python -m … SCENARIO`.

Is process 1 there, so orphans become its children and it decides when their pids are free; the next pid is chosen by
writing `ns_last_pid`. A newcomer on a reused pid writes down every signal that reaches it. Prints one JSON object.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from supervisor.adapters.procfs import ProcFs
from supervisor.adapters.signals import SystemSignals
from supervisor.core.identity import ProcessKey, Seen

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
TRIES = 500
DEADLINE = 60.0
Facts = dict[str, Any]


def until(condition: Callable[[], object], what: str) -> None:
    """Wait; give up with a message."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"still not: {what}")
        time.sleep(0.01)


def state_of(pid: int) -> str:
    """The state letter of a process, empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def runs(pid: int) -> bool:
    """Whether it exists and is no zombie (orphans wait here to be reaped)."""
    return state_of(pid) not in ("", "Z")


def end(pid: int) -> None:
    """Kill one of our children (or orphans), and free its pid."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


class Newcomer:
    """A process of ours on a pid that was somebody else's."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._log = folder / f"newcomer-{time.monotonic_ns()}"
        self.pid = pid
        for _ in range(TRIES):
            LAST_PID.write_text(str(pid - 1))
            child = os.fork()
            if child == 0:
                listen(self._log)
            if child == pid:
                break
            end(child)
        else:
            raise SystemExit(f"pid {pid} could not be had again")
        until(self._log.exists, "a listening newcomer")

    def heard(self) -> list[str]:
        """Every signal that has reached it."""
        state = state_of(self.pid)
        seen = self._log.read_text().split()
        return seen + {"T": ["SIGSTOP"], "Z": ["SIGKILL"], "": ["SIGKILL"]}.get(state, [])

    def leave(self) -> None:
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            end(self.pid)


def listen(log: Path) -> NoReturn:
    """Be a process that writes down every signal it hears."""

    def hear(number: int, _frame: object) -> None:
        with log.open("a") as file:
            file.write(f"{signal.Signals(number).name}\n")

    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        if number < signal.SIGRTMIN:
            signal.signal(number, hear)
    log.touch()
    while True:
        signal.pause()


def victim() -> int:
    """A child that does nothing."""
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    return child


# ---------------------------------------------------------------- one signal, sent by the adapter


class SwappingTable(ProcFs):
    """Another process takes the pid while it is looked at: before or after the look."""

    def __init__(self, swap: Callable[[], None], *, before: bool) -> None:
        super().__init__("host")
        self._swap: Callable[[], None] | None = swap
        self._before = before

    def _once(self) -> None:
        swap, self._swap = self._swap, None
        if swap:
            swap()

    def probe(self, pid: int) -> Seen:
        """The look of `SystemSignals`, between opening the pidfd and sending."""
        if self._before:
            self._once()
        seen = super().probe(pid)
        self._once()
        return seen


def reused_before(folder: Path, number: int, *, same_tick: bool) -> Facts:
    """The pid is the newcomer's when the signal is sent; `same_tick`: it also started in the same clock tick."""
    table = ProcFs("host")
    for _ in range(TRIES):
        old = victim()
        key = table.identify(old)
        assert key is not None
        if not same_tick:
            until(lambda start=key.start_ticks: _ticks() > start + 1, "another tick")  # type: ignore[misc]
        end(old)
        newcomer = Newcomer(old, folder)
        new = table.identify(old)
        assert new is not None
        if (new.start_ticks == key.start_ticks) == same_tick:
            sent = SystemSignals(table).send(key, number)
            return _facts(sent, newcomer, inode=key.pidfd_inode)
        newcomer.leave()
    raise SystemExit("the wanted ticks could not be had")


def _ticks() -> int:
    child = victim()
    found = ProcFs("host").identify(child)
    end(child)
    assert found is not None
    return found.start_ticks


def reused_between(folder: Path, number: int, *, before: bool) -> Facts:
    """The pid changes hands between the opening of the pidfd and the signal."""
    old = victim()
    key = ProcFs("host").identify(old)
    assert isinstance(key, ProcessKey)
    newcomers: list[Newcomer] = []

    def swap() -> None:
        end(old)
        newcomers.append(Newcomer(old, folder))

    sent = SystemSignals(SwappingTable(swap, before=before)).send(key, number)
    return _facts(sent, newcomers[0])


def _facts(sent: bool, newcomer: Newcomer, **more: object) -> Facts:
    facts = {"sent": sent, "heard": newcomer.heard(), **more}
    newcomer.leave()
    return facts


def one_signal(folder: Path) -> Facts:
    """Every case, with signals that would be heard, that stop, and that kill."""
    cases: dict[str, Callable[[int], Facts]] = {
        "another tick": lambda n: reused_before(folder, n, same_tick=False),
        "between open and look": lambda n: reused_between(folder, n, before=True),
        "between look and signal": lambda n: reused_between(folder, n, before=False),
    }
    if "inode" in _pidfs():
        cases["same tick"] = lambda n: reused_before(folder, n, same_tick=True)
    numbers = (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL)
    return {f"{name}, {n.name}": case(n) for name, case in cases.items() for n in numbers}


def _pidfs() -> str:
    """Where the kernel has no pidfs, two processes of one pid and tick cannot be told apart."""
    found = ProcFs("host").identify(os.getpid())
    return "inode" if found and found.pidfd_inode is not None else ""


# ---------------------------------------------------------------- the whole product


def supervisor(*words: str) -> tuple[int, str]:
    """One command: code and stdout."""
    done = subprocess.run(["supervisor", *words], capture_output=True, text=True, timeout=DEADLINE, check=False)
    return done.returncode, done.stdout


def row(name: str = "a") -> Facts:
    """One agent as `ps` shows it."""
    _, out = supervisor("ps", "--all", "--json")
    return next(r for r in json.loads(out) if r["name"] == name)


def launch(name: str = "a", *words: str) -> Facts:
    """An agent with its keeper."""
    code, out = supervisor("launch", "--detach", "--json", "shell", "--name", name, "--", *(words or ("sleep", "600")))
    assert code == 0, out
    return row(name)


def agents_pid_while_its_keeper_sleeps(folder: Path) -> Facts:
    """A re-attached agent dies and its pid is taken while its keeper is stopped and a stop is on its way."""
    first = launch()
    end(first["keeperPid"])
    supervisor("reconcile")
    keeper = row()["keeperPid"]
    os.kill(keeper, signal.SIGSTOP)
    until(lambda: state_of(keeper) == "T", "a stopped keeper")
    end(first["pid"])
    newcomer = Newcomer(first["pid"], folder)
    with subprocess.Popen(["supervisor", "stop", "a", "--grace", "0.2"], stdout=subprocess.DEVNULL) as stop:
        until(lambda: row()["want"] == "down", "the wish on disk")
        os.kill(keeper, signal.SIGCONT)
        code = stop.wait(DEADLINE)
    last = row()
    return {"code": code, "status": last["status"], **_facts(False, newcomer)}


def agents_pid_without_a_keeper(folder: Path) -> Facts:
    """Keeper and agent die, somebody else gets the agent's pid, then everything that could signal is called."""
    first = launch()
    end(first["keeperPid"])
    end(first["pid"])
    newcomer = Newcomer(first["pid"], folder)
    seen = row()
    codes = [supervisor(*words)[0] for words in (("stop", "a", "--grace", "0"), ("reconcile",), ("stop", "a"))]
    return {"codes": codes, "verdict": seen["verdict"], "evidence": seen["evidence"], **_facts(False, newcomer)}


def keepers_pid(folder: Path) -> Facts:
    """The keeper dies and its pid is taken: the agent is re-attached, the newcomer is not taken for the keeper."""
    first = launch()
    end(first["keeperPid"])
    newcomer = Newcomer(first["keeperPid"], folder)
    seen = row()
    supervisor("reconcile")
    after = row()
    code, _ = supervisor("stop", "a", "--grace", "0.2")
    return {
        "verdict": seen["verdict"],
        "reattached": (after["verdict"], after["pid"] == first["pid"], after["keeperPid"] != first["keeperPid"]),
        "code": code,
        "agent": runs(first["pid"]),
        **_facts(False, newcomer),
    }


def tool_on_a_keepers_pid(folder: Path) -> Facts:
    """A tool of an agent gets the pid that a killed keeper had: it still ends with its agent."""
    first = launch("a")
    end(first["keeperPid"])
    gate = folder / "gate"
    os.mkfifo(gate)
    other = launch("b", "sh", "-c", f"read x < '{gate}'; setsid sleep 601 & wait")
    LAST_PID.write_text(str(first["keeperPid"] - 1))
    gate.write_text("go\n")
    until(lambda: command(first["keeperPid"]) == ["sleep", "601"], "the tool on the keeper's pid")
    code, _ = supervisor("stop", "b", "--grace", "0.2")
    facts = {"code": code, "tool": runs(first["keeperPid"]), "agent": runs(other["pid"])}
    supervisor("stop", "a", "--grace", "0.2")
    return facts


def command(pid: int) -> list[str]:
    """The words of its command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return []


SCENARIOS: dict[str, Callable[[Path], Facts]] = {
    "one-signal": one_signal,
    "agents-pid-while-its-keeper-sleeps": agents_pid_while_its_keeper_sleeps,
    "agents-pid-without-a-keeper": agents_pid_without_a_keeper,
    "keepers-pid": keepers_pid,
    "tool-on-a-keepers-pid": tool_on_a_keepers_pid,
}


def main() -> None:
    """One scenario."""
    assert os.getpid() == 1, "needs a pid namespace of its own"
    print(json.dumps(SCENARIOS[sys.argv[1]](Path(sys.argv[2]))), flush=True)


if __name__ == "__main__":
    main()
