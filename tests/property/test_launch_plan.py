"""No value of a request can add a token, remove one, or split one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from supervisor.core.launch_plan import LaunchPlan, LaunchRequest, Mode, command_line, plan_launch
from supervisor.core.profile import FIELDS, Argv, LaunchProfile, Prompt, Session, problems

values = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
hostile = values | st.sampled_from(["-rf", "--", "a b", "'; $(boom)", "{model}", "{session_id}", "\n", "", "{prompt}"])
literals = st.sampled_from(["-p", "--flag", "run", "a b", "x={y", "--"])
tokens = literals | st.sampled_from(sorted(f"{{{f}}}" for f in FIELDS - {"path", "prompt"}))
groups = st.lists(st.lists(tokens, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple)
modes: st.SearchStrategy[Mode] = st.sampled_from(["headless", "interactive"])


@st.composite
def profiles(draw: st.DrawFn) -> LaunchProfile:
    argv = Argv(
        base=tuple(draw(st.lists(tokens, max_size=3))),
        headless=tuple(draw(st.lists(tokens, max_size=2))),
        interactive=tuple(draw(st.lists(tokens, max_size=2))),
        start=(("--session-id", "{session_id}"), *draw(groups)),
        resume=draw(groups.filter(lambda found: sum(g.count("{session_id}") for g in found) <= 1)),
        options=(("--model", "{model}"), *draw(groups)),
        path=("--add-dir", "{path}"),
    )
    profile = LaunchProfile(
        schema=1,
        name="any",
        summary="",
        argv=argv,
        prompt=Prompt(headless="argv", interactive="argv", args=("--", "{prompt}")),
        session=Session(id="preset"),
    )
    assert list(problems(profile)) == []
    return profile


PLAIN = LaunchRequest(
    name="NAME",
    session_id="SESSION",
    cwd="CWD",
    python="PYTHON",
    model="MODEL",
    prompt_file="/p",
    words=("WORD1", "WORD2"),
    allowed_paths=("/PATH1", "/PATH2"),
)


@st.composite
def fillings(draw: st.DrawFn) -> dict[str, str]:
    names = ["NAME", "CWD", "PYTHON", "WORD1", "WORD2", "/PATH1", "/PATH2"]
    values = {name: draw(hostile) for name in names}
    return {**values, "MODEL": draw(hostile.filter(bool)), "SESSION": str(draw(st.uuids()))}


def filled(values: dict[str, str], mode: Mode) -> LaunchRequest:
    return replace(
        PLAIN,
        mode=mode,
        name=values["NAME"],
        session_id=values["SESSION"],
        cwd=values["CWD"],
        python=values["PYTHON"],
        model=values["MODEL"],
        words=(values["WORD1"], values["WORD2"]),
        allowed_paths=(values["/PATH1"], values["/PATH2"]),
    )


def command_lines(plan: LaunchPlan) -> tuple[list[str], list[str]]:
    """A start, and a resume where the profile has one."""
    start = command_line(plan, session=None, prompt="PROMPT")
    return list(start), list(command_line(plan, session="KNOWN", prompt="PROMPT")) if plan.resume_argv else []


@given(profiles(), fillings(), modes)
def test_each_value_lands_whole_where_its_field_stands(
    profile: LaunchProfile, values: dict[str, str], mode: Mode
) -> None:
    plain = command_lines(plan_launch(profile, replace(PLAIN, mode=mode)))
    expected = [[values.get(t, t) for t in line] for line in plain]
    assert expected == list(command_lines(plan_launch(profile, filled(values, mode))))


@given(profiles(), modes)
def test_every_token_is_the_profiles_or_the_requests(profile: LaunchProfile, mode: Mode) -> None:
    argv = profile.argv
    groups = (argv.base, argv.headless, argv.interactive, *argv.start, *argv.resume, *argv.options)
    known = {token for group in groups for token in group} | {"--add-dir", "--", "PROMPT", "KNOWN"}
    asked = {"NAME", "SESSION", "CWD", "PYTHON", "MODEL", "WORD1", "WORD2", "/PATH1", "/PATH2"}
    lines = command_lines(plan_launch(profile, replace(PLAIN, mode=mode)))
    assert {token for line in lines for token in line} <= known | asked


@given(profiles(), modes)
def test_the_prompt_comes_last_and_behind_its_guard(profile: LaunchProfile, mode: Mode) -> None:
    start, _ = command_lines(plan_launch(profile, replace(PLAIN, mode=mode)))
    assert start[-2:] == ["--", "PROMPT"]
