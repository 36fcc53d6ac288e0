"""Profile and request become a plan: the tokens of the profile, the user's values each as one token, nothing else."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from supervisor.adapters.profile_files import ProfileFiles, shipped
from supervisor.core.errors import BadInput
from supervisor.core.launch_plan import (
    MAX_ARGV_PROMPT,
    LaunchPlan,
    LaunchRequest,
    Mode,
    RestartPlan,
    allowed_path,
    command_line,
    plan_launch,
    variable,
)
from supervisor.core.profile import (
    Argv,
    DriverRules,
    Env,
    LaunchProfile,
    Link,
    Prompt,
    Ready,
    RestartPolicy,
    Session,
    Stop,
    problems,
)
from supervisor.core.resuming import resumed_plan

GOLDEN = Path(__file__).parents[1] / "data" / "argv"
SHIPPED = sorted(p.stem for p in Path(shipped()).glob("*.toml"))
HEADLESS = LaunchRequest(name="tests", session_id="0b6f-session", cwd="/work", python="/usr/bin/python3")
NASTY = '-rf "; $(boom) `x` \n{model} --flag=1'
FULL = LaunchProfile(
    schema=1,
    name="full",
    summary="Everything",
    argv=Argv(
        base=("{python}", "agent"),
        headless=("--quiet",),
        interactive=("--tui",),
        start=(("--session-id", "{session_id}"),),
        resume=(("--resume", "{session_id}"),),
        options=(("--model", "{model}"), ("--name", "{name}")),
        path=("--add-dir", "{path}"),
    ),
    prompt=Prompt(headless="stdin", interactive="argv", args=("--", "{prompt}")),
    session=Session(id="preset", files=("$HOME/{session_id}.jsonl",)),
)


def profile_of(name: str) -> LaunchProfile:
    return ProfileFiles(cwd="/", user="", trust="/nowhere").load(name)


def modes_of(profile: LaunchProfile) -> tuple[Mode, ...]:
    return ("headless", "interactive") if profile.terminal else ("headless",)


def request(mode: Mode = "headless", **changes: object) -> LaunchRequest:
    return replace(HEADLESS, mode=mode, **changes)


# -- shipped profiles


def compiled(profile: LaunchProfile, mode: Mode, *, full: bool) -> dict[str, object]:
    """What this profile makes of a plain launch, or of one that asks for everything the profile can."""
    takes_prompt = (profile.prompt.headless if mode == "headless" else profile.prompt.interactive) != "none"
    plan = plan_launch(
        profile,
        request(
            mode,
            prompt_file="/state/prompts/1" if full and takes_prompt else None,
            model="big model" if full and any("{model}" in g for g in profile.argv.options) else None,
            allowed_paths=("/data one", "/data2") if full and profile.argv.path else (),
            words=("make", "a b") if full and profile.prompt.words == "args" else (),
        ),
    )
    prompt = "the prompt" if full and takes_prompt else ""
    return {
        "start": command_line(plan, session=None, prompt=prompt),
        "resume": command_line(plan, session="THE SESSION", prompt=prompt) if plan.resume_argv else (),
        "stdin": plan.stdin,
        "ready": plan.ready,
    }


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_profile_compiles_to_its_golden_argv(name: str, update_golden: bool) -> None:
    profile = profile_of(name)
    found = {
        f"{mode} {'full' if full else 'plain'}": compiled(profile, mode, full=full)
        for mode in modes_of(profile)
        for full in (False, True)
    }
    golden = GOLDEN / f"{name}.json"
    if update_golden:
        golden.write_text(json.dumps(found, indent=1) + "\n")
    assert golden.exists(), "no golden argv for this profile: read it, then run pytest with --update-golden"
    assert json.loads(golden.read_text()) == json.loads(json.dumps(found))


def test_a_prompt_can_be_joined_to_its_option() -> None:
    """For a CLI that takes a prompt like `-rf` for an option even behind `--prompt`."""
    joined = replace(FULL, prompt=Prompt(interactive="argv", args=("--prompt={prompt}",)))
    plan = plan_launch(joined, request("interactive", prompt_file="/p"))
    assert plan.argv[-1] == "--prompt={prompt}", "the plan holds the prompt by reference only"
    for session in (None, "S"):
        assert command_line(plan, session=session, prompt="-rf {prompt}")[-1] == "--prompt=-rf {prompt}"
    bare = plan_launch(joined, request("interactive"))
    assert not [token for token in bare.argv if "prompt" in token]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_profile_has_no_problems(name: str) -> None:
    assert list(problems(profile_of(name))) == []


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name in SHIPPED for mode in modes_of(profile_of(name))])
@pytest.mark.parametrize("value", [NASTY, "", "--", "{prompt}", "{session_id}", "a\tb", "x" * 5000])
def test_a_value_is_one_token_whatever_it_holds(name: str, mode: Mode, value: str) -> None:
    profile = profile_of(name)
    plain, filled = (plan_launch(profile, request(mode, cwd=v, python=v)) for v in ("VALUE", value))
    assert [value if t == "VALUE" else t for t in plain.argv] == list(filled.argv)


# -- order and groups


@pytest.mark.parametrize(
    ("plan", "argv"),
    [
        (
            plan_launch(FULL, request()),
            "/usr/bin/python3 agent --quiet --session-id 0b6f-session --name tests",
        ),
        (
            plan_launch(FULL, request(model="m", allowed_paths=("/a", "/b"), words=("w",), prompt_file="/p")),
            "/usr/bin/python3 agent --quiet --session-id 0b6f-session --model m --name tests "
            "--add-dir /a --add-dir /b w",
        ),
        (
            plan_launch(FULL, request("interactive", prompt_file="/p", model="m")),
            "/usr/bin/python3 agent --tui --session-id 0b6f-session --model m --name tests -- {prompt}",
        ),
        (
            plan_launch(FULL, request("interactive")),
            "/usr/bin/python3 agent --tui --session-id 0b6f-session --name tests",
        ),
    ],
)
def test_groups_come_in_the_order_of_the_profile(plan: LaunchPlan, argv: str) -> None:
    assert argv.split() == list(plan.argv)


def test_a_resume_takes_the_place_of_the_start() -> None:
    plan = plan_launch(FULL, request(model="m"))
    assert [t.replace("--session-id", "--resume") for t in plan.argv] == list(plan.resume_argv)


def test_a_profile_that_cannot_resume_has_no_resume() -> None:
    assert plan_launch(replace(FULL, argv=replace(FULL.argv, resume=())), request()).resume_argv == ()


@pytest.mark.parametrize("model", ["m", "{session_id}", "{prompt}"])
def test_a_captured_session_is_resumed_by_the_id_that_the_cli_gave(model: str) -> None:
    capturing = replace(FULL, session=Session(id="capture", capture_key="id"), argv=replace(FULL.argv, start=()))
    plan = plan_launch(capturing, request(model=model))
    expected = f"/usr/bin/python3 agent --quiet --resume th-7 --model {model} --name tests"
    assert list(command_line(plan, session="th-7", prompt="")) == expected.split()


@pytest.mark.parametrize("model", ["m", "{session_id}", "{prompt}"])
def test_a_session_goes_where_the_profile_says_and_nowhere_else(model: str) -> None:
    resume = (("--with", "{model}", "--resume", "{session_id}"),)
    plan = plan_launch(replace(FULL, argv=replace(FULL.argv, resume=resume)), request(model=model))
    assert command_line(plan, session="th-7", prompt="")[3:7] == ("--with", model, "--resume", "th-7")


@pytest.mark.parametrize("model", ["m", "{session_id}", "{prompt}"])
def test_a_prompt_goes_where_the_profile_says_and_nowhere_else(model: str) -> None:
    plan = plan_launch(FULL, request("interactive", prompt_file="/p", model=model))
    expected = ("--model", model, "--name", "tests", "--", NASTY)
    assert command_line(plan, session=None, prompt=NASTY)[-6:] == expected


def test_a_prompt_anywhere_else_in_a_profile_is_refused_or_filled_in() -> None:
    profile = replace(FULL, argv=replace(FULL.argv, options=(("--task", "{prompt}"),)))
    plan = plan_launch(profile, request("interactive", prompt_file="/p"))
    assert list(problems(profile)) or NASTY in command_line(plan, session=None, prompt=NASTY)[:-1]


def test_a_resume_on_a_terminal_may_take_no_prompt_where_a_launch_does() -> None:
    plan = plan_launch(replace(FULL, prompt=replace(FULL.prompt, interactive_resume="none")), request("interactive"))
    silent = plan.resume_lines["interactive"]
    assert (silent.takes, silent.prompt, plan.resume_lines["headless"].takes) == ("none", (), "stdin")
    assert NASTY not in command_line(resumed_plan(plan, "interactive", "/p"), session="th-7", prompt=NASTY)


def test_a_session_that_a_profile_names_twice_is_refused_or_filled_in_twice() -> None:
    resume = (("--resume", "{session_id}", "--log", "{session_id}"),)
    profile = replace(FULL, argv=replace(FULL.argv, resume=resume))
    line = command_line(plan_launch(profile, request()), session="th-7", prompt="")
    assert list(problems(profile)) or line.count("th-7") == 2


def test_without_a_session_the_agent_is_started_anew() -> None:
    plan = plan_launch(FULL, request())
    assert command_line(plan, session=None, prompt="") == plan.argv


def test_what_cannot_resume_is_started_anew_whatever_its_session() -> None:
    plan = plan_launch(replace(FULL, argv=replace(FULL.argv, resume=())), request())
    assert command_line(plan, session="th-7", prompt="") == plan.argv


def test_a_group_with_an_unset_field_is_dropped_whole() -> None:
    two = replace(FULL, argv=replace(FULL.argv, options=(("--both", "{model}", "{name}"), ("--plain",))))
    assert plan_launch(two, request()).argv[-1:] == ("--plain",)


def test_a_word_that_looks_like_a_field_stays_as_it_is() -> None:
    assert plan_launch(FULL, request(words=("{model}", "{prompt}"))).argv[-2:] == ("{model}", "{prompt}")


# -- the prompt


@pytest.mark.parametrize(
    ("mode", "prompt_file", "stdin"),
    [
        ("headless", None, "null"),
        ("headless", "/p", "prompt"),
        ("interactive", None, "inherit"),
        ("interactive", "/p", "inherit"),
    ],
)
def test_stdin_is_the_prompt_or_nothing_or_the_terminal(mode: Mode, prompt_file: str | None, stdin: str) -> None:
    plan = plan_launch(FULL, request(mode, prompt_file=prompt_file))
    assert (stdin, prompt_file) == (plan.stdin, plan.prompt_file)


@pytest.mark.parametrize("mode", ["headless", "interactive"])
def test_the_plan_holds_the_prompt_by_reference_only(mode: Mode) -> None:
    plan = plan_launch(FULL, request(mode, prompt_file="/p", prompt_bytes=5))
    assert plan.argv.count("{prompt}") == (1 if mode == "interactive" else 0)


@pytest.mark.parametrize(("mode", "hint"), [("headless", "Give arguments after --"), ("interactive", "Use --detach")])
def test_a_profile_that_takes_no_prompt_says_what_to_do(mode: Mode, hint: str) -> None:
    deaf = replace(FULL, prompt=Prompt(headless="none", interactive="none"))
    with pytest.raises(BadInput) as raised:
        plan_launch(deaf, request(mode, prompt_file="/p"))
    assert hint == raised.value.hint


def test_a_profile_without_a_terminal_is_launched_and_resumed_in_the_background_only() -> None:
    screenless = replace(FULL, terminal=False)
    with pytest.raises(BadInput, match="profile full does not run on a terminal"):
        plan_launch(screenless, request("interactive"))
    assert {"headless"} == set(plan_launch(screenless, request()).resume_lines)
    assert {"headless", "interactive"} == set(plan_launch(FULL, request()).resume_lines)


@pytest.mark.parametrize("name", ["acp", "claude-stdio", "codex-exec"])
def test_what_speaks_a_protocol_gets_no_terminal_whatever_words_it_is_given(name: str) -> None:
    with pytest.raises(BadInput, match="does not run on a terminal"):
        plan_launch(profile_of(name), request("interactive", words=("gemini", "--acp")))


@pytest.mark.parametrize(("size", "refused"), [(MAX_ARGV_PROMPT, False), (MAX_ARGV_PROMPT + 1, True)])
def test_a_prompt_on_the_command_line_has_a_limit(size: int, refused: bool) -> None:
    try:
        plan_launch(FULL, request("interactive", prompt_file="/p", prompt_bytes=size))
        found = False
    except BadInput:
        found = True
    assert refused is found


def test_a_prompt_on_stdin_has_none() -> None:
    assert plan_launch(FULL, request(prompt_file="/p", prompt_bytes=1 << 30)).stdin == "prompt"


# -- the rest


def test_a_model_for_a_profile_without_one_is_refused() -> None:
    with pytest.raises(BadInput, match="no option for a model"):
        plan_launch(replace(FULL, argv=Argv(base=("agent",))), request(model="m"))


@pytest.mark.parametrize("policy", ["temporary", "transient", "permanent"])
def test_a_wish_for_another_restart_policy_keeps_the_profiles_intensity(policy: str) -> None:
    lasting = replace(FULL, restart=RestartPolicy(policy="permanent", intensity=7, period_seconds=99))
    expected = RestartPlan(policy=policy, intensity=7, period_seconds=99)  # type: ignore[arg-type]
    assert expected == plan_launch(lasting, request(restart=policy)).restart


@pytest.mark.parametrize(
    ("mode", "when", "ready"),
    [
        ("headless", "output", "output"),
        ("headless", "session_file", "session_file"),
        ("headless", "spawned", "spawned"),
        ("interactive", "output", "spawned"),
    ],
)
def test_only_an_agent_with_a_transcript_can_prove_itself_by_output(mode: Mode, when: str, ready: str) -> None:
    profile = replace(FULL, ready=Ready(when=when))  # type: ignore[arg-type]
    assert ready == plan_launch(profile, request(mode)).ready


def test_the_plan_carries_the_profiles_rules() -> None:
    profile = replace(
        FULL,
        env=Env(set={"A": "1"}, unset=("Z", "B", "Z")),
        link=Link(env={"PI_PARENT_PID": "{parent_pid}"}),
        stop=Stop(signal="INT", grace_seconds=2.5, success_codes=(0, 130)),
        ready=Ready(when="spawned", timeout_seconds=7),
    )
    plan = plan_launch(profile, request(env_given=("SECRET",)))
    expected = replace(
        plan,
        env_set={"A": "1"},
        env_link={"PI_PARENT_PID": "{parent_pid}"},
        env_unset=("B", "Z"),
        env_given=("SECRET",),
        stop_signal="INT",
        stop_grace_ms=2500,
        success_codes=(0, 130),
        ready_timeout_ms=7000,
        session_files=("$HOME/{session_id}.jsonl",),
    )
    assert expected == plan


@pytest.mark.parametrize("raw", ["/", "/a/b", "/a b/ünï", "/...", "/a/..b", "/a//b"])
def test_an_absolute_path_may_be_allowed(raw: str) -> None:
    assert raw == allowed_path(raw)


@pytest.mark.parametrize("raw", ["", "a", "./a", "~/a", "/a/../b", "/..", "/a/..", "../a", "/a\0b", "/a\nb"])
def test_a_path_that_leads_elsewhere_is_refused(raw: str) -> None:
    with pytest.raises(BadInput):
        allowed_path(raw)


@pytest.mark.parametrize("raw", ["/a\x1b[31m", "/a\rb", "/a\tb", "/a\x7f", "/a\x9b"])
def test_a_path_with_control_characters_is_refused(raw: str) -> None:
    with pytest.raises(BadInput):
        allowed_path(raw)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("A=1", ("A", "1")),
        ("A=", ("A", "")),
        ("A", ("A", None)),
        ("_a9=x=y", ("_a9", "x=y")),
        ("A= two\nlines ", ("A", " two\nlines ")),
    ],
)
def test_a_variable_is_a_name_with_or_without_a_value(raw: str, expected: tuple[str, str | None]) -> None:
    assert expected == variable(raw)


@pytest.mark.parametrize("raw", ["", "=x", "9A=1", "A-B=1", "A B", "A\n=1", "Ä=1", "A=\0", "SUPERVISOR_HOME=/x"])
def test_what_can_be_no_variable_is_refused(raw: str) -> None:
    with pytest.raises(BadInput):
        variable(raw)


# -- a driver


DRIVEN = replace(
    FULL, driver=DriverRules(kind="toy", command=("toy", "serve")), stop=Stop(signal="INT", grace_seconds=1)
)


def test_headless_a_driver_is_launched_and_the_clis_command_comes_last() -> None:
    plan = plan_launch(
        DRIVEN, request(model="m", allowed_paths=("/a", "/b"), words=("--more", "--"), prompt_file="/state/prompts/1")
    )

    driver = ("/usr/bin/python3", "-P", "-m", "supervisor.drivers", "toy")
    rest = ("--model", "m", "--add-dir", "/a", "--add-dir", "/b", "--", "toy", "serve", "--more", "--")
    assert plan.argv == (*driver, "--session-id", "0b6f-session", *rest)
    assert command_line(plan, session="S", prompt="") == (*driver, "--resume", "S", *rest)
    assert (plan.driven, plan.stdin, plan.ready, plan.follow) == (True, "prompt", "session", "leader")
    assert (plan.stop_signal, plan.stop_grace_ms, plan.success_codes) == ("TERM", 10_000, (0,))


def test_on_a_terminal_the_cli_itself_is_launched() -> None:
    driven, plain = (plan_launch(p, request("interactive")) for p in (DRIVEN, FULL))

    assert (driven.argv, driven.resume_argv, driven.driven) == (plain.argv, plain.resume_argv, False)
    assert (driven.stop_signal, driven.stop_grace_ms) == ("INT", 1000)


def test_a_driver_that_cannot_choose_a_model_says_so() -> None:
    profile = replace(DRIVEN, driver=DriverRules(kind="toy", command=("toy",), model=False))

    with pytest.raises(BadInput, match="no option for a model"):
        plan_launch(profile, request(model="m"))
