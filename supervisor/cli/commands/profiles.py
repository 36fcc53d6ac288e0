"""`supervisor profiles`: list, show, check, make and trust launch profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.common import complete_profiles, json_option, note, open_context, print_json, say

if TYPE_CHECKING:
    from supervisor.adapters.profile_files import Found
    from supervisor.runtime.compose import Context
    from supervisor.runtime.findings import Level

COLOURS = {"ok": "green", "info": "dim", "warn": "yellow", "fail": "bold red", "untrusted": "bold yellow"}

name_argument = click.argument("name", shell_complete=complete_profiles)


@click.group("profiles", epilog="Example: supervisor profiles show claude")
def command() -> None:
    """List, show, check, make and trust launch profiles: how one kind of agent is started, spoken to and stopped.

    A project's profile (.supervisor/launch_profiles/, from the working directory up to the git root) goes before a
    user's, a user's before a shipped one; a whole file wins. A project's is not used before you have trusted it.
    """


@command.command("list", epilog="Example: supervisor profiles list --json")
@json_option
def list_(as_json: bool) -> None:
    """List the profiles: name, origin, trust, path, and which files of that name each one hides."""
    from supervisor.cli.tables import print_table

    found = open_context(prepare=False).profiles.all()
    if as_json:
        print_json(found)
        return
    rows = [(f.name, f.origin, _trust_word(f), f.path, ", ".join(f.overrides) or "-") for f in found]
    print_table(("NAME", "ORIGIN", "TRUSTED", "PATH", "OVERRIDES"), rows, colours=COLOURS)


@command.command("show", epilog="Example: supervisor profiles show claude")
@name_argument
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one profile: where it comes from, what its CLI can do when started by it, and the file itself."""
    from supervisor.cli.profile_words import abilities
    from supervisor.core.errors import SupervisorError

    context = open_context(prepare=False)
    found = context.profiles.find(name)
    text = _text_of(found.path)
    profile, problem = None, ""
    try:
        profile = context.profiles.read(found)
    except SupervisorError as error:
        problem = str(error)
    if as_json:
        print_json({"found": found, "problem": problem or None, "profile": profile, "text": text})
        return
    lines = [("origin", found.origin), ("path", found.path)]
    lines += [("overrides", path) for path in found.overrides]
    if not found.trusted:
        lines.append(("trusted", f"no: read it, then run `supervisor profiles trust {found.name}`"))
    lines += abilities(profile) if profile else [("problem", problem)]
    for label, value in lines:
        say(f"{label:<11}{value}")
    say(f"\n{text.rstrip()}")


@command.command("check", epilog="Example: supervisor profiles check claude codex")
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=complete_profiles)
@json_option
def check(names: tuple[str, ...], as_json: bool) -> int:
    """Check profiles: is the file valid, are its programs on PATH, is their version one it was verified with.

    Another version is a warning. The exit code is 1 when a file is invalid, or a program is missing; without NAME a
    missing program of a shipped profile is only reported. What an untrusted profile names is not run.
    """
    from supervisor.cli.tables import print_table
    from supervisor.runtime.checkup import look_at_profiles
    from supervisor.runtime.findings import worst
    from supervisor.runtime.profile_checks import judge_profile

    context = open_context(prepare=False)
    found = [context.profiles.find(n) for n in dict.fromkeys(names)] if names else context.profiles.all()

    def missing(origin: str) -> Level:
        return "info" if origin == "shipped" and not names else "fail"

    facts = look_at_profiles(context, found)
    findings = [judge_profile(f, missing=missing(f.origin)) for f in facts]
    if as_json:
        print_json([{"facts": a, "finding": b} for a, b in zip(facts, findings, strict=True)])
    else:
        rows = [(f.level, f.what, f.detail, f"→ {f.todo}" if f.todo else "") for f in findings]
        print_table((), rows, colours=COLOURS)
    return 1 if worst(findings) == "fail" else 0


@command.command("init", epilog="Example: supervisor profiles init claude --user")
@click.argument("name")
@click.option("--user", "place", flag_value="user", default=True, help="For you, in all projects [default].")
@click.option("--project", "place", flag_value="project", help="In this project's .supervisor/launch_profiles.")
@click.option(
    "--from",
    "base",
    metavar="BASE",
    shell_complete=complete_profiles,
    help="The profile it extends [default: the one it hides, else shell].",
)
@json_option
def init(name: str, place: str, base: str | None, as_json: bool) -> None:
    """Write a new profile that extends another one, with that one's text as comments, and print its path."""
    from supervisor.adapters.profile_files import Found
    from supervisor.cli.new_profile import create, folder_for, template

    context = open_context(prepare=False)
    folder = folder_for(context, place)
    path = create(folder, name, template(context, name, base, place=place), private=place == "user")
    try:
        origin: Any = place
        context.profiles.read(Found(name=name, origin=origin, path=path, trusted=True))
    except BaseException:
        import os

        os.unlink(path)  # ours, made a moment ago: what cannot be read is not left behind
        raise
    if as_json:
        print_json({"name": name, "origin": place, "path": path})
    else:
        click.echo(path)
    if place == "project":
        note(f"a project's profile is used once it is trusted: supervisor profiles trust {name}")


@command.command("trust", epilog="Example: supervisor profiles trust reviewer")
@name_argument
@json_option
def trust(name: str, as_json: bool) -> None:
    """Trust a project's profile as it is now. A file that changes later is untrusted again."""
    context = open_context(records=False)
    found = context.profiles.trust(name)
    sha256 = _trusted_hash(context, found)
    if as_json:
        print_json({"name": found.name, "path": found.path, "sha256": sha256})
    else:
        say(f"trusted    {found.path}\nsha256     {sha256}")


@command.command("schema", epilog="Example: supervisor profiles schema > launch_profiles/schema.json")
def schema() -> None:
    """Print the JSON Schema of a profile file, for editors and checks."""
    from supervisor.cli.profile_words import profile_schema

    print_json(profile_schema())


def _trust_word(found: Found) -> str:
    if found.origin != "project":
        return "-"
    return "yes" if found.trusted else "untrusted"


def _text_of(path: str) -> str:
    from supervisor.adapters.atomic_file import read_bounded

    return (read_bounded(path) or b"").decode(errors="replace")


def _trusted_hash(context: Context, found: Found) -> str:
    """As recorded, not as computed here: it is what the file is compared with."""
    import os

    from supervisor.adapters.toml_files import read_toml

    return str(read_toml(context.places.trust)["sha256"][os.path.realpath(found.path)])
