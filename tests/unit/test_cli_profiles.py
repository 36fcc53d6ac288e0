"""`supervisor profiles`: what is listed and shown, checks of file and binary, new files, trust, and the schema."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from supervisor.adapters.profile_files import shipped
from supervisor.cli.main import run
from supervisor.cli.profile_words import profile_schema

SHIPPED = {"acp", "claude", "claude-stdio", "codex", "codex-exec", "demo", "gemini", "opencode", "pi", "shell"}
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository as working directory, and a PATH that holds nothing but `bin`."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").touch()
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return root


@pytest.fixture
def binaries(project: Path, tmp_path: Path) -> Path:
    return tmp_path / "bin"


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def write_project(project: Path, name: str, text: str) -> Path:
    return write(project / ".supervisor" / "launch_profiles", name, text)


def write_user(tmp_path: Path, name: str, text: str) -> Path:
    return write(tmp_path / "config" / "supervisor-agents" / "launch_profiles", name, text)


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def rows_of(out: str) -> dict[str, list[str]]:
    return {line.split("\t")[0]: line.split("\t")[1:] for line in out.splitlines()}


def checks_of(out: str) -> dict[str, list[str]]:
    """`profile NAME` → level, detail, todo."""
    lines = [line.split("\t") for line in out.splitlines()]
    return {what: [level, *rest] for level, what, *rest in lines}


def plain(command: str = "prog", *, more: str = "") -> str:
    return f'summary = "mine"\n{more}[argv]\nbase = ["{command}"]\n'


# list


def test_the_list_says_origin_path_and_what_is_hidden(project: Path, tmp_path: Path, capsys: Captured) -> None:
    path = write_user(tmp_path, "claude", plain())
    assert run(["profiles", "list"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert set(rows) == {"NAME", *SHIPPED}
    assert rows["claude"] == ["user", "-", str(path), f"{shipped()}/claude.toml"]
    assert rows["codex"] == ["shipped", "-", f"{shipped()}/codex.toml", "-"]


def test_the_list_marks_what_is_untrusted(project: Path, capsys: Captured) -> None:
    write_project(project, "mine", plain())
    run(["profiles", "list"])
    assert rows_of(capsys.readouterr().out)["mine"][:2] == ["project", "untrusted"]
    run(["profiles", "trust", "mine"])
    capsys.readouterr()
    run(["profiles", "list"])
    assert rows_of(capsys.readouterr().out)["mine"][:2] == ["project", "yes"]


def test_the_list_as_json(project: Path, capsys: Captured) -> None:
    path = write_project(project, "mine", plain())
    assert run(["profiles", "list", "--json"]) == 0
    shown = {p["name"]: p for p in json.loads(capsys.readouterr().out)}
    assert shown["mine"] == {
        "name": "mine",
        "origin": "project",
        "path": str(path),
        "trusted": False,
        "overrides": [],
    }


# show


def test_show_prints_where_it_is_what_it_hides_and_the_file(project: Path, tmp_path: Path, capsys: Captured) -> None:
    path = write_user(tmp_path, "claude", plain() + "# a remark\n")
    assert run(["profiles", "show", "claude"]) == 0
    out = capsys.readouterr().out
    assert "origin     user\n" in out
    assert f"path       {path}\n" in out
    assert f"overrides  {shipped()}/claude.toml\n" in out
    assert path.read_text().rstrip() in out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("claude", "paths      allowed paths are handed to the CLI, which does not enforce them"),
        ("claude", "prompt     headless on standard input, interactive as an argument"),
        ("claude", "session    its id is chosen at launch; it can be resumed"),
        ("codex", "session    its id is told by the CLI; it can be resumed"),
        ("codex", "asks       headless forwarded to its parent by a driver, which can be interrupted"),
        ("codex-exec", "session    its id is read from the output; it can be resumed"),
        ("codex", "verified   with version 0.171.0"),
        ("opencode", "paths      allowed paths are recorded only"),
        ("shell", "prompt     headless not at all, interactive not at all; words after -- are arguments"),
        ("shell", "session    it has no id; it cannot be resumed"),
        ("shell", "model      cannot be chosen"),
    ],
)
def test_show_says_what_the_cli_can_and_cannot(project: Path, capsys: Captured, name: str, said: str) -> None:
    assert run(["profiles", "show", name]) == 0
    assert said in capsys.readouterr().out


def test_show_says_where_asks_go_and_what_to_know(project: Path, tmp_path: Path, capsys: Captured) -> None:
    write_user(tmp_path, "mine", plain(more='notes = ["slow to start"]\n') + '[asks]\nmode = "hold"\n')
    run(["profiles", "show", "mine"])
    out = capsys.readouterr().out
    assert "asks       headless not forwarded: it decides by itself; on a terminal asked of the person there\n" in out
    assert "serving    mode hold, 0 rules of its own" in out
    assert "note       slow to start\n" in out


def test_every_ask_adapter_has_its_words() -> None:
    from typing import get_args, get_type_hints

    from supervisor.cli.profile_words import _ASKS
    from supervisor.core.profile import Asks

    assert set(_ASKS) == set(get_args(get_type_hints(Asks)["adapter"]))


def test_enforced_paths_are_called_so(project: Path, tmp_path: Path, capsys: Captured) -> None:
    write_user(
        tmp_path, "mine", 'summary = "x"\nenforces_paths = true\n[argv]\nbase = ["p"]\npath = ["--dir", "{path}"]\n'
    )
    run(["profiles", "show", "mine"])
    assert "handed to the CLI, which enforces them" in capsys.readouterr().out


def test_an_untrusted_profile_can_be_read_before_it_is_trusted(project: Path, capsys: Captured) -> None:
    write_project(project, "mine", plain())
    assert run(["profiles", "show", "mine"]) == 0
    out = capsys.readouterr().out
    assert "supervisor profiles trust mine" in out
    assert 'base = ["prog"]' in out


def test_a_broken_profile_is_shown_with_its_problem(project: Path, tmp_path: Path, capsys: Captured) -> None:
    write_user(tmp_path, "mine", 'summary = "x"\ncolour = "red"\n')
    assert run(["profiles", "show", "mine"]) == 0
    out = capsys.readouterr().out
    assert "unknown field `colour`" in out
    assert 'colour = "red"' in out


def test_a_profiles_text_cannot_drive_the_terminal(project: Path, capsys: Captured) -> None:
    write_project(project, "mine", plain() + "# \x1b]0;evil\x07\n")
    run(["profiles", "show", "mine"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b]0;evil\\x07" in out


def test_an_unknown_profile_is_not_found(project: Path, capsys: Captured) -> None:
    assert run(["profiles", "show", "nope"]) == 3
    assert "there is no profile 'nope'. There are: acp, claude" in capsys.readouterr().err


def test_show_as_json(project: Path, capsys: Captured) -> None:
    assert run(["profiles", "show", "codex", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["found"]["origin"] == "shipped"
    assert (shown["profile"]["driver"]["kind"], shown["profile"]["driver"]["command"]) == (
        "codex",
        ["codex", "app-server"],
    )
    assert shown["text"].startswith("# Codex")


# check


def test_a_shipped_profile_that_is_not_installed_is_only_reported(project: Path, capsys: Captured) -> None:
    assert run(["profiles", "check"]) == 0
    level, detail, _ = checks_of(capsys.readouterr().out)["profile claude"]
    assert (level, detail) == ("info", "not installed: claude is not on PATH")


def test_a_named_profile_that_is_not_installed_fails(project: Path, capsys: Captured) -> None:
    assert run(["profiles", "check", "claude"]) == 1
    level, _, todo = checks_of(capsys.readouterr().out)["profile claude"]
    assert level == "fail"
    assert "PATH" in todo


def test_a_users_profile_that_is_not_installed_fails_also_unnamed(
    project: Path, tmp_path: Path, capsys: Captured
) -> None:
    write_user(tmp_path, "mine", plain())
    assert run(["profiles", "check"]) == 1
    assert checks_of(capsys.readouterr().out)["profile mine"][0] == "fail"


def test_needs_are_looked_up_too(project: Path, tmp_path: Path, binaries: Path, capsys: Captured) -> None:
    program(binaries, "prog", "exit 0")
    write_user(tmp_path, "mine", plain(more='needs = ["git-lfs"]\n'))
    assert run(["profiles", "check", "mine"]) == 1
    assert "git-lfs is not on PATH" in capsys.readouterr().out


def test_a_cli_that_only_a_driver_starts_is_looked_up_too(project: Path, capsys: Captured) -> None:
    assert run(["profiles", "check"]) == 0
    level, detail, _ = checks_of(capsys.readouterr().out)["profile claude-stdio"]
    assert (level, detail) == ("info", "not installed: claude is not on PATH")


def test_the_verified_version_is_fine(project: Path, binaries: Path, capsys: Captured) -> None:
    path = program(binaries, "claude", 'echo "2.1.332 (Claude Code)"')
    assert run(["profiles", "check", "claude"]) == 0
    level, detail, _ = checks_of(capsys.readouterr().out)["profile claude"]
    assert (level, detail) == ("ok", f"version 2.1.332 ({path})")


def test_another_version_is_a_warning_not_a_failure(project: Path, binaries: Path, capsys: Captured) -> None:
    program(binaries, "claude", 'echo "9.9.1 (Claude Code)"')
    assert run(["profiles", "check", "claude"]) == 0
    level, detail, _ = checks_of(capsys.readouterr().out)["profile claude"]
    assert (level, detail) == ("warn", "version 9.9.1, verified with 2.1.332")


@pytest.mark.parametrize("script", ["echo something went wrong >&2; exit 3", "exit 0", "echo no number here"])
def test_a_probe_without_an_answer_is_a_warning(project: Path, binaries: Path, capsys: Captured, script: str) -> None:
    program(binaries, "claude", script)
    assert run(["profiles", "check", "claude"]) == 0
    assert checks_of(capsys.readouterr().out)["profile claude"][0] == "warn"


def test_a_probe_that_hangs_is_given_up(
    project: Path, binaries: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.runtime.versions.PROBE_S", 0.2)
    program(binaries, "claude", "exec /bin/sleep 60")
    assert run(["profiles", "check", "claude"]) == 0
    level, detail, _ = checks_of(capsys.readouterr().out)["profile claude"]
    assert level == "warn"
    assert "did not end within 0.2 s" in detail


def test_a_probe_gets_no_keys_and_no_identity(
    project: Path, tmp_path: Path, binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("SUPERVISOR_SESSION_ID", "me")
    program(binaries, "claude", f"/usr/bin/env > {tmp_path}/seen; echo 2.1.332")
    run(["profiles", "check", "claude"])
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines() if "=" in line)
    assert seen["PATH"] == str(binaries)
    assert not [n for n in seen if "KEY" in n or n.startswith("SUPERVISOR_")]


def test_what_an_untrusted_profile_names_is_not_run(
    project: Path, tmp_path: Path, binaries: Path, capsys: Captured
) -> None:
    program(binaries, "prog", f"/bin/touch {tmp_path}/was-run; echo 1.0.0")
    write_project(project, "mine", plain(more='probe = ["prog"]\n'))
    assert run(["profiles", "check", "mine"]) == 0
    level, detail, todo = checks_of(capsys.readouterr().out)["profile mine"]
    assert (level, todo) == ("info", "→ Read it, then: supervisor profiles trust mine")
    assert not (tmp_path / "was-run").exists()


def test_an_invalid_file_fails_and_is_named_with_its_key(project: Path, tmp_path: Path, capsys: Captured) -> None:
    path = write_user(tmp_path, "mine", 'summary = "x"\ncolour = "red"\n')
    assert run(["profiles", "check"]) == 1
    level, detail, _ = checks_of(capsys.readouterr().out)["profile mine"]
    assert level == "fail"
    assert str(path) in detail
    assert "`colour`" in detail


def test_checks_as_json(project: Path, capsys: Captured) -> None:
    assert run(["profiles", "check", "claude", "--json"]) == 1
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["finding"]["level"] == "fail"
    assert shown["facts"]["programs"] == [["claude", None]]


def test_checking_an_unknown_name_is_not_found(project: Path) -> None:
    assert run(["profiles", "check", "nope"]) == 3


# init


def test_init_writes_a_users_profile_that_works_at_once(project: Path, tmp_path: Path, capsys: Captured) -> None:
    assert run(["profiles", "init", "reviewer", "--from", "claude"]) == 0
    path = tmp_path / "config" / "supervisor-agents" / "launch_profiles" / "reviewer.toml"
    assert capsys.readouterr().out == f"{path}\n"
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, path.parent.parent)] == [0o600, 0o700, 0o700]
    assert 'extends = "claude"\n' in path.read_text()
    run(["profiles", "show", "reviewer", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["profile"]["name"] == "reviewer"
    assert shown["profile"]["argv"]["base"] == ["claude"]


def test_init_brings_the_base_along_as_comments(project: Path, tmp_path: Path) -> None:
    run(["profiles", "init", "reviewer", "--from", "claude"])
    path = tmp_path / "config" / "supervisor-agents" / "launch_profiles" / "reviewer.toml"
    lines = path.read_text().splitlines()
    assert "# grace_seconds = 5" in lines
    assert [line for line in lines if line and not line.startswith("#")] == ['extends = "claude"']


@pytest.mark.parametrize("base", sorted(SHIPPED))
def test_a_new_profile_uncommented_is_valid(project: Path, tmp_path: Path, capsys: Captured, base: str) -> None:
    run(["profiles", "init", "mine", "--from", base])
    path = tmp_path / "config" / "supervisor-agents" / "launch_profiles" / "mine.toml"
    head, _, body = path.read_text().partition(f"This is `{base}`:\n")
    path.write_text(
        head
        + "\n"
        + "\n".join(
            line.removeprefix("# ")
            for line in body.splitlines()
            if "=" in line or "[" in line or "]" in line or '"' in line
        )
    )
    capsys.readouterr()
    run(["profiles", "show", "mine", "--json"])
    assert json.loads(capsys.readouterr().out)["problem"] is None


def test_init_of_a_shipped_name_extends_that_one(project: Path, tmp_path: Path) -> None:
    assert run(["profiles", "init", "codex"]) == 0
    path = tmp_path / "config" / "supervisor-agents" / "launch_profiles" / "codex.toml"
    assert 'extends = "codex"\n' in path.read_text()


def test_init_never_overwrites(project: Path, tmp_path: Path, capsys: Captured) -> None:
    path = write_user(tmp_path, "mine", plain())
    assert run(["profiles", "init", "mine"]) == 1
    assert f"{path} is there already" in capsys.readouterr().err
    assert path.read_text() == plain()


def test_init_does_not_write_through_a_symlink(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "config" / "supervisor-agents" / "launch_profiles"
    folder.mkdir(parents=True)
    (folder / "mine.toml").symlink_to(tmp_path / "target")
    assert run(["profiles", "init", "mine"]) == 1
    assert not (tmp_path / "target").exists()


def test_init_for_the_project_goes_to_the_git_root_and_asks_for_trust(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert run(["profiles", "init", "mine", "--project", "--from", "claude"]) == 0
    path = project / ".supervisor" / "launch_profiles" / "mine.toml"
    said = capsys.readouterr()
    assert said.out == f"{path}\n"
    assert "supervisor profiles trust mine" in said.err
    run(["profiles", "list"])
    assert rows_of(capsys.readouterr().out)["mine"][:2] == ["project", "untrusted"]


def test_init_for_the_project_uses_the_folder_that_is_found_from_here(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    near = write(project / "src" / ".supervisor" / "launch_profiles", "other", plain()).parent
    monkeypatch.chdir(project / "src")
    assert run(["profiles", "init", "mine", "--project"]) == 0
    assert capsys.readouterr().out == f"{near}/mine.toml\n"


@pytest.mark.parametrize("name", ["", "../evil", "A", "a b", "-x/y", "a" * 65, ".hidden"])
def test_init_refuses_a_bad_name_and_writes_nothing(project: Path, tmp_path: Path, name: str) -> None:
    assert run(["profiles", "init", "--", name]) == 1
    assert not list((tmp_path / "config").rglob("*.toml"))


def test_init_from_an_unknown_base_writes_nothing(project: Path, tmp_path: Path, capsys: Captured) -> None:
    assert run(["profiles", "init", "mine", "--from", "nope"]) == 3
    assert "there is no profile 'nope' that mine could extend" in capsys.readouterr().err
    assert not list((tmp_path / "config").rglob("*.toml"))


def test_a_new_file_that_could_not_be_used_is_not_left_behind(project: Path, tmp_path: Path, capsys: Captured) -> None:
    """The user's `one` extends another profile itself: the project's cannot extend it."""
    write_user(tmp_path, "one", 'extends = "claude"\n')
    assert run(["profiles", "init", "two", "--project", "--from", "one"]) == 1
    assert "one level" in capsys.readouterr().err
    assert not list(project.rglob("*.toml"))


# trust


def test_trust_says_which_file_and_hash_it_trusts(project: Path, capsys: Captured) -> None:
    path = write_project(project, "mine", plain())
    assert run(["profiles", "trust", "mine"]) == 0
    out = capsys.readouterr().out
    assert f"trusted    {path}\n" in out
    assert f"sha256     {hashlib.sha256(path.read_bytes()).hexdigest()}\n" in out


def test_a_shipped_profile_needs_no_trust(project: Path, capsys: Captured) -> None:
    assert run(["profiles", "trust", "claude"]) == 1
    assert "needs no trust" in capsys.readouterr().err


# schema


def test_the_committed_schema_is_current(capsys: Captured) -> None:
    """After a change of the types: make schema."""
    assert run(["profiles", "schema"]) == 0
    assert (Path(shipped()) / "schema.json").read_text() == capsys.readouterr().out


def toml(path: Path) -> Any:
    import tomllib

    return tomllib.loads(path.read_text())


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_schema_takes_every_shipped_profile(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(profile_schema())
    jsonschema.validate(toml(Path(shipped()) / f"{name}.toml"), profile_schema())


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"summary": "x", "colour": "red"},
        {"summary": "x", "argv": {"base": [""]}},
        {"summary": "x", "stop": {"signal": "SEGV"}},
        {"summary": "x", "schema": 2},
        {"extends": 3},
    ],
)
def test_the_schema_refuses_what_we_refuse(value: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, profile_schema())


@pytest.mark.parametrize("value", [{"extends": "claude"}, {"summary": "x"}])
def test_the_schema_takes_small_files(value: dict[str, Any]) -> None:
    jsonschema.validate(value, profile_schema())


@pytest.mark.parametrize("verb", ["list", "show", "check", "init", "trust", "schema"])
def test_help_holds_an_example(verb: str, capsys: Captured) -> None:
    assert run(["profiles", verb, "--help"]) == 0
    assert f"Example: supervisor profiles {verb}" in " ".join(capsys.readouterr().out.split())
