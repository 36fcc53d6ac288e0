"""The documentation says what the program does: commands, keys, records, codes, links. A forgotten line fails here."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from supervisor.adapters.profile_files import shipped
from supervisor.cli.main import COMMANDS, cli
from supervisor.core import ask_reasons, ask_wire, errors, fences, profile, timing
from supervisor.core.entry import Entry
from supervisor.core.events import Event, What
from supervisor.core.launch_plan import LaunchPlan
from supervisor.core.liveness import Beat, Verdict
from supervisor.core.serving import Judgement, ServingBeat, encode_beat
from supervisor.core.settings import SETTINGS, Setting
from supervisor.core.transitions import MOVES
from supervisor.core.tree_file import AgentSpec, TreeFile
from supervisor.demo import script
from supervisor.mcp_server.server import TOOLS
from supervisor.mcp_server.tools import Tools
from supervisor.runtime.views import Row
from tests import compatibility

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "launch_profiles" / "README.md"])
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def page(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose(text: str) -> str:
    """The page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", prose(text), re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {heading!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row but headers and rules."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    table = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    rules = {number for number, cells in enumerate(table) if all(re.fullmatch(r"\s*:?-+:?\s*", c) for c in cells)}
    return [
        [cell.strip() for cell in cells]
        for number, cells in enumerate(table)
        if number not in rules and number + 1 not in rules
    ]


def words(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def first_words(text: str) -> list[str]:
    """What the rows of the tables are about."""
    return [word for row in rows(text) for word in words(row[0])]


def structs_of(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs within a type, through unions and containers."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for inner in typing.get_args(kind):
        yield from structs_of(inner)


def keys(struct: type[msgspec.Struct]) -> list[str]:
    """The names of a struct's fields as they are encoded."""
    return list(struct.__struct_encode_fields__)


def all_keys(struct: type[msgspec.Struct], seen: set[type] | None = None) -> set[str]:
    """The encoded names of all fields of a struct and of those within it."""
    seen = set() if seen is None else seen
    if struct in seen:
        return set()
    seen.add(struct)
    found = set(keys(struct))
    for field in msgspec.structs.fields(struct):
        for inner in structs_of(field.type):
            found |= all_keys(inner, seen)
    return found


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and sub-command that people can see, by the words that call it."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", found) for inner, found in command.commands.items() if not found.hidden)


def options(command: click.Command) -> set[str]:
    return {
        opt
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden
        for opt in (*param.opts, *param.secondary_opts)
    }


def documented_options(text: str) -> set[str]:
    return {opt for word in first_words(text) for opt in re.findall(r"(?<!\S)--?[A-Za-z][\w-]*", word)}


# -- commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_exactly_its_options(name: str) -> None:
    text = page(REFERENCE / "commands.md")
    for called, command in commands():
        if called.split()[0] == name:
            documented = documented_options(section(text, called))
            assert documented == options(command), f"supervisor {called}"


def test_no_command_is_documented_that_does_not_exist() -> None:
    documented = re.findall(r"^##+ (.+)$", prose(page(REFERENCE / "commands.md")), re.MULTILINE)
    assert documented == [name for name, _ in commands()]


def test_every_choice_of_an_option_is_documented() -> None:
    text = page(REFERENCE / "commands.md")
    for called, command in commands():
        for param in command.params:
            if isinstance(param.type, click.Choice):
                for choice in param.type.choices:
                    assert str(choice) in section(text, called), f"supervisor {called}: {param.name} {choice}"


def test_every_command_has_an_example_in_its_help() -> None:
    for called, command in commands():
        assert "Example" in (command.epilog or ""), f"supervisor {called}"


def test_the_changelog_names_every_command() -> None:
    text = page(ROOT / "CHANGELOG.md")
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", text, re.IGNORECASE), name


# -- profiles and tree files


def profile_keys() -> dict[str, Any]:
    """`argv.base` → its type, for every key of a profile."""
    found: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(profile.LaunchProfile, include_extras=True).items():
        inner = list(structs_of(kind))
        if inner:
            for key, of in typing.get_type_hints(inner[0], include_extras=True).items():
                found[f"{name}.{key}"] = of
        else:
            found[name] = kind
    return found


def literals(kind: Any) -> set[str]:
    """The values of the literal types within a type."""
    if typing.get_origin(kind) is typing.Literal:
        return {str(value) for value in typing.get_args(kind)}
    return {value for inner in typing.get_args(kind) for value in literals(inner)}


def test_exactly_the_keys_of_a_profile_are_documented() -> None:
    documented = [row[0].strip("*` ") for row in rows(section(page(REFERENCE / "profiles.md"), "Keys"))]
    assert sorted(documented) == sorted([*profile_keys(), "extends"])


def test_every_value_of_a_profile_key_is_documented() -> None:
    about = {row[0].strip("*` "): row for row in rows(section(page(REFERENCE / "profiles.md"), "Keys"))}
    for key, kind in profile_keys().items():
        for value in literals(kind):
            assert value in about[key][1].replace("`", " ").replace(",", " ").split(), key


def test_the_defaults_of_profile_keys_are_documented() -> None:
    about = {row[0].strip("*` "): row[2].strip("`") for row in rows(section(page(REFERENCE / "profiles.md"), "Keys"))}
    documented = {key: text for key, text in about.items() if "." in key}
    assert documented == profile_defaults()


def profile_defaults() -> dict[str, str]:
    """The defaults of the keys within a profile's tables, as JSON; nothing where there is none."""
    found = {}
    for table in msgspec.structs.fields(profile.LaunchProfile):
        for inner in structs_of(table.type):
            for field in msgspec.structs.fields(inner):
                made = field.default_factory
                default = field.default if made is msgspec.NODEFAULT else made()
                shown = "" if default is msgspec.NODEFAULT else msgspec.json.encode(default).decode()
                found[f"{table.name}.{field.name}"] = shown.strip('"').replace("null", "")
    return found


def test_exactly_the_fields_of_tokens_are_documented() -> None:
    text = section(page(REFERENCE / "profiles.md"), "Tokens and fields")
    argv, link = (line for line in re.split(r"^- ", text, flags=re.MULTILINE)[1:])
    assert set(re.findall(r"`\{(\w+)\}`", argv)) == profile.FIELDS
    assert set(re.findall(r"`\{(\w+)\}`", link.split("\n\n")[0])) == profile.LINK_FIELDS


def test_exactly_the_keys_of_a_tree_file_are_documented() -> None:
    documented = first_words(page(REFERENCE / "tree-file.md").split("## What is checked")[0])
    keys_of_agents = [w for w in documented if w not in ("temporary", "transient", "permanent")]
    assert sorted(keys_of_agents) == sorted([*keys(TreeFile), *keys(AgentSpec)])


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "launch_profiles" / "README.md"], ids=lambda p: p.parent.name
)
def test_every_shipped_profile_is_listed_with_the_version_it_was_tried_with(path: Path) -> None:
    listed = {row[0].strip("`").removesuffix(".toml"): row for row in rows(page(path)) if row[0].startswith("`")}
    for file in Path(shipped()).glob("*.toml"):
        found = re.search(r'^tested_versions = \["(.*?)"', page(file), re.MULTILINE)
        assert file.stem in listed
        assert not found or listed[file.stem][2] == found[1]


# -- records


def test_the_table_of_compatibility_is_that_of_the_profiles() -> None:
    assert page(REFERENCE / "compatibility.md") == compatibility.page(), "run: make compatibility"


def test_exactly_the_fields_of_an_entry_are_documented() -> None:
    assert first_words(section(page(REFERENCE / "records.md"), "The entry")) == keys(Entry)


def test_every_field_within_an_entry_is_documented() -> None:
    text = page(REFERENCE / "records.md")
    documented = {name for quoted in words(prose(text)) for name in re.findall(r"\w+", quoted)}
    assert not all_keys(Entry) - documented


def test_exactly_the_fields_of_a_plan_are_documented() -> None:
    assert sorted(first_words(section(page(REFERENCE / "records.md"), "The plan"))) == sorted(keys(LaunchPlan))


def test_exactly_the_fields_of_a_heartbeat_are_documented() -> None:
    assert first_words(section(page(REFERENCE / "records.md"), "Heartbeats")) == keys(Beat)


def test_exactly_the_fields_of_a_row_are_documented() -> None:
    assert sorted(first_words(section(page(REFERENCE / "records.md"), "The row"))) == sorted(keys(Row))


def test_exactly_the_legal_moves_are_documented() -> None:
    text = section(page(REFERENCE / "records.md"), "States")
    lines = [line for line in text.splitlines() if line.startswith("| from")]
    targets = words(lines[0])
    moves = {
        words(row[0])[0]: frozenset(t for t, cell in zip(targets, row[1:], strict=True) if cell == "x")
        for row in rows(text[text.index(lines[0]) :])
    }
    assert moves == dict(MOVES)


def test_the_diagram_of_the_life_cycle_is_the_table() -> None:
    found = re.search(r"```mermaid\nstateDiagram-v2\n(.*?)```", page(DOCS / "explanation" / "life-cycle.md"), re.DOTALL)
    arrows = [f"    {source} --> {target}" for source in MOVES for target in MOVES if target in MOVES[source]]
    assert found is not None
    assert found[1].splitlines() == ["    [*] --> starting", *arrows]


def test_exactly_the_fences_are_documented() -> None:
    assert first_words(section(page(REFERENCE / "recovery.md"), "Fences")) == list(fences.CODES)


def test_every_state_is_documented() -> None:
    text = section(page(REFERENCE / "records.md"), "States")
    assert first_words(text[: text.index("| from")]) == list(MOVES)


def test_every_verdict_is_documented() -> None:
    text = section(page(DOCS / "explanation" / "liveness.md"), "Verdicts")
    assert [row[0].strip("`") for row in rows(text)][:5] == [
        Verdict.ALIVE,
        Verdict.STALE,
        Verdict.DEAD_PID,
        Verdict.ABSENT,
        Verdict.UNKNOWN,
    ]


def test_the_durations_in_liveness_are_those_of_the_program() -> None:
    said = dict(row for row in rows(section(page(DOCS / "explanation" / "liveness.md"), "Clocks")))
    assert list(said.values()) == [
        f"{timing.TICK_MS} ms",
        f"{timing.HEARTBEAT_REFRESH_MS // 1000} s",
        f"{timing.HEARTBEAT_STALE_MS // 1000} s, five missed beats",
        f"{timing.KILL_WAIT_MS // 1000} s",
        f"{timing.STOP_REPLY_MS // 1000} s",
        f"{timing.RESTART_STEP_MS} ms, {timing.RESTART_MAX_MS // 1000} s",
    ]


# -- settings, environment, codes, events, demo


def test_exactly_the_settings_are_documented_with_default_and_bounds() -> None:
    documented = [[cell.strip("`") for cell in row[:5]] for row in rows(page(REFERENCE / "settings.md"))]
    assert documented == [[s.key, *default_and_bounds(s), s.unit] for s in SETTINGS.values()]


def default_and_bounds(setting: Setting) -> list[str]:
    """Only numbers have bounds from and to."""
    if setting.rules or setting.argv:
        return ["[]", "", ""]
    bounds = ("", "") if setting.choices or setting.flag else (setting.low, setting.high)
    default = str(setting.default).lower() if setting.flag else str(setting.default)
    return [default, *(str(bound) for bound in bounds)]


def test_every_choice_of_a_setting_is_documented() -> None:
    about = {row[0].strip("`"): row[5] for row in rows(page(REFERENCE / "settings.md"))}
    for setting in SETTINGS.values():
        assert set(setting.choices) <= set(words(about[setting.key]))


def test_exactly_our_variables_are_documented() -> None:
    sources = "".join(page(path) for path in (ROOT / "supervisor").rglob("*.py"))
    ours = set(re.findall(r"""["']b?(SUPERVISOR_[A-Z_]*[A-Z])["']""", sources))
    documented = set(re.findall(r"`(SUPERVISOR_[A-Z_]*[A-Z])`", page(REFERENCE / "environment.md")))
    assert documented == ours


def test_every_exit_code_is_documented() -> None:
    documented = {row[0] for row in rows(page(REFERENCE / "exit-codes.md"))}
    codes = {str(code) for name, code in vars(errors).items() if name.startswith("EXIT_")}
    assert codes <= documented


def test_exactly_the_tools_are_documented_with_their_arguments() -> None:
    documented = {
        words(row[0])[0]: words(row[1]) for row in rows(page(REFERENCE / "mcp.md").partition("## Permissions")[0])
    }
    assert documented == {t: list(inspect.signature(getattr(Tools, t)).parameters)[1:] for t in TOOLS}


def test_exactly_the_fields_and_kinds_of_an_event_are_documented() -> None:
    text = page(REFERENCE / "events.md")
    assert first_words(prose(text)) == [*keys(Event), *typing.get_args(What)]


def test_exactly_the_directives_of_the_demo_agent_are_documented() -> None:
    assert sorted(first_words(section(page(REFERENCE / "demo.md"), "Directives"))) == sorted(script._DIRECTIVES)


# -- asks


def first_arguments(*names: str, within: Path) -> set[str]:
    """The texts that calls of these names have as their first argument."""
    return {
        call.args[0].value
        for path in within.rglob("*.py")
        for call in ast.walk(ast.parse(page(path)))
        if isinstance(call, ast.Call) and call.args and name_of(call.func) in names
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    }


def name_of(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def of_asks(heading: str) -> list[str]:
    return first_words(section(page(REFERENCE / "asks.md"), heading))


def test_exactly_the_reasons_of_abandoned_asks_are_documented() -> None:
    documented = of_asks("Reasons")
    assert len(documented) == len(set(documented))
    layers = [ROOT / "supervisor" / layer for layer in ("core", "adapters", "runtime", "hook", "cli")]
    assert set(documented) == {code for layer in layers for code in first_arguments("Reason", within=layer)}


def test_the_reasons_that_the_core_gives_are_those_of_its_functions() -> None:
    seen = Judgement("not_serving", "heartbeat", "absent")
    given = {"ms": 1, "seen": seen}
    made = [made for made in vars(ask_reasons).values() if isinstance(made, ask_reasons.Reason)]
    for function in vars(ask_reasons).values():
        if inspect.isfunction(function) and function.__module__ == ask_reasons.__name__:
            made.append(function(*(given.get(name, "x") for name in inspect.signature(function).parameters)))
    assert made
    assert {reason.code for reason in made} <= set(of_asks("Reasons"))


def test_exactly_the_fields_of_a_request_and_a_response_are_documented() -> None:
    request = ask_wire.build_request(
        "perm-1", now=0, requester="r", target="t", agent_name="n", tool="bash", value="v", cwd="/", ours={"nonce": "x"}
    )
    assert of_asks("The request") == ordered(json.loads(ask_wire.encode_request(request)), of_asks("The request"))
    response = ask_wire.Response(False, "denied", "s", reason="no", decided_by={}, ours={"code": "decided"})
    assert of_asks("The response") == list(json.loads(ask_wire.encode_response(response)))


def ordered(names: Iterable[str], like: list[str]) -> list[str]:
    """The names in a page's order; one that it lacks comes last."""
    return sorted(names, key=lambda name: like.index(name) if name in like else len(like))


def test_exactly_the_fields_of_a_mark_are_documented() -> None:
    assert sorted(of_asks("Marks")) == sorted(json.loads(encode_beat(ServingBeat("s", 1, 0))))


def test_every_event_of_the_review_log_is_documented() -> None:
    logged = first_arguments("_log", within=ROOT / "supervisor" / "runtime")
    logged |= {e for e in first_arguments("append", within=ROOT / "supervisor" / "runtime") if e.isidentifier()}
    sources = page(ROOT / "supervisor/core/answering.py") + page(ROOT / "supervisor/runtime/answering.py")
    given = {found for line in re.findall(r"Answer\(.*|_answer\(.*", sources) for found in re.findall(r'"(\w+)"', line)}
    assert set(of_asks("The review log")) == (logged | given) - {"allow"}


# -- the whole


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page(path))):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.is_file(), f"{target} does not exist"
        assert not anchor or anchor in anchors(file), f"there is no heading for {target}"


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_line_of_a_page_is_left_to_be_done(path: Path) -> None:
    assert not re.search(r"\b(TODO|FIXME|XXX|TBD)\b|@@", page(path))


def test_every_page_that_the_code_names_exists() -> None:
    sources = [*(ROOT / "supervisor").rglob("*.py"), *(ROOT / "launch_profiles").glob("*.toml")]
    for path in sources:
        for named in re.findall(r"docs/[\w/.-]+\.md", page(path)):
            assert (ROOT / named).is_file(), f"{path.name} names {named}"


def test_every_decision_has_a_status() -> None:
    for path in sorted((DOCS / "adr").glob("*.md")):
        assert re.match(r"---\nstatus: (proposed|accepted|superseded)\ndate: \d{4}-\d\d-\d\d\n---\n# ", page(path)), (
            path
        )


def test_every_page_is_reached_from_the_readme() -> None:
    text = page(ROOT / "README.md")
    for path in DOCS.rglob("*.md"):
        assert str(path.relative_to(ROOT)) in text


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(page(DOCS / "architecture.md").splitlines()) <= 300


def test_every_module_that_the_architecture_names_exists() -> None:
    for named in re.findall(
        r"`((?:core|adapters|runtime|cli|hook|drivers|library|mcp_server)/[\w/]+(?:\.py)?)/?`",
        page(DOCS / "architecture.md"),
    ):
        assert (ROOT / "supervisor" / named).exists(), named


def test_every_test_that_the_architecture_names_exists() -> None:
    named = NAMED_TEST.findall(page(DOCS / "architecture.md"))
    assert named
    for file, name in named:
        tree = ast.parse(page(ROOT / file))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{file}::{name}"


def test_every_invariant_names_a_test() -> None:
    invariants = rows(section(page(DOCS / "architecture.md"), "Invariants"))
    assert invariants
    for row in invariants:
        assert NAMED_TEST.search(row[1]), row[0]


def test_the_commands_for_developers_exist() -> None:
    makefile = page(ROOT / "Makefile")
    for path in PAGES:
        for target in re.findall(r"`make ([a-z0-9]+)`|^make ([a-z0-9]+)", page(path), re.MULTILINE):
            assert re.search(rf"^{target[0] or target[1]}:", makefile, re.MULTILINE), f"{path.name}: make {target}"


def test_the_version_that_is_told_is_the_version_that_is_built() -> None:
    version = importlib.import_module("supervisor._version").VERSION
    assert f'version = "{version}"' in page(ROOT / "pyproject.toml")
