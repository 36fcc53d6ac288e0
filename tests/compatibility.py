"""The table of what each CLI can do, made from the shipped profiles: `make compatibility` writes it.

python -m tests.compatibility > docs/reference/compatibility.md
"""

import re
from collections.abc import Callable
from pathlib import Path

from supervisor.cli.profile_words import abilities
from supervisor.core.profile import LaunchProfile
from supervisor.runtime.compose import Context

AGENTS = ("claude", "claude-stdio", "codex", "codex-exec", "gemini", "opencode", "pi", "acp")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "compatibility.md"

HEAD = """\
# Compatibility

What each agent CLI can do when `supervisor` launches it, read from the shipped [profiles](profiles.md). This page is
generated (`make compatibility`); `supervisor profiles show NAME` says the same of your own, `supervisor doctor`
looks which versions are installed, and a launch tells when it is another one. `make e2e` drives these CLIs for real.
"""


def page() -> str:
    """The whole page."""
    context = Context({"HOME": "/nonexistent", "SUPERVISOR_HOME": "/nonexistent"}, cwd="/")
    profiles = [context.profiles.load(name) for name in AGENTS]
    table = [["", *(f"`{p.name}`" for p in profiles)], ["---"] * (len(profiles) + 1)]
    table += [[label, *map(cell, profiles)] for label, cell in ROWS]
    lines = [HEAD, *(f"| {' | '.join(row)} |" for row in table)]
    for profile in profiles:
        lines += ["", f"## {profile.name}", "", f"{profile.summary[0].upper()}{profile.summary[1:]}.", ""]
        lines += [f"- {text[0].upper()}{text[1:]}." for text in profile.notes]
        lines += [f"- It cannot {text}." for text in profile.cannot]
    return "\n".join(lines).replace(" |  |", " | |") + "\n"


def said(label: str) -> Callable[[LaunchProfile], str]:
    """What `profiles show` says under that label."""
    return lambda profile: re.sub(r"[|]", "/", dict(abilities(profile)).get(label, "-"))


def headless(profile: LaunchProfile) -> str:
    """How it is spoken to in the background."""
    if profile.driver is not None:
        words = " ".join(profile.driver.command)
        return f"a driver speaks to {f'`{words}`' if words else 'what stands after `--`'}"
    return f"`{' '.join((*profile.argv.base, *profile.argv.headless))}`"


def terminal(profile: LaunchProfile) -> str:
    """Whether it can have a terminal or a tmux pane."""
    if not profile.terminal:
        return "no"
    return f"`{' '.join((*profile.argv.base, *profile.argv.interactive))}`"


def scrubbed(profile: LaunchProfile) -> str:
    """What a child does not inherit of it."""
    return f"{len(profile.env.identity)} of identity, {len(profile.env.tool_shell)} of its tool shell"


def set_(profile: LaunchProfile) -> str:
    """What it is given."""
    return ", ".join(f"`{name}`" for name in (*profile.env.set, *profile.env.headless, *profile.link.env)) or "-"


ROWS: tuple[tuple[str, Callable[[LaunchProfile], str]], ...] = (
    ("verified version", lambda p: ", ".join(p.tested_versions) or "-"),
    ("headless", headless),
    ("on a terminal, in tmux", terminal),
    ("prompt", said("prompt")),
    ("model", said("model")),
    ("session", said("session")),
    ("up", said("ready")),
    ("asks", said("asks")),
    ("tools for agents", said("tools")),
    ("allowed paths", said("paths")),
    ("stopped by", said("stop")),
    ("variables it is given", set_),
    ("variables not passed on", scrubbed),
)


if __name__ == "__main__":
    print(page(), end="")
