"""Codex: `codex app-server`, JSON-RPC over JSON lines without a version field. Pure; verified on 0.171.0.

What its protocol lacks: a denial carries no text, so the reason goes after it as a message into the running turn; an
interrupt leaves the running command behind, so the thread's terminals are cleaned up after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from supervisor._version import VERSION
from supervisor.core.ask_words import denial
from supervisor.core.asks import Decision
from supervisor.core.text import one_line
from supervisor.drivers.codex_asks import change_ask, command_ask, text_of
from supervisor.drivers.codex_said import said
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
from supervisor.runtime.tool_use import PermissionAsk

Call = Literal["initialize", "thread", "turn", "interrupt", "steer", "clean"]


class Pending(NamedTuple):
    """One request of the server that waits for us: where it belongs, and what it was about."""

    id: Any
    thread: str
    turn: str
    about: str


class Codex:
    """A `Speaker` for one thread."""

    ends_on_eof = True

    def __init__(self, job: Job) -> None:
        self._job = job
        self._next = 0
        self._calls: dict[int, Call] = {}
        self._thread = ""
        self._turn = ""
        self._running = False
        self._interrupting = False
        self._pending: dict[str, Pending] = {}
        self._changes: dict[str, Any] = {}
        self._below: dict[str, str] = {}
        self._ended: TurnEnded | None = None
        self._warned: set[str] = set()

    # -- what the driver wants

    def command(self) -> Sequence[str]:
        """As the profile says; model and session go by the protocol."""
        return self._job.argv

    def open(self) -> Effects:
        """The handshake."""
        client = {"name": "supervisor", "title": "supervisor", "version": VERSION}
        return (self._call("initialize", "initialize", clientInfo=client, capabilities={"experimentalApi": True}),)

    def prompt(self, text: str) -> Effects:
        """`turn/start`."""
        self._turn, self._running, self._interrupting, self._ended = "", True, False, None
        self._changes.clear()
        return (self._call("turn", "turn/start", threadId=self._thread, input=_input(text)),)

    def answer(self, key: str, decision: Decision) -> Effects:
        """`accept` once, never for the session; else `decline`, and its reason into the turn."""
        pending = self._pending.pop(key, None)
        if pending is None:
            return ()
        if decision.approved is True:
            return (Send({"id": pending.id, "result": {"decision": "accept"}}),)
        return (*self._tell(pending, denial(decision)), Send({"id": pending.id, "result": {"decision": "decline"}}))

    def interrupt(self) -> Effects:
        """`turn/interrupt`, as soon as the turn has its id."""
        self._interrupting = True
        return self._interrupt_now() if self._turn else ()

    def close(self) -> Effects:
        """The end of its input is enough: it ends its tools."""
        return ()

    def garbled(self, why: str) -> Effects:
        """Its standard output is its protocol alone."""
        return (Broken(why),)

    def hear(self, message: Any) -> Effects:
        """A request, a notification, or a response."""
        method, call = message.get("method"), message.get("id")
        params = message.get("params")
        if isinstance(method, str):
            params = params if isinstance(params, dict) else {}
            return self._requested(call, method, params) if call is not None else self._notified(method, params)
        known = self._calls.pop(call, None) if isinstance(call, int) and not isinstance(call, bool) else None
        if known is None:
            return (Broken(f"it said what was not asked: {one_line(json.dumps(message))}"),)
        return self._replied(known, message)

    # -- replies

    def _replied(self, call: Call, message: Mapping[str, Any]) -> Effects:
        error, result = message.get("error"), message.get("result")
        if error is not None or not isinstance(result, dict):
            return self._failed(call, _message_of(error))
        if call == "initialize":
            return (Send({"method": "initialized"}), self._open_thread())
        if call == "thread":
            return self._opened(result.get("thread"))
        if call == "turn" and self._running and not self._turn:
            return self._began(result.get("turn"))
        return ()

    def _failed(self, call: Call, why: str) -> Effects:
        if call in ("steer", "clean", "interrupt"):  # the turn was over before: nothing to tell, nothing to end
            return ()
        if call == "turn":
            self._running = False
            return (TurnEnded("failed", why),)
        if "active writer" in why:
            why = f"session {self._job.resume} is in use by another codex, it takes one writer at a time ({why})"
        return (Broken(f"codex refused {'to resume' if self._job.resume else 'to start'}: {why}"),)

    def _open_thread(self) -> Send:
        # the reviewer is named, or a user's setting would have a model decide; so is the policy, for the same reason
        wanted: dict[str, Any] = {"cwd": self._job.cwd, "approvalPolicy": "on-request", "approvalsReviewer": "user"}
        # as a setting: for the parameter `sandbox` Codex notes in the user's config.toml that the folder is trusted
        config: dict[str, Any] = {"sandbox_mode": "workspace-write"}
        wanted |= {"config": config} | ({"model": self._job.model} if self._job.model else {})
        if self._job.paths:
            config["sandbox_workspace_write"] = {"writable_roots": list(self._job.paths)}
        if self._job.resume:
            return self._call("thread", "thread/resume", threadId=self._job.resume, **wanted)
        return self._call("thread", "thread/start", **wanted)

    def _opened(self, thread: Any) -> Effects:
        found = thread.get("id") if isinstance(thread, dict) else None
        if not isinstance(found, str) or not found:
            return (Broken("codex has not named its session"),)
        if self._job.resume and found != self._job.resume:
            return (Broken(f"codex answered with session {found} instead of {self._job.resume}"),)
        self._thread = found
        path = thread.get("path")
        return Proven(found, path if isinstance(path, str) else None), Ready()

    def _began(self, turn: Any) -> Effects:
        found = turn.get("id") if isinstance(turn, dict) else None
        if not isinstance(found, str):
            return (Broken("codex has not named its turn"),)
        self._turn = found
        return self._interrupt_now() if self._interrupting else ()

    def _interrupt_now(self) -> Effects:
        turns = [(thread, turn) for thread, turn in ((self._thread, self._turn), *self._below.items()) if turn]
        return [self._call("interrupt", "turn/interrupt", threadId=thread, turnId=turn) for thread, turn in turns]

    # -- requests

    def _requested(self, call: Any, method: str, params: Mapping[str, Any]) -> Effects:
        if method == "item/commandExecution/requestApproval":
            wanted = command_ask(params)
        elif method == "item/fileChange/requestApproval":
            wanted = change_ask(self._changes.get(text_of(params, "itemId")), params, cwd=self._job.cwd)
        else:
            why = f"refused: {one_line(method, 100)} is nothing that can be decided here"
            error = {"code": -32601, "message": "not decided: this client does not answer it"}
            return Say("note", why), Send({"id": call, "error": error})
        key = json.dumps(call)
        about = wanted.value if isinstance(wanted, PermissionAsk) else "what was asked for"
        self._pending[key] = Pending(call, text_of(params, "threadId"), text_of(params, "turnId"), one_line(about, 500))
        return (Ask(key, wanted),)

    def _tell(self, pending: Pending, why: str) -> Effects:
        if not pending.thread or not pending.turn:
            return ()
        text = f"Permission for {pending.about} was not given: {why}"
        return (
            self._call("steer", "turn/steer", threadId=pending.thread, expectedTurnId=pending.turn, input=_input(text)),
        )

    # -- notifications

    def _notified(self, method: str, params: Mapping[str, Any]) -> Effects:
        if method == "serverRequest/resolved":
            key = json.dumps(params.get("requestId"))
            return (Withdraw(key),) if self._pending.pop(key, None) else ()
        if method in ("item/started", "item/completed"):
            return self._item(method, params)
        if method in ("turn/started", "turn/completed", "thread/closed") and params.get("threadId") != self._thread:
            return self._below_moved(method, params)
        if method == "turn/completed":
            return self._completed(params.get("turn"))
        if method == "error":
            error = params.get("error")
            again = " (it tries again)" if params.get("willRetry") is True else ""
            return (Say("error" if not again else "note", _message_of(error) + again),)
        if method == "warning":
            return self._warning(one_line(text_of(params, "message"), 500))
        return ()

    def _warning(self, text: str) -> Effects:
        if text in self._warned:
            return ()
        self._warned.add(text)
        return (Say("note", text),)

    def _below_moved(self, method: str, params: Mapping[str, Any]) -> Effects:
        """A sub-session began or ended a turn: ours is over when theirs are."""
        thread, turn = text_of(params, "threadId"), params.get("turn")
        if method == "turn/started":
            self._below[thread] = text_of(turn, "id") if isinstance(turn, dict) else ""
            return ()
        self._below.pop(thread, None)
        return self._end_if_all_have()

    def _end_if_all_have(self) -> Effects:
        ended = self._ended
        if ended is None or (self._below and ended.how == "done"):
            return ()
        self._ended = None
        return (ended,)

    def _completed(self, turn: Any) -> Effects:
        if not self._running or not isinstance(turn, dict) or turn.get("id") != self._turn:
            return ()
        self._running = False
        status = turn.get("status")
        if status == "interrupted":
            threads = (self._thread, *self._below)
            cleaned = [self._call("clean", "thread/backgroundTerminals/clean", threadId=t) for t in threads]
            return *cleaned, TurnEnded("interrupted")
        self._ended = (
            TurnEnded("done") if status == "completed" else TurnEnded("failed", _message_of(turn.get("error")))
        )
        return self._end_if_all_have()

    def _item(self, method: str, params: Mapping[str, Any]) -> Effects:
        item = params.get("item")
        if not isinstance(item, dict):
            return ()
        if item.get("type") == "fileChange" and isinstance(item.get("id"), str):
            self._changes[item["id"]] = item.get("changes")
        if method == "item/completed" and item.get("tool") == "spawnAgent" and item.get("status") == "completed":
            for started in item.get("receiverThreadIds") or ():
                self._below.setdefault(str(started), "")
        told = said(item, completed=method == "item/completed")
        if told is None:
            return ()
        thread = params.get("threadId")
        return (told if thread == self._thread else told._replace(text=f"(sub-session {thread}) {told.text}"),)

    # -- words

    def _call(self, call: Call, method: str, **params: Any) -> Send:
        self._next += 1
        self._calls[self._next] = call
        return Send({"id": self._next, "method": method, "params": params})


def _input(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def _message_of(error: Any) -> str:
    found = error.get("message") if isinstance(error, dict) else None
    return found if isinstance(found, str) and found else "it gave no reason"
