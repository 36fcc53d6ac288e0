"""Profiles: what the types cannot say is found, with the key it is about."""

import pytest
from msgspec.structs import replace

from supervisor.core.profile import (
    FIELDS,
    LINK_FIELDS,
    Argv,
    Env,
    LaunchProfile,
    Link,
    Prompt,
    Ready,
    Session,
    field_of,
    problems,
)

PLAIN = LaunchProfile(schema=1, name="plain", summary="Plain")
PRESET = Session(id="preset")
SESSION_START = (("--session-id", "{session_id}"),)


def argv(**changes: object) -> LaunchProfile:
    return replace(PLAIN, argv=replace(Argv(base=("agent",)), **changes))


@pytest.mark.parametrize(
    "profile",
    [
        PLAIN,
        argv(base=("{python}", "-m", "x"), options=(("--model", "{model}"),), path=("--dir", "{path}")),
        replace(argv(start=SESSION_START), session=PRESET),
        replace(PLAIN, session=Session(id="capture", capture_key="id")),
        replace(PLAIN, session=Session(files=("~/x",)), ready=Ready(when="session_file")),
        replace(PLAIN, prompt=Prompt(headless="argv", args=("--", "{prompt}"))),
        replace(PLAIN, prompt=Prompt(interactive="argv", args=("--prompt", "{prompt}"))),
        replace(PLAIN, link=Link(env={"PI_PARENT_PID": "{parent_pid}"}), env=Env(set={"X": "{home}", "Y": "plain"})),
        replace(PLAIN, env=Env(set={"X": "a {model} in text is text"})),
    ],
)
def test_a_sound_profile_has_no_problems(profile: LaunchProfile) -> None:
    assert list(problems(profile)) == []


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (argv(headless=("--model={model}",)), "argv: '--model={model}': a {field} must be a whole token"),
        (argv(options=(("{model} ",),)), "argv: '{model} ': a {field} must be a whole token"),
        (argv(base=("{session_id}{model}",)), "argv: '{session_id}{model}': a {field} must be a whole token"),
        (argv(base=("{modle}",)), f"argv: '{{modle}}': unknown field (there are {', '.join(sorted(FIELDS))})"),
        (argv(path=("--add-dir",)), "argv.path: holds no {path}"),
        (replace(PLAIN, session=PRESET), "session.id: `preset` needs a group with {session_id} in argv.start"),
        (replace(PLAIN, session=Session(id="capture")), "session.capture_key: needed for `capture`"),
        (
            replace(PLAIN, ready=Ready(when="session_file")),
            "session.files: needed for ready.when = `session_file`",
        ),
        (replace(PLAIN, prompt=Prompt(headless="argv")), "prompt.args: needs {prompt} for delivery by `argv`"),
        (
            replace(PLAIN, prompt=Prompt(headless="argv", args=("prompt={prompt}",))),
            "argv: 'prompt={prompt}': a {field} must be a whole token",
        ),
        (
            replace(PLAIN, prompt=Prompt(interactive="argv", args=("{prompt}",))),
            "prompt.args: {prompt} needs `--` or an option before it, or a prompt like '-rf' becomes an option",
        ),
        (
            replace(PLAIN, link=Link(env={"P": "{parent}"})),
            f"link.env.P: unknown field '{{parent}}' (there are {', '.join(sorted(LINK_FIELDS))})",
        ),
        (
            replace(PLAIN, env=Env(set={"M": "{model}"})),
            f"env.set.M: unknown field '{{model}}' (there are {', '.join(sorted(LINK_FIELDS))})",
        ),
    ],
)
def test_a_problem_is_named_with_its_key(profile: LaunchProfile, expected: str) -> None:
    assert expected == next(problems(profile))


def test_every_problem_is_found() -> None:
    broken = replace(argv(base=("{x}",), path=("--dir",)), session=Session(id="capture"))
    assert [p.partition(":")[0] for p in problems(broken)] == ["argv", "argv.path", "session.capture_key"]


@pytest.mark.parametrize(
    ("token", "field"),
    [
        ("{model}", "model"),
        ("model", None),
        ("{model}x", None),
        ("x{model}", None),
        ("{model}\n", None),
        ("{Model}", None),
        ("{}", None),
        ("", None),
    ],
)
def test_only_a_whole_token_is_a_field(token: str, field: str | None) -> None:
    assert field == field_of(token)
