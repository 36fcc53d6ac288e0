"""What makes the CLIs call the hook: the verified forms, safely quoted."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.hook_settings import CODEX_KEYS, claude_settings, codex_hashes, codex_hooks, codex_trust
from supervisor.hook.arguments import Options, parse

DATA = Path(__file__).parent.parent / "data" / "hook"
SHIM = ("/opt/venv/bin/supervisor-hook",)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


def test_claudes_settings_have_the_verified_form() -> None:
    expected = json.loads((DATA / "claude-settings.json").read_text())
    (hook,) = expected["hooks"]["PermissionRequest"][0]["hooks"]
    hook.update(command=SHIM[0], args=["claude"])
    start = {"type": "command", "command": SHIM[0], "args": ["claude"]}
    expected["hooks"]["SessionStart"] = [{"hooks": [start]}]
    assert claude_settings(SHIM) == expected


def test_a_shim_of_several_words_is_split_into_command_and_args() -> None:
    found = claude_settings(["/usr/bin/python3", "-P", "-m", "supervisor.hook"])
    (hook,) = found["hooks"]["PermissionRequest"][0]["hooks"]
    assert (hook["command"], hook["args"]) == ("/usr/bin/python3", ["-P", "-m", "supervisor.hook", "claude"])


def test_codex_gets_the_verified_toml() -> None:
    assert codex_hooks(SHIM) == {
        "hook_ask": 'hooks.PermissionRequest=[{hooks=[{type="command",'
        'command="/opt/venv/bin/supervisor-hook codex --deadline 86000",timeout=86400}]}]',
        "hook_start": 'hooks.SessionStart=[{hooks=[{type="command",'
        'command="/opt/venv/bin/supervisor-hook codex",timeout=60}]}]',
    }
    assert codex_trust({CODEX_KEYS[0]: "sha256:ab12", CODEX_KEYS[1]: "sha256:cd"}) == (
        'hooks.state={"/<session-flags>/config.toml:permission_request:0:0"={trusted_hash="sha256:ab12"},'
        '"/<session-flags>/config.toml:session_start:0:0"={trusted_hash="sha256:cd"}}'
    )


def test_the_hashes_are_those_that_codex_lists_for_hooks_of_the_command_line() -> None:
    listed = json.loads((DATA / "codex-hooks-list.result.json").read_text())
    hashes = codex_hashes(listed)
    assert hashes is not None
    assert tuple(hashes) == CODEX_KEYS
    assert all(value.startswith("sha256:") for value in hashes.values())


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, {"data": None}, {"data": [{"hooks": []}]}, {"data": [{"hooks": [{"key": CODEX_KEYS[0]}]}]},
     {"data": [{"hooks": [{"key": k, "currentHash": 7} for k in CODEX_KEYS]}]},
     {"data": [{"hooks": [{"key": CODEX_KEYS[0], "currentHash": "sha256:1"}]}]}],
)  # fmt: skip
def test_an_answer_without_both_hashes_is_none(answer: Any) -> None:
    assert codex_hashes(answer) is None


@pytest.mark.parametrize("timeout_s", [2, 10, 600, 3600, 86_400, 10_000_000])
def test_the_hooks_own_deadline_stays_under_the_clis_timeout(timeout_s: int) -> None:
    (hook,) = claude_settings(SHIM, timeout_s)["hooks"]["PermissionRequest"][0]["hooks"]
    for args in (hook["args"], shlex.split(codex_command(codex_hooks(SHIM, timeout_s)["hook_ask"]))[1:]):
        options = parse(args)
        assert isinstance(options, Options)
        assert 0 < options.deadline < timeout_s


def codex_command(toml: str) -> str:
    loaded: dict[str, Any] = tomllib.loads(toml)
    (hook,) = loaded["hooks"]["PermissionRequest"][0]["hooks"]
    return str(hook["command"])


@given(st.lists(words, min_size=1, max_size=4))
def test_any_path_survives_the_quoting_for_toml_and_for_the_shell(shim: list[str]) -> None:
    assert shlex.split(codex_command(codex_hooks(shim)["hook_ask"]))[: len(shim)] == shim


@given(words)
def test_any_hash_survives_the_quoting(text: str) -> None:
    loaded = tomllib.loads(codex_trust({"a:b.c": text}))
    assert loaded["hooks"]["state"] == {"a:b.c": {"trusted_hash": text}}


@pytest.mark.parametrize("shim", [[], [""], ["/a", ""], "/bin/x", ["/a\0b"]])
def test_what_is_no_command_is_refused(shim: Any) -> None:
    with pytest.raises(ValueError):
        claude_settings(shim)
    with pytest.raises(ValueError):
        codex_hooks(shim)["hook_ask"]


def test_undecodable_bytes_cannot_be_written_in_toml() -> None:
    with pytest.raises(ValueError):
        codex_hooks(["/opt/\udcff/hook"])
