"""`supervisor guide`: what an agent needs to know to have children, short enough for a prompt."""

from __future__ import annotations

import click

TEXT = """\
# Launching other agents with supervisor

You can run other coding agents as your children. Each has its own process, session and transcript, and outlives
your tool call. Use the tools of the MCP server `supervisor` if you have them, else these commands in your
shell tool.

Launch (returns when the child is up; name, session, pid and transcript on standard output; --json for JSON):
  supervisor launch codex --name tests -- 'Run the tests and repair what fails. End with a summary.'
  supervisor launch claude --name docs --cwd /path/of/a/worktree --prompt-file task.md
  supervisor launch shell --name build -- make -j2
Which agents there are: supervisor profiles list
A child knows nothing of your conversation: say in the prompt what to do, where, how it knows that it is done, and what
to report. Children that write to the same files get in each other's way: give each its own folder with --cwd.

See how they are:
  supervisor tree                      who is alive, and who is whose child
  supervisor why tests                 what one is up to, and what to do about it
  supervisor logs tests -n 100         the end of its transcript

Wait for the end (the exit code is the child's own; several names wait for all of them):
  supervisor wait tests docs --timeout 600
A wait that is over with code 1 and "is still running" is no failure: look at it, then wait again.

Answer what a child may do. A child may ask you before it uses a tool that no rule allows; whoever launched you may
have kept that for a person.
  supervisor asks --json               what waits, with id, agent, tool and value
  supervisor answer ID deny --reason 'use the staging database'
  supervisor answer ID allow
You may answer what your own descendants ask, never your own asks, and allow only what you may do yourself. Read the
whole value before you allow it. What you may not decide is left to a person; say so and go on with something else.

Stop one, with everything that it started and, with --cascade, its own children:
  supervisor stop tests --cascade
Stop what you do not need any more. Nothing else ends your children: they go on when you end.

Keep how far you have come, for the day that you are resumed after a crash; it is told to you then:
  supervisor checkpoint --checkpoint 'parser done' --pointer file:///work/NOTES.md --summary 'printer is left'
A child that has ended goes on in its own session: supervisor resume tests --prompt 'now fix what fails'
What is yours and was lost in a crash: supervisor recover

When it does not work:
  code 1 with "tool sandbox"           your shell is in a sandbox that would take a child along: use the MCP tools
  code 3                               no agent of that name: supervisor ps --all
  code 5                               a fence: the word in brackets says why nothing was resumed or adopted
  code 6                               a limit against runaway spawning: stop what is done, do not work around it
Give your own asks their time: a person may be asked, and "not decided" means that nobody was there, not that you
were refused.
"""


@click.command("guide", epilog="Example: supervisor guide >> AGENTS.md")
def command() -> None:
    """Print a short guide for agents: how to launch, wait for, read and answer children. It fits into a prompt."""
    click.echo(TEXT, nl=False)
