"""What a keeper lives through: orphans, lost transcripts, a full disk, a state root that moves, many ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeSupervisor
from tests.e2e.processes import alive, children, descriptors, gone, kill, stat_of, wait_for
from tests.e2e.rig import Supervisor, spins_not


def test_no_zombie_of_300_orphaned_grandchildren_is_left_and_nothing_else_changes(sv: Supervisor) -> None:
    """P5, P6."""
    script = (
        "while [ ! -e go ]; do sleep 0.02; done; i=0;"
        "while [ $i -lt 300 ]; do (sh -c 'echo x >> orphans' &); i=$((i+1)); done; touch done; exec sleep 1000"
    )
    told = sv.sh("a1", script)
    keeper, before = sv.keeper("a1"), sv.record("a1")
    (sv.work / "go").touch()
    wait_for(lambda: (sv.work / "done").exists(), "300 orphans")
    wait_for(lambda: len((sv.work / "orphans").read_text().split()) == 300, "the work of 300 orphans")

    wait_for(lambda: [pid for pid, _ in children(keeper)] == [told["pid"]], "no child but the agent")

    changing = ("heartbeatAt", "revision")  # every 30 s
    after = sv.record("a1")
    assert {k: v for k, v in after.items() if k not in changing} == {
        k: v for k, v in before.items() if k not in changing
    }
    assert sv.row("a1")["verdict"] == "alive"


@pytest.mark.parametrize("how", ["removed", "rotated"])
def test_a_transcript_lost_under_us_degrades_the_output_and_nothing_else(sv: Supervisor, how: str) -> None:
    """P12."""
    told = sv.sh("a1", "while :; do echo on; echo x >> work; sleep 0.05; done")
    transcript = Path(told["transcript"])

    if how == "removed":
        transcript.unlink()
    else:
        transcript.rename(transcript.with_suffix(".1"))

    wait_for(lambda: sv.record("a1")["output"]["degraded"], "the entry saying so")
    assert sv.row("a1")["outputDegraded"] == "the transcript was removed or rotated away"
    assert "output is degraded" in sv.run("why", "a1").out
    worked = (sv.work / "work").stat().st_size
    wait_for(lambda: (sv.work / "work").stat().st_size > worked, "the agent at work")
    assert spins_not(sv.home, sv.keeper("a1"))
    assert sv.run("logs", "a1", code=None).code in (0, 1)


def test_60_ends_and_starts_leave_a_keepers_descriptors_as_before(sv: Supervisor) -> None:
    """P13: 20 agents that die three times each, under one keeper."""
    sv.script(
        "agent",
        'echo x >> "starts.$1"; while [ ! -e go ]; do sleep 0.02; done\n'
        'if [ "$(wc -l < "starts.$1")" -le 3 ]; then exit 1; fi\nexec sleep 1000',
    )
    names = [f"a{n}" for n in range(20)]
    sv.tree_file({n: {"profile": "shell", "args": ["./agent", n], "restart": "permanent"} for n in names})
    sv.run("up", "team.toml")
    keeper = sv.keeper("a0")
    before = descriptors(keeper)
    (sv.work / "go").touch()

    def all_settled() -> bool:
        return all((sv.work / f"starts.{n}").read_text().count("x") == 4 for n in names)

    wait_for(all_settled, "60 ends")
    sv.wait_ready(*names)

    after = descriptors(keeper)
    deaths = {n: [(d["code"], d["signal"]) for d in sv.record(n)["deaths"]] for n in names}
    assert deaths == dict.fromkeys(names, [(1, None)] * 3)
    assert sv.keeper("a0") == keeper
    assert len(after) <= len(before), (before, after)  # the pipe to the launcher is closed by now
    assert [p for p, s in children(keeper) if s.state == "Z"] == []


def test_agents_taken_over_and_ended_leave_a_keepers_descriptors_as_before(sv: Supervisor) -> None:
    names = [f"a{n}" for n in range(10)]
    sv.tree_file({n: {"profile": "shell", "args": ["sleep", "1000"]} for n in names})
    sv.run("up", "team.toml")
    kill(sv.keeper("a0"))
    sv.run("reconcile")
    keeper = sv.keeper("a0")
    wait_for(lambda: sum("pidfd" in to for to in descriptors(keeper).values()) == 10, "ten watches")
    before = len(descriptors(keeper))

    for name in names[1:]:
        kill(sv.pid(name))
        sv.ended(name)

    wait_for(lambda: len(descriptors(keeper)) <= before - 9, "nine watches fewer")


def test_a_state_root_that_is_renamed_away_and_back_costs_nothing(sv: Supervisor) -> None:
    """P25: while it is away the keeper keeps going, and what ends meanwhile is recorded when it is back."""
    names = [f"a{n}" for n in range(4)]
    sv.tree_file({n: {"profile": "shell", "args": ["sleep", "1000"]} for n in names})
    sv.run("up", "team.toml")
    rows = sv.ps()
    keeper = rows["a0"]["keeperPid"]
    away = sv.root / "away"

    sv.home.rename(away)
    for name in names[1:]:
        os.kill(rows[name]["pid"], signal.SIGKILL)
        wait_for(lambda n=name: stat_of(rows[n]["pid"]) is None, f"{name} reaped by its keeper")  # type: ignore[misc]
    assert alive(rows["a0"]["pid"])
    assert not sv.home.exists()  # nothing is made anew behind the user's back
    away.rename(sv.home)

    for name in names[1:]:
        assert sv.ended(name)["signal"] == "KILL"
    wait_for(lambda: sv.row("a0")["verdict"] == "alive", "its heartbeat")
    assert (sv.pid("a0"), sv.keeper("a0")) == (rows["a0"]["pid"], keeper)
    sv.run("stop", "a0")
    assert gone(rows["a0"]["pid"])


def test_a_state_root_made_anew_under_a_keeper_harms_no_agent(sv: Supervisor) -> None:
    """P25."""
    sv.tree_file({n: {"profile": "shell", "args": ["sleep", "1000"]} for n in ("a1", "a2")})
    sv.run("up", "team.toml")
    rows = sv.ps()
    away = sv.root / "away"
    sv.home.rename(away)
    sv.launch("b1")

    os.kill(rows["a2"]["pid"], signal.SIGKILL)
    wait_for(lambda: stat_of(rows["a2"]["pid"]) is None, "a2 reaped by its keeper")

    assert alive(rows["a1"]["pid"])
    assert alive(rows["a1"]["keeperPid"])
    assert sv.row("b1")["verdict"] == "alive"
    sv.run("stop", "b1")
    shutil.rmtree(sv.home)
    away.rename(sv.home)
    sv.run("stop", "a1")
    assert gone(rows["a1"]["pid"])


def test_a_keeper_whose_state_root_was_removed_ends_after_its_agents(sv: Supervisor) -> None:
    sv.tree_file({n: {"profile": "shell", "args": ["sleep", "1000"]} for n in ("a1", "a2")})
    sv.run("up", "team.toml")
    rows = sv.ps()
    keeper = rows["a1"]["keeperPid"]

    shutil.rmtree(sv.home)
    kill(rows["a2"]["pid"])
    assert alive(rows["a1"]["pid"])
    assert alive(keeper)
    kill(rows["a1"]["pid"])

    wait_for(lambda: gone(keeper), "the end of the keeper")
    assert not sv.home.exists()


def test_an_end_after_the_state_root_was_made_anew_is_recorded_there(sv: Supervisor) -> None:
    sv.launch("a1")
    row = sv.ps()["a1"]
    shutil.rmtree(sv.home)
    sv.launch("b1")

    kill(row["pid"])

    wait_for(lambda: gone(row["keeperPid"]), "the end of the keeper")
    assert sv.ended("a1")["signal"] == "KILL"
    sv.run("stop", "b1")


class SmallDisk:
    """A state root of 1 MiB."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self._filler = at / "filler"
        at.mkdir(mode=0o700)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", at], check=True, capture_output=True
        )

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass

    def free(self) -> None:
        self._filler.unlink()

    def close(self) -> None:
        subprocess.run(["umount", "-l", self.at], check=True)


@pytest.fixture
def small(short_tmp: Path) -> Iterator[SmallDisk]:
    (short_tmp / "small").mkdir(mode=0o700)
    try:
        disk = SmallDisk(short_tmp / "small" / "s")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tmpfs can be mounted here: {error.stderr.decode().strip()}")
    yield disk
    disk.close()


@pytest.fixture
def on_small(small: SmallDisk, make_sv: MakeSupervisor) -> Supervisor:
    return make_sv("small")


def test_a_full_disk_refuses_a_launch_and_leaves_nothing_half_started(small: SmallDisk, on_small: Supervisor) -> None:
    on_small.run("ps")
    on_small.run("launch", "--dry-run", "shell", "--", "true")  # makes the state root
    small.fill()

    for words in (("shell", "--", "sleep", "1000"), ("demo", "--", "SLEEP: 1000")):
        done = on_small.run("launch", "--detach", *words, code=1)
        assert "No space left on device" in done.err
        assert "Free some space" in done.err
        assert "Errno" not in done.err

    assert on_small.traces() == []
    small.free()
    on_small.launch("a1")


def test_a_full_disk_refuses_the_first_launch_of_all(small: SmallDisk, on_small: Supervisor) -> None:
    small.fill()

    done = on_small.run("launch", "--detach", "shell", "--", "sleep", "1000", code=1)

    assert "No space left on device" in done.err
    assert on_small.traces() == []
    small.free()
    on_small.launch("a1")


def test_a_prompt_that_does_not_fit_on_the_disk_is_refused_whole(small: SmallDisk, on_small: Supervisor) -> None:
    prompt = b"SLEEP: 1000\n" + b"x" * (2 * 1024 * 1024)

    done = on_small.run("launch", "--detach", "--prompt-file", "-", "demo", input=prompt, code=1)

    assert "No space left on device" in done.err
    assert on_small.traces() == []


def test_a_tree_that_does_not_fit_on_the_disk_is_started_whole_or_not_at_all(
    small: SmallDisk, on_small: Supervisor
) -> None:
    (on_small.work / "p.txt").write_text("SLEEP: 1000\n" + "x" * 100_000)
    on_small.tree_file({f"a{n}": {"profile": "demo", "prompt_file": "p.txt"} for n in range(20)})

    done = on_small.run("up", "team.toml", code=1)

    assert "No space left on device" in done.err
    assert on_small.traces() == []


def test_agents_live_through_a_full_disk_and_all_is_recorded_afterwards(small: SmallDisk, on_small: Supervisor) -> None:
    """P12: ends are not lost, and the entry says that output is."""
    agents = [on_small.sh(name, "while :; do echo on; sleep 0.02; done") for name in ("a1", "a2")]
    keeper = on_small.keeper("a1")
    small.fill()

    assert spins_not(small.at, keeper)
    assert all(alive(a["pid"]) for a in agents)
    assert {r["verdict"] for r in on_small.ps().values()} == {"alive"}
    kill(agents[1]["pid"])
    assert spins_not(small.at, keeper)
    small.free()

    assert on_small.ended("a2")["signal"] == "KILL"
    assert on_small.row("a1")["verdict"] == "alive"
    wait_for(lambda: "disk" in (on_small.row("a1")["outputDegraded"] or ""), "the entry saying so")


def test_an_agent_that_fills_the_disk_can_be_stopped(small: SmallDisk, on_small: Supervisor) -> None:
    told = on_small.sh("a1", "while :; do yes 2>&1 | head -c 3000000; sleep 0.1; done")
    wait_for(lambda: os.statvfs(small.at).f_bavail == 0, "a full disk")
    on_small.may_leave("what could not be stopped is ended by the test")

    on_small.run("stop", "--grace", "0.5", "a1")

    assert gone(told["pid"])
