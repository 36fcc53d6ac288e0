"""The tree file of `up`: what is wrong with it is named, and parents start before children."""

from typing import Any

import pytest

from supervisor.core.tree_file import AgentSpec, TreeFile, problems, start_order


def tree(**agents: dict[str, Any]) -> TreeFile:
    return TreeFile(agents={name: AgentSpec(profile="demo", **spec) for name, spec in agents.items()})


@pytest.mark.parametrize(
    "file",
    [
        tree(lead={}),
        tree(lead={}, tests={"parent": "lead"}, docs={"parent": "lead", "after": ("tests",)}),
        tree(one={"prompt": "x"}, two={"prompt_file": "x"}),
        tree(child={"parent": "lead"}, lead={}),
    ],
)
def test_a_sound_file_has_no_problems(file: TreeFile) -> None:
    assert list(problems(file)) == []


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (tree(lead={"parent": "boss"}), "agents.lead.parent: there is no agent 'boss' in this file"),
        (tree(lead={"after": ("db",)}), "agents.lead.after: there is no agent 'db' in this file"),
        (tree(lead={"prompt": "x", "prompt_file": "y"}), "agents.lead: has both prompt and prompt_file"),
        (tree(lead={"parent": "lead"}), "agents: cycle of parent and after: lead → lead"),
        (tree(a={"parent": "b"}, b={"parent": "a"}), "agents: cycle of parent and after: a → b → a"),
        (tree(a={"after": ("b",)}, b={"parent": "a"}), "agents: cycle of parent and after: a → b → a"),
        (
            tree(x={}, a={"after": ("b", "x")}, b={"after": ("c",)}, c={"after": ("a",)}),
            "agents: cycle of parent and after: a → b → c → a",
        ),
    ],
)
def test_a_problem_is_named_with_its_place(file: TreeFile, expected: str) -> None:
    assert [expected] == list(problems(file))


def test_a_bad_name_is_refused() -> None:
    (problem,) = problems(TreeFile(agents={"-rf": AgentSpec(profile="demo")}))
    assert problem.startswith("agents.-rf: '-rf' is no agent name")


@pytest.mark.parametrize(
    ("file", "order"),
    [
        (tree(a={}, b={}, c={}), "a b c"),
        (tree(child={"parent": "lead"}, lead={}), "lead child"),
        (tree(unit={"parent": "tests"}, tests={"parent": "lead"}, lead={}), "lead tests unit"),
        (tree(lead={}, c={"parent": "lead", "after": ("b",)}, b={"parent": "lead"}), "lead b c"),
    ],
)
def test_parents_and_predecessors_start_first_else_as_in_the_file(file: TreeFile, order: str) -> None:
    assert order.split() == start_order(file)


def test_everybody_is_started_once() -> None:
    file = tree(**{f"n{i}": {"parent": f"n{i // 2}"} if i else {} for i in range(40)})
    assert sorted(file.agents) == sorted(start_order(file))
