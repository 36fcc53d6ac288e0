"""How a CLI is made to call our hook for one launch; the codex here is a script that answers like it."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisor.adapters.binary_notes import BinaryNotes
from supervisor.core.hook_settings import CODEX_KEYS, codex_hooks
from supervisor.core.launch_plan import Mode
from supervisor.runtime.compose import Context
from supervisor.runtime.hook_install import hook_fields, hook_left_out

ANSWERS = """\
#!{python}
import json, os, sys
with open({calls!r}, "a") as file:
    file.write(json.dumps([sys.argv[1:], os.environ["CODEX_HOME"]]) + "\\n")
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("id") == 2:
        print("no JSON", flush=True)
        print(json.dumps({{"id": 2, "result": {result}}}), flush=True)
"""
LISTED = {"data": [{"hooks": [{"key": key, "currentHash": f"sha256:{n}"} for n, key in enumerate(CODEX_KEYS)]}]}


class World:
    """A state root, and a codex."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.context = Context({"SUPERVISOR_HOME": str(home), "PATH": "/usr/bin:/bin"}, cwd=str(home))
        self.context.prepare()
        self.codex = home / "codex"
        self.calls = home / "calls"
        self.write(LISTED)

    def write(self, result: Any) -> None:
        text = ANSWERS.format(python=sys.executable, calls=str(self.calls), result=repr(result))
        self.codex.write_text(text)
        self.codex.chmod(0o755)

    def fields(self, profile: str, mode: Mode = "interactive") -> Mapping[str, str]:
        return hook_fields(self.context, self.context.profiles.load(profile), mode, str(self.codex))

    def asked(self) -> list[tuple[list[str], str]]:
        return [tuple(json.loads(line)) for line in self.calls.read_text().splitlines()] if self.calls.exists() else []


@pytest.fixture
def world(home: Path) -> World:
    return World(home)


def test_codex_gets_both_hooks_and_the_trust_in_them(world: World) -> None:
    fields = world.fields("codex")
    shim = (world.context.python, "-P", "-m", "supervisor.hook")
    assert {name: fields[name] for name in ("hook_ask", "hook_start")} == codex_hooks(shim)
    state = tomllib.loads(fields["hook_trust"])["hooks"]["state"]
    assert state == {key: {"trusted_hash": f"sha256:{n}"} for n, key in enumerate(CODEX_KEYS)}


def test_codex_is_asked_about_these_very_hooks_in_a_home_that_is_gone_afterwards(world: World) -> None:
    fields = world.fields("codex")
    ((argv, codex_home),) = world.asked()
    assert argv == ["app-server", "-c", fields["hook_ask"], "-c", fields["hook_start"]]
    assert codex_home.startswith(str(world.home))
    assert not Path(codex_home).exists()


def test_codex_is_asked_once_until_it_changes(world: World) -> None:
    first, again = world.fields("codex"), world.fields("codex")
    assert (first, len(world.asked())) == (again, 1)
    world.codex.write_text(world.codex.read_text() + "# newer\n")
    world.fields("codex")
    assert len(world.asked()) == 2


@pytest.mark.parametrize("result", [{}, {"data": []}, {"data": [{"hooks": LISTED["data"][0]["hooks"][:1]}]}])
def test_without_both_hashes_codex_gets_no_hook_at_all(world: World, result: Any) -> None:
    world.write(result)
    assert world.fields("codex") == {}
    world.write(LISTED)
    assert "hook_trust" in world.fields("codex"), "what failed is not remembered"


def test_a_codex_that_cannot_be_run_gets_no_hook(world: World) -> None:
    world.codex.chmod(0o644)
    assert world.fields("codex") == {}


def test_headless_codex_needs_no_hook(world: World) -> None:
    assert (world.fields("codex", "headless"), world.asked()) == ({}, [])


@pytest.mark.parametrize("mode", ["headless", "interactive"])
def test_claude_gets_a_settings_file_of_ours(world: World, mode: Mode) -> None:
    path = Path(world.fields("claude", mode)["hook_settings"])
    assert path.is_relative_to(world.home)
    assert set(json.loads(path.read_text())["hooks"]) == {"PermissionRequest", "SessionStart"}


def test_opencode_on_a_terminal_gets_a_plugin_of_ours_that_calls_the_hook(world: World) -> None:
    config = json.loads(world.fields("opencode")["config"])
    (url,) = config["plugin"]
    path = Path(url.removeprefix("file://"))
    assert path.is_relative_to(world.home)
    assert json.dumps([world.context.python, "-P", "-m", "supervisor.hook"]) in path.read_text()
    assert config["permission"]["bash"] == "ask"
    assert world.fields("opencode", "headless") == {}


def test_a_hook_that_is_left_out_is_known(world: World) -> None:
    codex, claude = (world.context.profiles.load(name) for name in ("codex", "claude"))
    trust = world.fields("codex")["hook_trust"]
    assert hook_left_out(codex, "interactive", ("codex", "--model", "x"))
    assert not hook_left_out(codex, "interactive", ("codex", "-c", trust))
    assert not hook_left_out(codex, "headless", ("codex",))
    assert not hook_left_out(claude, "interactive", ("claude",))


# -- notes about programs


def test_a_note_is_kept_until_the_program_changes(tmp_path: Path) -> None:
    program, notes = tmp_path / "p", BinaryNotes(str(tmp_path / "notes.json"))
    program.write_text("1")
    notes.put(str(program), "version", "1.0")
    notes.put(str(program), "other", {"a": "b"})
    before = (notes.get(str(program), "version"), notes.get(str(program), "other"), notes.get(str(program), "third"))
    program.write_text("22")
    assert before == ("1.0", {"a": "b"}, None)
    assert notes.get(str(program), "version") is None


def test_a_note_is_found_by_any_name_of_the_program(tmp_path: Path) -> None:
    program, notes = tmp_path / "p", BinaryNotes(str(tmp_path / "notes.json"))
    program.write_text("1")
    (tmp_path / "link").symlink_to(program)
    notes.put(str(tmp_path / "link"), "version", "1.0")
    assert notes.get(str(program), "version") == "1.0"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"p": 7}', "[" * 5000])
def test_broken_notes_are_no_notes(tmp_path: Path, text: str) -> None:
    program, path = tmp_path / "p", tmp_path / "notes.json"
    program.write_text("1")
    path.write_text(text)
    notes = BinaryNotes(str(path))
    assert notes.get(str(program), "version") is None
    notes.put(str(program), "version", "1.0")
    assert notes.get(str(program), "version") == "1.0"


def test_notes_do_not_grow_for_ever(tmp_path: Path) -> None:
    notes = BinaryNotes(str(tmp_path / "notes.json"))
    for number in range(70):
        (tmp_path / f"p{number}").write_text("")
        notes.put(str(tmp_path / f"p{number}"), "version", "1")
    assert len(json.loads((tmp_path / "notes.json").read_text())) == 64
    assert notes.get(str(tmp_path / "p69"), "version") == "1"
