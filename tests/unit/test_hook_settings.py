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

from supervisor.core.hook_settings import claude_settings, codex_hook_state_toml, codex_hook_toml
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
    assert codex_hook_toml(SHIM) == (
        'hooks.PermissionRequest=[{hooks=[{type="command",'
        'command="/opt/venv/bin/supervisor-hook codex --deadline 86000",timeout=86400}]}]'
    )
    assert codex_hook_state_toml("sha256:ab12") == (
        'hooks.state={"/<session-flags>/config.toml:permission_request:0:0"={trusted_hash="sha256:ab12"}}'
    )


@pytest.mark.parametrize("timeout_s", [2, 10, 600, 3600, 86_400, 10_000_000])
def test_the_hooks_own_deadline_stays_under_the_clis_timeout(timeout_s: int) -> None:
    (hook,) = claude_settings(SHIM, timeout_s)["hooks"]["PermissionRequest"][0]["hooks"]
    for args in (hook["args"], shlex.split(codex_command(codex_hook_toml(SHIM, timeout_s)))[1:]):
        options = parse(args)
        assert isinstance(options, Options)
        assert 0 < options.deadline < timeout_s


def codex_command(toml: str) -> str:
    loaded: dict[str, Any] = tomllib.loads(toml)
    (hook,) = loaded["hooks"]["PermissionRequest"][0]["hooks"]
    return str(hook["command"])


@given(st.lists(words, min_size=1, max_size=4))
def test_any_path_survives_the_quoting_for_toml_and_for_the_shell(shim: list[str]) -> None:
    assert shlex.split(codex_command(codex_hook_toml(shim)))[: len(shim)] == shim


@given(words)
def test_any_hash_survives_the_quoting(text: str) -> None:
    (state,) = tomllib.loads(codex_hook_state_toml(text))["hooks"]["state"].values()
    assert state == {"trusted_hash": text}


@pytest.mark.parametrize("shim", [[], [""], ["/a", ""], "/bin/x", ["/a\0b"]])
def test_what_is_no_command_is_refused(shim: Any) -> None:
    with pytest.raises(ValueError):
        claude_settings(shim)
    with pytest.raises(ValueError):
        codex_hook_toml(shim)


def test_undecodable_bytes_cannot_be_written_in_toml() -> None:
    with pytest.raises(ValueError):
        codex_hook_toml(["/opt/\udcff/hook"])
