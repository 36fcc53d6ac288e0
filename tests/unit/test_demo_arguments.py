"""The demo agent's command line."""

import pytest

from supervisor.demo import arguments
from supervisor.demo.arguments import Help, Misused, Options


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Options()),
        (["--session-id", "a"], Options(session_id="a")),
        (["--session-id=--a"], Options(session_id="--a")),
        (["--session-id", ""], Options(session_id="")),
        (["--resume", "a", "--model", "m"], Options(resume="a", model="m")),
        (["--interactive"], Options(interactive=True)),
        (["--", "-x", "--resume", "b"], Options(prompt="-x --resume b")),
        (["--model", "m", "--", "a", "--", "b"], Options(model="m", prompt="a -- b")),
        (["--", ""], Options(prompt="")),
        (["--"], Options()),
        (["--help"], Help()),
    ],
)
def test_the_words_become_options(words: list[str], expected: Options | Help) -> None:
    found = arguments.parse(words)
    assert expected == found
    assert type(expected) is type(found)


@pytest.mark.parametrize(
    "words",
    [
        ["prompt"],
        ["--nope"],
        ["--interactive=yes"],
        ["--session-id"],
        ["--session-id", "--", "prompt"],
        ["--session-id", "--interactive"],
        ["--session-id", "a", "--session-id", "b"],
        ["--session-id", "a", "--resume", "a"],
        ["--model"],
    ],
)
def test_what_it_does_not_know_is_misuse(words: list[str]) -> None:
    assert isinstance(arguments.parse(words), Misused)
