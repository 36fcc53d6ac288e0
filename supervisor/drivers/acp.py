"""ACP, the Agent Client Protocol, as its client speaks it: JSON-RPC 2.0, one message a line. Pure.

Knows no vendor. What the protocol cannot say is said in the transcript: it carries no reason of a denial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from supervisor._version import VERSION
from supervisor.core.asks import Decision
from supervisor.core.errors import BadInput
from supervisor.core.ids import session_id
from supervisor.core.text import one_line
from supervisor.drivers.acp_asks import ToolCalls, choose
from supervisor.drivers.acp_words import Words
from supervisor.drivers.effects import Ask, Broken, Effect, Effects, Job, Proven, Ready, Say, Send, TurnEnded, Withdraw

PROTOCOL = 1
_NO_SUCH_METHOD = {"code": -32601, "message": "not supported"}
_CANCELLED = {"outcome": {"outcome": "cancelled"}}
_CLIENT = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
"""We offer the agent nothing: it reads, writes and runs by its own tools, and asks before."""

_US = {"name": "supervisor", "title": "supervisor", "version": VERSION}
_UNDONE = {
    "refusal": "the model refused to go on",
    "max_tokens": "the model's output was too long",
    "max_turn_requests": "the turn needed too many requests to the model",
}
_WITHDRAWN = ("$/cancel_request", "$/cancelRequest")

_ECHO = "_supervisor/echo"
"""A request of nobody's: its answer, whatever it is, comes after what was on its way before."""

Wanted = Literal["initialize", "session", "model", "echo", "prompt"]


class AcpSpeaker:
    """One conversation. `file_of` finds the file of a session, for CLIs that keep one we know of."""

    ends_on_eof = False

    def __init__(self, job: Job, *, file_of: Callable[[str], str | None] = lambda _session: None) -> None:
        self._job = job
        self._file_of = file_of
        self._calls = ToolCalls(job.cwd)
        self._words = Words()
        self._session: str | None = None
        self._last_id = 0
        self._wanted: dict[int, Wanted] = {}
        self._asks: dict[str, tuple[int | str, list[Any]]] = {}
        self._asked = 0
        self._is_told_again = False

    def command(self) -> Sequence[str]:
        """As it was given."""
        return self._job.argv

    def open(self) -> Effects:
        """Say hello."""
        hello = {"protocolVersion": PROTOCOL, "clientCapabilities": _CLIENT, "clientInfo": _US}
        return (self._call("initialize", "initialize", hello),)

    def hear(self, message: Any) -> Effects:
        """A response, a request or a notification."""
        method, number = message.get("method"), message.get("id")
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if method is None:
            return self._answered(number, message)
        if method == "session/request_permission" and _is_id(number):
            return self._permission(number, params)
        if method == "session/update":
            return self._update(params)
        if method in _WITHDRAWN:
            return self._withdrawn(params.get("requestId", params.get("id")))
        if _is_id(number):  # it waits for an answer, whatever it is
            return (Send(_response(number, error=_NO_SUCH_METHOD)),)
        return ()

    def garbled(self, why: str) -> Effects:
        """What was lost may have been an ask: nobody can tell."""
        return (Broken(why),)

    def prompt(self, text: str) -> Effects:
        """Begin a turn."""
        content = [{"type": "text", "text": text}]
        return (self._call("session/prompt", "prompt", {"sessionId": self._session, "prompt": content}),)

    def answer(self, key: str, decision: Decision) -> Effects:
        """By the option of the wanted kind; an outcome is always well formed, or some agents wait for ever."""
        found = self._asks.pop(key, None)
        if found is None:
            return ()
        number, options = found
        allowed = decision.approved is True
        option = choose(options, "allow_once" if allowed else "reject_once")
        if option is not None:
            return (Send(_response(number, {"outcome": {"outcome": "selected", "optionId": option}})),)
        refusal = Send(_response(number, _CANCELLED))
        return (refusal, Say("error", "it offers no way to allow this once: denied")) if allowed else (refusal,)

    def interrupt(self) -> Effects:
        """End the turn; open asks first, as the protocol wants it."""
        return (*self._cancel_asks(), *self._cancel_turn())

    def close(self) -> Effects:
        """The same, for good."""
        return self.interrupt() if "prompt" in self._wanted.values() else self._cancel_asks()

    # -- responses

    def _answered(self, number: Any, message: dict[str, Any]) -> Effects:
        wanted = self._wanted.pop(number, None) if _is_id(number) else None
        if wanted is None:
            return ()
        error = message.get("error")
        why = None if error is None else _error(error)
        result = message.get("result")
        result = result if isinstance(result, dict) else {}
        if wanted == "prompt":
            return (*self._words.flush(), *self._cancel_asks(), _turn_end(result, why))
        if wanted == "model":
            return self._with_model(why)
        if wanted == "echo":
            return (Ready(),)
        if why is not None:
            return (Broken(f"{'it cannot be spoken to' if wanted == 'initialize' else self._no_session()}: {why}"),)
        return self._opened(result) if wanted == "initialize" else self._in_session(result)

    def _no_session(self) -> str:
        return f"session {self._job.resume} cannot be loaded" if self._job.resume else "it gives no session"

    def _opened(self, result: dict[str, Any]) -> Effects:
        if result.get("protocolVersion") != PROTOCOL:
            return (Broken(f"it speaks version {result.get('protocolVersion')!r} of ACP, not {PROTOCOL}"),)
        where = {"cwd": self._job.cwd, "mcpServers": _servers(self._job.mcp)}
        if self._job.resume is None:
            return (self._call("session/new", "session", where),)
        can = result.get("agentCapabilities")
        can = can if isinstance(can, dict) else {}
        named = can.get("sessionCapabilities")
        if isinstance(named, dict) and isinstance(named.get("resume"), dict):
            how = "session/resume"
        elif can.get("loadSession") is True:
            how, self._is_told_again = "session/load", True
        else:
            return (Broken("it cannot go on with an earlier session"),)
        return (self._call(how, "session", {"sessionId": self._job.resume, **where}),)

    def _in_session(self, result: dict[str, Any]) -> Effects:
        named = result.get("sessionId", self._job.resume)
        try:
            session = session_id(named if isinstance(named, str) else "")
        except BadInput as error:
            return (Broken(f"it names no session: {error}"),)
        if self._job.resume not in (None, session):
            return (Broken(f"it has gone to session {session}, not to {self._job.resume}"),)
        self._session = session
        proven: list[Effect] = [Proven(session, self._file_of(session)), *_mode(result)]
        if self._job.model is None:
            return (*proven, self._ready())
        return (*proven, self._call("session/set_model", "model", {"sessionId": session, "modelId": self._job.model}))

    def _with_model(self, why: str | None) -> Effects:
        return (self._ready(),) if why is None else (Broken(f"it does not take the model {self._job.model}: {why}"),)

    def _ready(self) -> Effect:
        """A loaded session is told again, from its beginning, after the answer to the load."""
        return self._call(_ECHO, "echo", {}) if self._is_told_again else Ready()

    # -- asks

    def _permission(self, number: int | str, params: dict[str, Any]) -> Effects:
        for key, (other, _) in list(self._asks.items()):
            if other == number:  # one answer for two asks: it must be no
                del self._asks[key]
                return (Withdraw(key), Send(_response(number, _CANCELLED)))
        self._asked += 1
        key = f"acp-{self._asked}"
        options = params.get("options")
        self._asks[key] = number, options if isinstance(options, list) else []
        return (*self._words.flush(), Ask(key, self._calls.wanted(params)))

    def _withdrawn(self, number: Any) -> Effects:
        for key, (other, _) in list(self._asks.items()):
            if _is_id(number) and other == number:
                del self._asks[key]
                return (Withdraw(key), Send(_response(number, _CANCELLED)))
        return ()

    def _cancel_asks(self) -> Effects:
        asks, self._asks = self._asks, {}
        return tuple(
            effect
            for key, (number, _) in asks.items()
            for effect in (Withdraw(key), Send(_response(number, _CANCELLED)))
        )

    # -- turns

    def _cancel_turn(self) -> Effects:
        if "prompt" not in self._wanted.values():
            return ()
        return (Send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._session}}),)

    def _update(self, params: dict[str, Any]) -> Effects:
        update = params.get("update")
        if not isinstance(update, dict):
            return ()
        said = self._calls.update(update)
        if "prompt" not in self._wanted.values():  # said before, in an earlier turn
            return ()
        if update.get("sessionUpdate") == "agent_message_chunk":
            content = update.get("content")
            return self._words.add(content.get("text") if isinstance(content, dict) else None)
        return (*self._words.flush(), *said) if said else ()

    def _call(self, method: str, wanted: Wanted, params: Any) -> Send:
        self._last_id += 1
        self._wanted[self._last_id] = wanted
        return Send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})


def _response(number: int | str, result: Any = None, *, error: Any = None) -> dict[str, Any]:
    body = {"result": result} if error is None else {"error": error}
    return {"jsonrpc": "2.0", "id": number, **body}


def _is_id(number: Any) -> bool:
    return isinstance(number, int | str) and not isinstance(number, bool)


def _error(error: Any) -> str:
    """What went wrong, with the detail that some agents hide below `data`."""
    if not isinstance(error, dict):
        return "it failed without a reason"
    data = error.get("data")
    detail = data.get("details") if isinstance(data, dict) else None
    parts = [part for part in (error.get("message"), detail) if isinstance(part, str) and part.strip()]
    return one_line(": ".join(parts), 2000) or "it failed without a reason"


def _turn_end(result: dict[str, Any], why: str | None) -> TurnEnded:
    if why is not None:
        return TurnEnded("failed", why)
    reason = result.get("stopReason")
    if reason == "end_turn":
        return TurnEnded("done")
    if reason == "cancelled":
        return TurnEnded("interrupted")
    return TurnEnded("failed", _UNDONE.get(str(reason), f"it stopped for the reason {one_line(str(reason))!r}"))


def _mode(result: dict[str, Any]) -> Effects:
    """A mode that is not the usual one may let tools run unasked: worth a line."""
    modes = result.get("modes")
    current = modes.get("currentModeId") if isinstance(modes, dict) else None
    return (Say("note", f"mode {one_line(current)}"),) if isinstance(current, str) and current != "default" else ()


def _servers(command: Sequence[str]) -> list[dict[str, Any]]:
    """Our MCP server, in the form of the protocol; none without a command."""
    return [{"name": "supervisor", "command": command[0], "args": list(command[1:]), "env": []}] if command else []
