"""opencode's server as its client speaks it: HTTP requests out, replies and events in. Pure.

The server is ours alone, so every ask it has is an ask of our agent, also one of a subagent's session. Events can be
lost with a connection: what counts is asked for again at each connect and at each heartbeat of the server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from supervisor.core.ask_words import undecided
from supervisor.core.asks import Decision
from supervisor.core.errors import BadInput
from supervisor.core.ids import session_id
from supervisor.core.text import one_line
from supervisor.drivers.effects import Ask, Broken, Effects, Job, Proven, Ready, Send, TurnEnded, Withdraw
from supervisor.drivers.opencode_asks import ask_id, rejection, reply
from supervisor.drivers.opencode_said import Said
from supervisor.runtime.opencode_ask import wanted

IDLE_LOOKS = 2
"""Looks (10 s apart) that find a turn idle whose beginning was never seen, until it counts as over."""

ANSWERED_KEPT = 1024
"""Asks that are remembered as answered: a list that was made before must not ask for them again."""

_OVER = rejection(undecided("the turn is over"))
_NO_MODEL = "{!r} names no model of opencode: PROVIDER/MODEL"


class Request(NamedTuple):
    """An HTTP request; its `tag` comes back with the reply."""

    tag: str
    method: Literal["GET", "POST"]
    path: str
    body: Any = None


class Reply(NamedTuple):
    """What came of a request: a status and a body (None: no JSON), or a problem with the connection."""

    tag: str
    status: int
    body: Any = None
    problem: str = ""


class Connected(NamedTuple):
    """Events come from now on; also after a lost connection."""


class Lost(NamedTuple):
    """There is no way to get events any more."""

    why: str


class OpencodeSpeaker:
    """One session on a server of its own."""

    ends_on_eof = None

    def __init__(self, job: Job) -> None:
        self._job = job
        self._session: str | None = None
        self._said = Said()
        self._open: dict[str, None] = {}
        self._answered: deque[str] = deque(maxlen=ANSWERED_KEPT)
        self._turn: Literal["none", "sent", "accepted", "busy"] = "none"
        self._interrupted = False
        self._error: str | None = None
        self._aborted = False
        self._idle_looks = 0
        self._handlers: Mapping[str, Callable[[Reply], Effects]] = {
            "create": self._in_session,
            "look": self._found,
            "prompt": self._prompted,
            "permissions": self._listed,
            "status": self._looked,
            "abort": self._ended_turn,
            "answer": self._told,
            "question": lambda _reply: (),
        }

    def command(self) -> Sequence[str]:
        """As it was given."""
        return self._job.argv

    def open(self) -> Effects:
        """Nothing can be said before it listens."""
        return () if self._model() is not None or not self._job.model else (Broken(_NO_MODEL.format(self._job.model)),)

    def hear(self, message: Any) -> Effects:
        """A reply or an event."""
        match message:
            case Connected():
                return (*self._begin(), *self._look_again())
            case Lost(why):
                return (Broken(f"the connection to opencode was lost: {why}"),)
            case Reply(tag):
                return self._handlers[tag.partition(" ")[0]](message)
            case {"type": str(kind), "properties": dict(about)}:
                return self._event(kind, about)
        return ()

    def garbled(self, why: str) -> Effects:
        """It cannot be trusted."""
        return (Broken(why),)

    def prompt(self, text: str) -> Effects:
        """Begin a turn."""
        self._turn, self._interrupted, self._error, self._aborted, self._idle_looks = "sent", False, None, False, 0
        body: dict[str, Any] = {"parts": [{"type": "text", "text": text}]}
        if (model := self._model()) is not None:
            body["model"] = {"providerID": model[0], "modelID": model[1]}
        return (Send(Request("prompt", "POST", f"/session/{self._session}/prompt_async", body)),)

    def answer(self, key: str, decision: Decision) -> Effects:
        """Once, or no."""
        if key not in self._open:
            return ()
        return (self._reply_to(key, reply(decision)),)

    def interrupt(self) -> Effects:
        """The turn ends, but its asks stay on the server's list: they are rejected when it has ended."""
        self._interrupted = True
        withdrawn = tuple(Withdraw(key) for key in self._open)
        return (*withdrawn, Send(Request("abort", "POST", f"/session/{self._session}/abort", {})))

    def close(self) -> Effects:
        """The server ends with us, and its asks with it."""
        return ()

    # -- the session

    def _begin(self) -> Effects:
        if self._session is not None:
            return ()
        if self._job.resume is None:
            return (Send(Request("create", "POST", "/session", {})),)
        if ask_id(self._job.resume) is None:
            return (Broken(f"opencode has no session {self._job.resume}"),)
        return (Send(Request("look", "GET", f"/session/{self._job.resume}")),)

    def _found(self, found: Reply) -> Effects:
        if found.status == 404:
            return (Broken(f"opencode has no session {self._job.resume}"),)
        if found.status == 200 and isinstance(found.body, dict):
            where = found.body.get("directory")
            if where != self._job.cwd:
                return (Broken(f"session {self._job.resume} was begun in {one_line(str(where))}, not here"),)
            if found.body.get("id") != self._job.resume:
                return (Broken(f"opencode has found session {one_line(str(found.body.get('id')))}"),)
        return self._in_session(found)

    def _in_session(self, made: Reply) -> Effects:
        named = made.body.get("id") if made.status == 200 and isinstance(made.body, dict) else None
        if ask_id(named) is None:
            return (Broken(f"opencode gives no session: {_why(made)}"),)
        try:
            self._session = session_id(str(named))
        except BadInput as error:
            return (Broken(f"opencode gives no session: {error}"),)
        return (Proven(self._session), Ready())

    def _model(self) -> tuple[str, str] | None:
        provider, slash, model = (self._job.model or "").partition("/")
        return (provider, model) if provider and slash and model else None

    # -- events

    def _event(self, kind: str, about: Mapping[str, Any]) -> Effects:
        if kind == "permission.asked":
            return self._asked(about)
        if kind == "permission.replied":
            return self._replied(about.get("requestID"), about.get("reply"))
        if kind == "question.asked" and (name := ask_id(about.get("id"))):  # nobody is there to be asked
            return (Send(Request("question", "POST", f"/question/{name}/reject", {})),)
        if kind == "server.heartbeat":
            return self._look_again()
        if kind == "message.part.updated":
            return self._said.part(about.get("part"), own=about.get("sessionID") == self._session)
        if about.get("sessionID") != self._session or self._session is None:
            return ()
        if kind == "session.error":
            return self._failed(about.get("error"))
        if kind == "session.status":
            status = about.get("status")
            return self._busy() if isinstance(status, dict) and status.get("type") != "idle" else ()
        return self._turn_over() if kind == "session.idle" and self._turn == "busy" else ()

    def _busy(self) -> Effects:
        self._idle_looks = 0
        if self._turn != "none":
            self._turn = "busy"
        return ()

    def _failed(self, error: Any) -> Effects:
        if isinstance(error, dict) and error.get("name") == "MessageAbortedError":
            self._aborted = True
            return ()
        data = error.get("data") if isinstance(error, dict) else None
        message = data.get("message") if isinstance(data, dict) else None
        self._error = one_line(str(message or (error.get("name") if isinstance(error, dict) else error)), 2000)
        return ()

    def _turn_over(self) -> Effects:
        """Asks that it leaves are rejected: nobody waits for them any more."""
        self._turn = "none"
        left = tuple(effect for key in list(self._open) for effect in (Withdraw(key), self._reply_to(key, _OVER)))
        if self._interrupted or self._aborted:
            return (*left, TurnEnded("interrupted"))
        return (*left, TurnEnded("failed", self._error) if self._error else TurnEnded("done"))

    def _prompted(self, came: Reply) -> Effects:
        if came.status in (200, 204):
            if self._turn == "sent":
                self._turn = "accepted"
            return ()
        self._turn = "none"
        return (TurnEnded("failed", f"opencode did not take the prompt: {_why(came)}"),)

    def _ended_turn(self, came: Reply) -> Effects:
        """What it has left is rejected, also what we have not heard of."""
        if came.status != 200:
            return (Broken(f"opencode did not end the turn: {_why(came)}"),)
        left = list(self._open) if self._interrupted else []
        listing = Send(Request("permissions", "GET", "/permission"))
        return (*(self._reply_to(key, _OVER) for key in left), listing)

    # -- what an event might have told

    def _look_again(self) -> Effects:
        looks = [Send(Request("permissions", "GET", "/permission"))]
        if self._turn != "none":
            looks.append(Send(Request("status", "GET", "/session/status")))
        return looks

    def _listed(self, came: Reply) -> Effects:
        """One that did not come is asked for again at the next heartbeat; one that cannot be read may hold an ask."""
        if came.status != 200:
            return ()
        if not isinstance(came.body, list) or not all(isinstance(ask, dict) for ask in came.body):
            return (Broken("opencode's list of permission requests cannot be read"),)
        return tuple(effect for ask in came.body for effect in self._asked(ask))

    def _looked(self, came: Reply) -> Effects:
        """An answer of idle to a turn that was just begun may be older than its beginning."""
        if came.status != 200 or not isinstance(came.body, dict) or self._turn in ("none", "sent"):
            return ()
        status = came.body.get(self._session or "")
        if isinstance(status, dict) and status.get("type") != "idle":
            return self._busy()
        self._idle_looks += 1
        return self._turn_over() if self._idle_looks >= IDLE_LOOKS else ()

    # -- asks

    def _asked(self, ask: Mapping[str, Any]) -> Effects:
        key = ask_id(ask.get("id"))
        if key is None:
            return (Broken("opencode asks under an id that cannot be answered"),)
        if key in self._open or key in self._answered:
            return ()
        self._open[key] = None
        if self._interrupted:
            return (self._reply_to(key, _OVER),)
        return (Ask(key, wanted(ask, cwd=self._job.cwd)),)

    def _replied(self, key: Any, reply: Any) -> Effects:
        """Rejecting one ask of a session makes opencode reject its others.

        A yes that is not ours is the agent's own: a tool of its has the password in its environment.
        """
        if not isinstance(key, str) or key not in self._open:
            return ()
        self._forget(key)
        if reply == "reject":
            return (Withdraw(key),)
        return (Withdraw(key), Broken("a permission request was allowed by somebody else, past those who decide"))

    def _reply_to(self, key: str, body: Mapping[str, str]) -> Send:
        self._forget(key)
        return Send(Request(f"answer {key}", "POST", f"/permission/{key}/reply", body))

    def _forget(self, key: str) -> None:
        self._open.pop(key, None)
        self._answered.append(key)

    def _told(self, came: Reply) -> Effects:
        """404: it was gone already. Else nobody knows what it will do: better an end."""
        if came.status in (200, 404):
            return ()
        return (Broken(f"opencode did not take an answer: {_why(came)}"),)


def _why(came: Reply) -> str:
    if came.problem:
        return came.problem
    data = came.body.get("data") if isinstance(came.body, dict) else None
    message = data.get("message") if isinstance(data, dict) else None
    return one_line(f"status {came.status}" + (f": {message}" if message else ""), 2000)
