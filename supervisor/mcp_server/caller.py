"""The agent that this server belongs to, by its environment and the process table, and how it calls `supervisor`.

Owns nothing; every act is a command of its own process. A server with an event loop never forks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from supervisor.adapters.commands import Ran, run_command
from supervisor.adapters.process_table import system_process_table
from supervisor.core.entry import Entry
from supervisor.core.ports import ProcessTable
from supervisor.core.text import printable
from supervisor.runtime.agent_answers import calling_agent
from supervisor.runtime.compose import Context
from supervisor.runtime.deciding import Desk

COMMAND_S = 120.0
"""A command that does not wait by itself ends in much less."""

HOME = "SUPERVISOR_HOME"


class Caller:
    """Looks itself up anew at each call: it may have been adopted, enrolled or resumed meanwhile."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def entry(self) -> Entry | None:
        """The agent on record, None when nobody launched or enrolled it."""
        if not self._context.places.exists():
            return None
        return calling_agent(self._context, self._context.store.list())

    def asks_waiting(self, session: str) -> set[str]:
        """The ids of the asks that wait in a session's inbox."""
        return {p.request.id for p in Desk(self._context.parts, self._context.asks).pending([session])}

    async def json(self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Any:
        """What a command prints as JSON.

        Raises:
            ToolError: it was refused or failed, with its own words.
        """
        ran = await self.run(words[0], "--json", *words[1:], stdin=stdin, env=env)
        told = _parsed(ran)
        if ran.code != 0 or told is None:
            raise ToolError(complaint(ran, told))
        return told

    async def run(
        self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, timeout_s: float = COMMAND_S
    ) -> Ran:
        """Run `supervisor WORDS` to its end.

        Raises:
            ToolError: it did not end in time, or could not be started.
        """
        context = self._context
        try:
            return await run_command(
                context.self_argv(*words),
                env={**(env or {}), **context.env},
                cwd=context.cwd or "/",
                stdin=stdin,
                timeout_s=timeout_s,
            )
        except TimeoutError:
            raise ToolError(f"supervisor {words[0]} did not end within {timeout_s:g} s") from None
        except OSError as error:
            raise ToolError(f"supervisor cannot be run: {error.strerror}") from None

    def agents_environment(self, entry: Entry | None) -> Mapping[str, str]:
        """What the agent was started with: a CLI keeps part of it from its servers, and a child needs it."""
        process = entry.generation.process if entry else None
        return self._context.processes.environment(process.key.pid) if process else {}


def _parsed(ran: Ran) -> Any:
    try:
        return json.loads(ran.out)
    except ValueError:
        return None


def complaint(ran: Ran, told: Any = None) -> str:
    """What a command said went wrong, with the end of an agent's output where it gave one. Harmless, bounded."""
    lines = ran.err.decode(errors="replace").splitlines()
    text = "\n".join(line.removeprefix("supervisor: ") for line in lines) or f"it ended with code {ran.code}"
    output = told.get("output") if isinstance(told, dict) else None
    if isinstance(output, str) and output:
        text += f"\nThe end of its output:\n{output}"
    return printable(text)[:8000]


def with_home(env: Mapping[str, str], *, pid: int, processes: ProcessTable | None = None) -> dict[str, str]:
    """The environment with the state root of the agent above us, where its CLI did not hand the variable on."""
    processes = processes or system_process_table("")
    at: int | None = pid
    while HOME not in env and at is not None and (at := processes.parent_of(at)) is not None:
        found = processes.environment(at).get(HOME)
        if found:
            return {**env, HOME: found}
    return dict(env)


def own_row(entry: Entry | None, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The caller's own row."""
    return next((r for r in rows if entry is not None and r["entryId"] == entry.entry_id), None)
