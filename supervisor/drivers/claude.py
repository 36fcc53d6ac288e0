"""Claude Code: `claude -p` with JSON lines on standard input and output, its stdio control protocol. Pure.

Verified on 2.1.332. Before the first prompt it is asked for its session (`get_status`), so that a resume is confirmed
before a turn. What a hook or rule in its own settings decides is never asked here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.core.ask_words import denial
from supervisor.core.asks import Decision
from supervisor.core.text import one_line
from supervisor.drivers.claude_said import said
from supervisor.drivers.effects import (
    Ask,
    Broken,
    Effects,
    Job,
    Proven,
    Ready,
    Say,
    Send,
    TurnEnded,
    Withdraw,
)
from supervisor.runtime.tool_use import tool_use

HELLO, STATUS, STOP = "supervisor-hello", "supervisor-status", "supervisor-interrupt"
"""Ids of our own requests."""


class Claude:
    """A `Speaker` for one session."""

    ends_on_eof = False  # amid a tool it goes on

    def __init__(self, job: Job) -> None:
        self._job = job
        self._wanted = job.resume or job.session
        self._cwd = job.cwd
        self._running = False
        self._agents_below = self._waits_for_agents = False
        self._pending: set[str] = set()

    # -- what the driver wants

    def command(self) -> Sequence[str]:
        """Its own options stand first, so that none of the caller's can swallow them."""
        job = self._job
        chosen = ("--resume", job.resume) if job.resume else ("--session-id", job.session) if job.session else ()
        model = ("--model", job.model) if job.model else ()
        paths = [word for path in job.paths for word in ("--add-dir", path)]
        return (job.argv[0], *chosen, *model, *paths, *job.argv[1:])

    def open(self) -> Effects:
        """An unknown session ends it before it answers."""
        return (_request(HELLO, "initialize"),)

    def prompt(self, text: str) -> Effects:
        """A user's message."""
        self._running, self._waits_for_agents = True, False
        return (Send({"type": "user", "message": {"role": "user", "content": text}}),)

    def answer(self, key: str, decision: Decision) -> Effects:
        """`allow` as it was asked, without a changed input or a remembered rule; else `deny` with the reason."""
        if key not in self._pending:
            return ()
        self._pending.discard(key)
        if decision.approved is True:
            return (_response(key, {"behavior": "allow"}),)
        return (_response(key, {"behavior": "deny", "message": denial(decision)}),)

    def interrupt(self) -> Effects:
        """Its tools are ended, its asks withdrawn."""
        return (_request(STOP, "interrupt"),)

    def close(self) -> Effects:
        """Nothing to say."""
        return ()

    def garbled(self, why: str) -> Effects:
        """Its standard output is its protocol alone."""
        return (Broken(why),)

    def hear(self, message: Any) -> Effects:
        """One line."""
        kind = message.get("type")
        if kind == "control_request":
            return self._requested(message)
        if kind == "control_cancel_request":
            return self._cancelled(message.get("request_id"))
        if kind == "control_response":
            return self._replied(message.get("response"))
        if kind == "result":
            return self._result(message)
        if kind == "system":
            return self._system(message)
        return said(message) if kind in ("assistant", "user") else ()

    # -- its session

    def _replied(self, response: Any) -> Effects:
        if not isinstance(response, dict):
            return (Broken("claude has answered something that is no response"),)
        call, worked = response.get("request_id"), response.get("subtype") == "success"
        if call == HELLO:
            if not worked:
                return (Broken(f"claude does not take requests: {one_line(str(response.get('error')), 300)}"),)
            return (_request(STATUS, "get_status"),)
        if call == STATUS:  # other versions may not know it: then the first message of the turn is the proof
            session = _session_in(response.get("response")) if worked else None
            return (*(self._in_session(session) if session else ()), Ready())
        if call == STOP and self._waits_for_agents:  # the model's own turn was over before: no result will come
            return self._turn_over(TurnEnded("interrupted"))
        return ()

    def _in_session(self, session: Any) -> Effects:
        if not isinstance(session, str) or not session:
            return (Broken("claude has not named its session"),)
        if self._wanted and session != self._wanted:
            return (Broken(f"claude is in session {session} instead of {self._wanted}"),)
        self._wanted = None  # from now on it may be told to change it, by /clear for one
        return (Proven(session),)

    # -- asks

    def _requested(self, message: Mapping[str, Any]) -> Effects:
        call, request = message.get("request_id"), message.get("request")
        if not isinstance(call, str) or not isinstance(request, dict):
            return (Broken(f"claude has asked something without an id: {one_line(json.dumps(message))}"),)
        if request.get("subtype") != "can_use_tool":
            what = one_line(str(request.get("subtype")), 100)
            error = {"subtype": "error", "request_id": call, "error": f"{what} is not answered by this client"}
            return Say("note", f"refused: {what}"), Send({"type": "control_response", "response": error})
        self._pending.add(call)
        return (Ask(call, tool_use(request.get("tool_name"), request.get("input"), self._cwd)),)

    def _cancelled(self, call: Any) -> Effects:
        if not isinstance(call, str) or call not in self._pending:
            return ()
        self._pending.discard(call)
        return (Withdraw(call),)

    # -- turns

    def _system(self, message: Mapping[str, Any]) -> Effects:
        subtype = message.get("subtype")
        if subtype == "init":
            self._waits_for_agents = False
            cwd = message.get("cwd")
            self._cwd = cwd if isinstance(cwd, str) else self._cwd
            return self._in_session(message.get("session_id"))
        if subtype == "background_tasks_changed":
            tasks = message.get("tasks")
            kinds = [t.get("task_type") for t in tasks if isinstance(t, dict)] if isinstance(tasks, list) else []
            self._agents_below = "local_agent" in kinds  # a shell in the background is not waited for
        return ()

    def _result(self, message: Mapping[str, Any]) -> Effects:
        """The end of a turn, unless sub-agents go on: when they are done another turn begins by itself."""
        if not self._running:
            errors = message.get("errors")
            why = errors[0] if isinstance(errors, list) and errors else message.get("subtype")
            return (Broken(f"claude gave up: {one_line(str(why), 500)}"),) if message.get("is_error") else ()
        done = message.get("subtype") == "success" and message.get("is_error") is False
        if done and self._agents_below:
            self._waits_for_agents = True
            return ()
        if done:
            return self._turn_over(TurnEnded("done"))
        if message.get("terminal_reason") in ("aborted_tools", "aborted_streaming"):
            return self._turn_over(TurnEnded("interrupted"))
        return self._turn_over(TurnEnded("failed", _why(message)))

    def _turn_over(self, ended: TurnEnded) -> Effects:
        self._running = self._waits_for_agents = False
        return (ended,)


def _request(call: str, subtype: str) -> Send:
    return Send({"type": "control_request", "request_id": call, "request": {"subtype": subtype}})


def _response(call: str, response: Mapping[str, Any]) -> Send:
    body = {"subtype": "success", "request_id": call, "response": response}
    return Send({"type": "control_response", "response": body})


def _session_in(status: Any) -> str | None:
    """The value of the row `Session ID` in what `get_status` gives for people to read."""
    sections = status.get("sections") if isinstance(status, dict) else None
    for section in sections if isinstance(sections, list) else ():
        rows = section.get("rows") if isinstance(section, dict) else None
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and row.get("label") == "Session ID" and isinstance(row.get("value"), str):
                return str(row["value"])
    return None


def _why(message: Mapping[str, Any]) -> str:
    errors, result = message.get("errors"), message.get("result")
    if isinstance(result, str) and result:
        return one_line(result, 500)
    if isinstance(errors, list) and errors:
        return one_line(str(errors[0]), 500)
    return str(message.get("subtype"))
