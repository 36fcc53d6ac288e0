"""`answer` from inside an agent: it is that agent that answers, within its own authority."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.e2e.processes import wait_for
from tests.e2e.rig import Supervisor


@pytest.fixture
def lead(sv: Supervisor) -> Any:
    """An agent that runs what it finds in `do` and leaves code and output in `done`."""
    loop = (
        "while :; do if [ -e do ]; then sh ./do > told 2>&1; echo $? >> told; rm do; mv told done; fi; sleep 0.05; done"
    )
    return sv.sh("lead", loop, "--asks", "hold")


def inside(sv: Supervisor, *words: str) -> tuple[int, str]:
    """Have the lead run `supervisor WORDS`."""
    return run_inside(sv, shlex.join([*sv.argv, *words]))


def run_inside(sv: Supervisor, line: str) -> tuple[int, str]:
    """Have the lead run a line of shell: code and output."""
    (sv.work / "next").write_text(line)
    (sv.work / "next").rename(sv.work / "do")
    done = sv.work / "done"
    text = wait_for(lambda: done.exists() and done.read_text(), "the command of the lead")
    done.unlink()
    out, _, code = text.rstrip("\n").rpartition("\n")
    return int(code), out


def ask(sv: Supervisor, name: str, value: str, *options: str) -> Any:
    """A child that asks; its end says what it was told."""
    return sv.sh(name, f"{sv.command} ask --tool bash --value {shlex.quote(value)} > {name}.told 2>&1", *options)


def waiting(sv: Supervisor, requester: Any) -> Any:
    return wait_for(
        lambda: next((a for a in sv.json("asks") if a["requester"] == requester["sessionId"]), None), "the ask"
    )


def test_an_agent_answers_for_its_descendants_within_its_own_authority_and_under_its_own_name(
    sv: Supervisor, lead: Any
) -> None:
    kid = ask(sv, "kid", "rm -rf build", "--parent", "lead")
    item = waiting(sv, kid)

    code, told = inside(sv, "answer", item["id"], "allow")
    assert (code, "lead would have to ask for it itself" in told) == (1, True), told
    assert "supervisor inbox" in told
    assert waiting(sv, kid)["id"] == item["id"]

    code, told = inside(sv, "answer", item["id"], "deny", "--reason", "keep it", "--json")
    assert (code, json.loads(told)["result"]) == (0, "applied"), told
    sv.ended("kid")
    said = (sv.work / "kid.told").read_text()
    assert "keep it" in said
    assert "user" not in said.replace("not a refusal by the user", "")
    events = [json.loads(e) for e in sv.run("asks", "--log", "--json").out.splitlines()]
    (event,) = [e for e in events if e["event"] == "answered"]
    assert event["by"] == {"kind": "authorizer", "who": "lead"}


def test_an_agent_never_answers_its_own_ask_nor_a_strangers(sv: Supervisor, lead: Any) -> None:
    sv.run("settings", "set", "asks.agents_allow", "any")
    other = ask(sv, "other", "make", "--asks", "hold")
    item = waiting(sv, other)
    for decision in ("allow", "deny"):
        code, told = inside(sv, "answer", item["id"], decision)
        assert (code, "its asker is no descendant of lead" in told) == (1, True), told

    run_inside(sv, f"{sv.command} ask --tool bash --value make > own.told 2>&1 &")
    item = waiting(sv, lead)
    for decision in ("allow", "deny"):
        code, told = inside(sv, "answer", item["id"], decision)
        assert (code, "it is its own ask" in told) == (1, True), told

    kid = ask(sv, "kid", "make", "--parent", "lead")
    item = waiting(sv, kid)
    code, told = inside(sv, "answer", item["id"], "allow")
    assert code == 0, told
    sv.ended("kid")


def test_without_an_agent_around_it_a_person_answers(sv: Supervisor, lead: Any) -> None:
    kid = ask(sv, "kid", "make", "--parent", "lead")
    sv.run("answer", waiting(sv, kid)["id"], "allow")
    sv.ended("kid")
