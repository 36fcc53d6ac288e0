"""Claude behind its driver: what a hook in the user's own settings does to an ask that waits with the parent."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e_real.driven import CLAUDE, MARK
from tests.e2e_real.processes import until
from tests.e2e_real.rig import Rig
from tests.e2e_real.test_asks import REASON, answer, asks, demo, ended, mark, mode, over, waiting_ask

pytestmark = pytest.mark.real

ALLOW = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}


@pytest.fixture(autouse=True)
def _column(record_property: Callable[[str, object], None]) -> None:
    record_property("cli", "claude")


def user_hook(rig: Rig) -> Path:
    """A hook in the user's settings that allows everything once a file is there."""
    go, script = rig.tmp / "go", rig.tmp / "hook.sh"
    wait = f"until test -e {shlex.quote(str(go))}; do sleep 0.05; done"
    script.write_text(f"{wait}\necho {shlex.quote(json.dumps(ALLOW))}\n")
    hook = {"type": "command", "command": "/bin/sh", "args": [str(script)], "timeout": 600}
    settings = {"hooks": {"PermissionRequest": [{"matcher": "*", "hooks": [hook]}]}}
    (Path(rig.env["CLAUDE_CONFIG_DIR"]) / "settings.json").write_text(json.dumps(settings))
    return go


def test_a_hook_of_the_users_own_may_decide_and_the_ask_is_withdrawn(rig: Rig) -> None:
    go = user_hook(rig)
    mode(rig, "hold")
    demo(rig, "lead")
    kid = CLAUDE.launch(rig, CLAUDE.asks(MARK), "--parent", "lead")
    waiting_ask(rig)

    go.touch()

    ended(rig, "kid")
    assert mark(rig).exists()
    until(lambda: asks(rig) == [], lambda: f"no ask is left: {asks(rig)}")
    assert "[the permission request was withdrawn]" in rig.transcript(kid)
    over(rig)


def test_without_the_users_settings_the_parent_alone_decides(rig: Rig) -> None:
    user_hook(rig).touch()
    mode(rig, "hold")
    demo(rig, "lead")
    CLAUDE.launch(rig, CLAUDE.asks(MARK), "--parent", "lead", words=("--setting-sources", "project,local"))

    answer(rig, waiting_ask(rig), "deny", "--reason", REASON)

    ended(rig, "kid")
    assert not mark(rig).exists()
    over(rig)
