"""`supervisor completion`: print the completion script of a shell."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", epilog="Example: echo 'eval \"$(supervisor completion bash)\"' >> ~/.bashrc")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
def command(shell: str | None) -> None:
    """Print the completion script of a shell (without SHELL: of your login shell).

    \b
    bash (4.4 or newer)  eval "$(supervisor completion bash)"    in ~/.bashrc
    zsh                  eval "$(supervisor completion zsh)"     in ~/.zshrc
    fish                 supervisor completion fish > ~/.config/fish/completions/supervisor.fish

    Commands, options, agents, profiles and settings are completed.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from supervisor.cli.main import cli

    kind = get_completion_class(shell or _login_shell())
    assert kind is not None
    completer = kind(cli, {}, "supervisor", "_SUPERVISOR_COMPLETE")
    click.echo(ShellComplete.source(completer), nl=False)  # BashComplete's own would start a bash to ask its version


def _login_shell() -> str:
    """Raises UsageError: it is none that can be completed."""
    import os.path

    from supervisor.core.errors import UsageError
    from supervisor.core.text import one_line
    from supervisor.runtime.compose import from_environment

    name = os.path.basename(from_environment().env.get("SHELL", ""))
    if name not in SHELLS:
        shown = one_line(name, 40) or "not set"
        raise UsageError(f"your login shell ($SHELL) is {shown}", hint=f"Name one: {', '.join(SHELLS)}")
    return name
