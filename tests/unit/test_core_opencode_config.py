"""What opencode is configured with for one launch: ours below the user's, and nothing of theirs lost."""

from __future__ import annotations

import json

import pytest

from supervisor.core.opencode_config import ASKED, joined, merged, with_plugin

OURS = {"permission": ASKED, "share": "disabled"}
PLUGIN = "file:///state/hooks/opencode.js"


def test_what_the_user_sets_for_this_launch_stays() -> None:
    given = {"permission": {"bash": {"git status": "allow", "*": "ask"}, "webfetch": "deny"}, "model": "m"}
    made = merged(json.dumps(given), OURS)
    assert made is not None
    assert made["permission"] == {**ASKED, **given["permission"]}  # type: ignore[dict-item]
    assert (made["model"], made["share"]) == ("m", "disabled")


def test_a_permission_that_is_one_word_stays_it() -> None:
    made = merged('{"permission": "deny"}', OURS)
    assert made is not None
    assert made["permission"] == "deny"


@pytest.mark.parametrize("given", [None, "", "  "])
def test_without_a_configuration_ours_is_the_whole(given: str | None) -> None:
    assert json.loads(joined(given, with_plugin(PLUGIN))) == {"plugin": [PLUGIN], "permission": ASKED}


def test_plugins_of_the_user_are_loaded_too_and_ours_once() -> None:
    once = joined('{"plugin": ["theirs"]}', with_plugin(PLUGIN))
    assert json.loads(joined(once, with_plugin(PLUGIN)))["plugin"] == ["theirs", PLUGIN]


@pytest.mark.parametrize("given", ["{", "5", "[]", "// note\n{}"])
def test_a_configuration_that_cannot_be_read_is_left_to_opencode(given: str) -> None:
    assert joined(given, with_plugin(PLUGIN)) == given
