"""What the hook reads of an event: the verified inputs of both CLIs, and everything that is not exactly one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.ask_wire import MAX_BYTES, build_request, encode_request
from supervisor.hook.event import MAX_INPUT, SessionStarted, parse
from supervisor.runtime.tool_use import MAX_VALUE, PermissionAsk, Unclear

DATA = Path(__file__).parent.parent / "data" / "hook"
OTHERS = [
    "claude-PostToolUse", "claude-PreToolUse", "claude-SessionEnd", "claude-Stop",
    "codex-PreToolUse", "codex-Stop", "codex-UserPromptSubmit",
]  # fmt: skip


def fixture(name: str) -> bytes:
    """A CLI's own bytes, with a real folder for the placeholder."""
    return (DATA / f"{name}.stdin.json").read_bytes().replace(b"<CWD>", b"/work/w")


def permission(**changes: Any) -> bytes:
    body = {
        "session_id": "s-1",
        "transcript_path": "/c/projects/w/s-1.jsonl",
        "cwd": "/work/w",
        "hook_event_name": "PermissionRequest",
        "tool_name": "Bash",
        "tool_input": {"command": "touch MARK"},
    }
    return json.dumps({k: v for k, v in {**body, **changes}.items() if v is not ...}).encode()


def asked(data: bytes) -> PermissionAsk:
    found = parse(data)
    assert isinstance(found, PermissionAsk), found
    return found


def why(data: bytes) -> str:
    found = parse(data)
    assert isinstance(found, Unclear), found
    return found.why


@pytest.mark.parametrize(
    ("name", "tool", "value"),
    [
        ("claude-PermissionRequest-Bash", "bash", "touch MARK"),
        ("claude-PermissionRequest-Read-outside", "read", "/etc/hostname"),
        ("claude-PermissionRequest-WebFetch", "webfetch", "http://127.0.0.1:8399/v1/models"),
        ("claude-PermissionRequest-Write", "write", "/work/w/f.txt"),
        ("claude-PermissionRequest-subagent", "bash", "touch MARK"),
        ("codex-PermissionRequest", "bash", "touch MARK"),
    ],
)
def test_a_permission_request_is_read_as_tool_and_value(name: str, tool: str, value: str) -> None:
    found = asked(fixture(name))
    assert (tool, value, "/work/w") == (found.tool, found.value, found.cwd)
    assert json.loads(fixture(name))["tool_input"] == found.shown


@pytest.mark.parametrize("name", ["claude-SessionStart", "codex-SessionStart"])
def test_a_session_start_names_the_session_and_its_source(name: str) -> None:
    found = parse(fixture(name))
    assert isinstance(found, SessionStarted)
    assert (found.session, found.source) == ("<UUID_1>", "startup")
    assert found.transcript is not None and found.transcript.endswith("<UUID_1>.jsonl")


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_event_is_none_of_ours(name: str) -> None:
    assert parse(fixture(name)) is None


@pytest.mark.parametrize(
    ("name", "given", "tool", "value"),
    [
        ("Edit", {"file_path": "/a/b"}, "edit", "/a/b"),
        ("MultiEdit", {"file_path": "/a/b", "edits": []}, "edit", "/a/b"),
        ("NotebookEdit", {"notebook_path": "/a/n.ipynb"}, "edit", "/a/n.ipynb"),
        ("Grep", {"pattern": "x", "path": "/a"}, "grep", '{"path":"/a","pattern":"x"}'),
        ("mcp__Git__Push", {"b": 1, "a": "ü"}, "mcp__Git__Push", '{"a":"ü","b":1}'),
        ("BASH", {"command": "ls"}, "bash", "ls"),
        ("apply_patch", {"patch": "*** x"}, "apply_patch", '{"patch":"*** x"}'),
    ],
)
def test_tools_have_canonical_names_and_a_value(name: str, given: dict[str, Any], tool: str, value: str) -> None:
    found = asked(permission(tool_name=name, tool_input=given))
    assert (tool, value) == (found.tool, found.value)


@pytest.mark.parametrize("path", ["/work/w/../../etc/passwd", "../../etc/passwd", "/work//w/./../../etc/passwd"])
def test_a_path_is_judged_where_it_leads_to(path: str) -> None:
    assert asked(permission(tool_name="Write", tool_input={"file_path": path})).value == "/etc/passwd"


def test_a_subagents_call_is_looked_for_in_its_own_transcript() -> None:
    path = "/c/projects/w/s-1/subagents/agent-a80a18e15ec541bfc.jsonl"
    assert asked(permission(agent_id="a80a18e15ec541bfc")).transcript == path
    assert asked(permission(agent_id="../../x")).transcript is None
    assert asked(permission()).transcript == "/c/projects/w/s-1.jsonl"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tool_name": ...}, "names no tool"),
        ({"tool_name": 7}, "names no tool"),
        ({"tool_name": "Ba sh"}, "names no tool"),
        ({"tool_name": "Bash\n"}, "names no tool"),
        ({"tool_input": ...}, "no object"),
        ({"tool_input": ["touch"]}, "no object"),
        ({"tool_input": "touch"}, "no object"),
        ({"tool_input": {}}, "command is missing"),
        ({"tool_input": {"command": ["touch", "MARK"]}}, "command is missing or no text"),
        ({"tool_input": {"command": " \n"}}, "command is missing or no text"),
        ({"tool_name": "Write", "tool_input": {"file_path": None}}, "file_path is missing or no text"),
        ({"cwd": ...}, "working directory"),
        ({"cwd": 7}, "working directory"),
        ({"cwd": "/w\x1b[2J"}, "control characters"),
        ({"tool_input": {"command": "ls\0rm"}}, "control characters"),
        ({"tool_input": {"command": "ls \x1b[8m; rm x"}}, "control characters"),
        ({"tool_input": {"command": "ls \x9b8m"}}, "control characters"),
        ({"tool_input": {"command": "ls \ud800"}}, "no valid text"),
        ({"tool_input": {"command": "ls", "description": "\udfff"}}, "no valid text"),
        ({"tool_input": {"command": "ls", "\ud800": 1}}, "no valid text"),
        ({"hook_event_name": ...}, "names no event"),
        ({"hook_event_name": None}, "names no event"),
        ({"hook_event_name": ["PermissionRequest"]}, "names no event"),
        ({"hook_event_name": "permissionRequest"}, "names no event"),
        ({"hook_event_name": "Permission Request"}, "names no event"),
        ({"hook_event_name": ""}, "names no event"),
    ],
)
def test_a_request_that_is_not_exactly_understood_is_unclear(changes: dict[str, Any], expected: str) -> None:
    assert expected in why(permission(**changes))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "no hook input"),
        (b" \n", "no hook input"),
        (permission()[:-1], "no JSON"),
        (permission() + b"x", "no JSON"),
        (permission() * 2, "no JSON"),
        (permission().decode().encode("utf-16"), "no JSON"),
        (b"\xef\xbb\xbf" + permission(), "no JSON"),
        (permission().replace(b"touch", b"tou\xffch"), "no JSON"),
        (permission().replace(b"touch", b"tou\x00ch"), "no JSON"),
        (permission().replace(b"touch", b"tou\nch"), "no JSON"),
        (permission(tool_input={"command": "ls", "n": float("nan")}), "no JSON"),
        (b"[" + permission() + b"]", "no JSON object"),
        (b'"PermissionRequest"', "no JSON object"),
        (b"null", "no JSON object"),
        (b"9" * 5000, "no JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"hook_event_name":' * 200_000, "nested too deeply"),
        (permission(tool_input={"command": "x" * 5 * 1024 * 1024}), f"longer than {MAX_INPUT} bytes"),
    ],
)
def test_what_is_no_event_is_unclear(data: bytes, expected: str) -> None:
    assert expected in why(data)


def test_line_breaks_and_tabs_belong_to_commands() -> None:
    command = "cat <<'E' | sh\r\n\techo ü 🦊\nE"
    assert asked(permission(tool_input={"command": command})).value == command


def test_a_command_too_long_to_be_judged_whole_is_refused_and_not_cut() -> None:
    assert "at most" in why(permission(tool_input={"command": "x" * MAX_VALUE}))
    assert len(asked(permission(tool_input={"command": "x" * 102_400})).value) == 102_400


@pytest.mark.parametrize("filling", ["x", "*", "\\", '"', "ü", "🦊", "\n"])
def test_the_longest_request_that_is_sent_keeps_the_bound_of_the_wire(filling: str) -> None:
    for length in range(MAX_VALUE, 0, -1024):
        found = parse(permission(tool_input={"command": filling * length + ".", "content": "c" * 2_000_000}))
        if isinstance(found, PermissionAsk):
            break
    assert isinstance(found, PermissionAsk)
    request = build_request(
        "perm-1",
        now=1,
        requester="r" * 200,
        target="t" * 200,
        agent_name="n" * 64,
        tool=found.tool,
        value=found.value,
        cwd="/" + "d" * 4095,
        ours={"input": found.shown},
    )
    assert len(encode_request(request)) <= MAX_BYTES


def test_a_long_input_is_cut_for_people_and_says_so() -> None:
    content = "line\n" * 200_000
    found = asked(permission(tool_name="Write", tool_input={"file_path": "/a", "content": content}))
    assert found.value == "/a"
    assert found.shown["file_path"] == "/a"
    assert found.shown["content"].endswith(f"… [cut: {len(content)} characters in all]")


def test_an_input_of_too_many_parts_is_left_out_and_says_so() -> None:
    many = {f"key{n}": "x" * 100 for n in range(5000)}
    assert "left out" in asked(permission(tool_name="Write", tool_input={"file_path": "/a", **many})).shown


@pytest.mark.parametrize("session", [None, 7, "", " ", "..", "unknown", "a\nb", "\ud800", "x" * 300])
def test_a_session_start_that_names_no_session_proves_nothing(session: object) -> None:
    assert parse(json.dumps({"hook_event_name": "SessionStart", "session_id": session}).encode()) is None


@pytest.mark.parametrize("source", [None, 7, "", "clear all", "x" * 100, "a\x1b"])
def test_a_source_that_is_no_word_is_unknown(source: object) -> None:
    body = {"hook_event_name": "SessionStart", "session_id": "s-1", "source": source, "transcript_path": 7}
    assert parse(json.dumps(body).encode()) == SessionStarted("s-1", "unknown", None)


# ---------------------------------------------------------------- opencode, by our plugin


def opencode(**changes: Any) -> bytes:
    ask = {"id": "per_1", "sessionID": "ses_1", "permission": "bash", "metadata": {"command": "touch MARK"}}
    body = {"hook_event_name": "PermissionAsked", "cwd": "/work/w", "ask": ask}
    return json.dumps({**body, **changes}).encode()


def test_an_ask_of_opencode_is_read_as_tool_and_value() -> None:
    wanted = asked(opencode())
    assert (wanted.tool, wanted.value, wanted.cwd, wanted.session) == ("bash", "touch MARK", "/work/w", "ses_1")


@pytest.mark.parametrize(
    "changes", [{"ask": None}, {"ask": []}, {"ask": {}}, {"cwd": 5}, {"ask": {"permission": "bash"}}]
)
def test_an_ask_of_opencode_that_is_not_exactly_understood_is_unclear(changes: dict[str, Any]) -> None:
    assert isinstance(parse(opencode(**changes)), Unclear)
