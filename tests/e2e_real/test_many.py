"""Many at once: a hundred agents without their keeper, twenty `up`, a tree of processes that does not want to end."""

import json

import pytest

from tests.e2e_real.processes import command, descriptors, kill, marked, runs, stat, until
from tests.e2e_real.rig import Rig, kill_keeper

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


# ---------------------------------------------------------------- P16: a keeper of a hundred

MANY = 100
SLEEP = "sleep 6543"


def write_tree(rig: Rig, count: int) -> None:
    """A tree file of sleepers."""
    agent = '[agents.s{n}]\nprofile = "shell"\nargs = ["sleep", "6543"]\n'
    (rig.cwd / "supervisor.toml").write_text("".join(agent.replace("{n}", str(n)) for n in range(count)))


def sleepers(rig: Rig) -> list[int]:
    """The agents that run."""
    return sorted(pid for pid in rig.running() if command(pid).endswith(SLEEP))


def test_a_hundred_agents_outlive_their_keeper_and_none_is_doubled(bare: Rig) -> None:
    write_tree(bare, MANY)
    assert bare.run("up").code == 0
    before = bare.rows()
    pids = sleepers(bare)
    assert len(pids) == MANY
    kill_keeper(before["s0"])
    assert sleepers(bare) == pids, "nobody died with the keeper"

    repaired = bare.run("reconcile", "--json").data

    assert sorted(r["name"] for r in repaired if r["what"] == "attached") == sorted(before)
    after = bare.rows()
    assert {n: r["pid"] for n, r in after.items()} == {n: r["pid"] for n, r in before.items()}
    assert {r["verdict"] for r in after.values()} == {"alive"}
    (keeper,) = {r["keeperPid"] for r in after.values()}
    assert sleepers(bare) == pids
    assert bare.run("up", "--json").data["started"] == []
    assert bare.run("reconcile", "--json").data == []

    watched = len(descriptors(keeper))
    assert bare.run("stop", *[f"s{n}" for n in range(1, MANY)]).code == 0
    until(lambda: len(descriptors(keeper)) <= watched - (MANY - 1), lambda: f"closed: {descriptors(keeper)}")
    assert sleepers(bare) == [before["s0"]["pid"]]
    kill(before["s0"]["pid"])
    assert bare.hand_off("s0")["signal"] in ("KILL", None)
    bare.assert_no_process_left()


def test_the_next_up_finds_a_hundred_agents_without_a_keeper(bare: Rig) -> None:
    write_tree(bare, MANY)
    assert bare.run("up").code == 0
    pids = sleepers(bare)
    kill_keeper(bare.row("s0"))

    again = bare.run("up", "--json").data

    assert (again["started"], len(again["alreadyRunning"])) == ([], MANY)
    assert sleepers(bare) == pids
    assert {r["verdict"] for r in bare.rows().values()} == {"alive"}
    assert bare.run("down").code == 0
    bare.assert_no_process_left()


def test_the_next_up_starts_what_has_died_with_its_keeper(bare: Rig) -> None:
    write_tree(bare, 3)
    assert bare.run("up").code == 0
    before = bare.rows()
    for pid in (before["s0"]["keeperPid"], *(row["pid"] for row in before.values())):
        kill(pid)

    again = bare.run("up", "--json").data

    assert sorted(started["name"] for started in again["started"]) == ["s0", "s1", "s2"]
    assert again["alreadyRunning"] == []
    assert len(sleepers(bare)) == 3
    assert bare.run("down").code == 0
    bare.assert_no_process_left()


# ---------------------------------------------------------------- P14: twenty at once

UPS = 20
IN_ONE_TREE = 8


def test_twenty_ups_at_once_make_one_tree(bare: Rig) -> None:
    write_tree(bare, IN_ONE_TREE)
    outs = [bare.tmp / f"up-{n}.json" for n in range(UPS)]

    ups = [bare.start("up", "--json", out=out) for out in outs]
    codes = [up.wait(120) for up in ups]

    assert codes == [0] * UPS
    told = [json.loads(out.read_text()) for out in outs]
    assert sorted(len(t["started"]) for t in told) == [0] * (UPS - 1) + [IN_ONE_TREE]
    assert sorted(len(t["alreadyRunning"]) for t in told) == [0] + [IN_ONE_TREE] * (UPS - 1)
    assert len(sleepers(bare)) == IN_ONE_TREE
    assert len({r["keeperPid"] for r in bare.rows().values()}) == 1
    assert bare.run("down").code == 0
    bare.assert_nothing_left()


# ---------------------------------------------------------------- O2: a tree that does not want to end

DEPTH = 4  # 1 + 2 + 4 + 8 + 16 = 31 processes
STUBBORN = """
trap '' TERM HUP INT
echo $$ >> "$PIDS"
if [ "$1" -gt 0 ]; then
    (setsid sh "$0" $(($1 - 1)) &)
    sh "$0" $(($1 - 1)) &
fi
exec tail -f /dev/null
"""


@pytest.mark.parametrize("keeper", ["its own", "a later"])
def test_a_stubborn_tree_of_31_is_stopped_to_nothing(bare: Rig, keeper: str) -> None:
    script, path = bare.cwd / "stubborn.sh", bare.tmp / "pids"
    script.write_text(STUBBORN)
    bare.launch("shell", "--name", "tree", "--env", f"PIDS={path}", "--", "sh", str(script), str(DEPTH))
    until(lambda: path.exists() and len(path.read_text().split()) == 31, "31 processes")
    pids = [int(word) for word in path.read_text().split()]
    assert all(map(runs, pids))
    assert len({s.session for pid in pids if (s := stat(pid))}) == 16, "every other branch is a session"
    if keeper == "a later":
        kill_keeper(bare.row("tree"))

    stopped = bare.run("stop", "tree", "--grace", "0.5")

    assert stopped.code == 0, stopped.err
    assert [pid for pid in pids if runs(pid)] == []
    assert marked(bare.mark) == [] or until(bare.all_gone, "the keeper's end")
    assert bare.hand_off("tree")["survivors"] == []
