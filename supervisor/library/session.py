"""A session as a program holds it: it asks, serves, and has children in the same process. Thread-safe."""

from __future__ import annotations

import atexit
import os
from types import TracebackType
from typing import Any

from supervisor.core.ask_reasons import Reason
from supervisor.core.asks import Decision, abandoned
from supervisor.core.entry import Entry, ParentRef
from supervisor.core.serving import Target
from supervisor.library import asking, records, registry
from supervisor.library.host import Host
from supervisor.library.serving import Decide
from supervisor.runtime.targets import resolve_target


class Session:
    """Made by `join` or `child`. `close` as often as it was joined ends it; so does the end of the program."""

    def __init__(self, host: Host, entry: Entry, *, parent: Session | None = None) -> None:
        self._host = host
        self._entry = entry
        self._parent = parent
        self._children: list[Session] = []
        self._holders = 1
        self._closed = False
        self._token: object | None = None
        if parent is None:
            atexit.register(self._at_exit)

    def __repr__(self) -> str:
        return f"<supervisor session {self.name} {self.id}>"

    @property
    def id(self) -> str:
        """The session id: what others ask, by `--to` or as their parent."""
        return self._entry.session_id

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._entry.name

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    def ask(self, tool: str, value: str, *, input: Any = None, timeout: float | None = None) -> Decision:
        """Ask the parent for permission to use `tool` on `value`; `timeout` in seconds.

        Whatever peers and the disk do ends in a decision; `unavailable` means that nobody has decided.
        """
        if self._is_over():
            return abandoned(asking.CLOSED)
        return asking.ask(
            self._host.context,
            session=self.id,
            name=self.name,
            find_target=self._target,
            tool=tool,
            value=value,
            tool_input=input,
            timeout_ms=max(int(timeout * 1000), 1) if timeout is not None else None,
            withdrawn=self._is_over,
        )

    def serve(self, decide: Decide | None) -> None:
        """Decide the asks of children by `decide(request)`, from now on; None serves by it no more.

        `True` allows, `False` or `(False, reason)` denies, `None` has no opinion. Each runs in a thread of its own.
        """
        if not self._is_over():
            self._host.decide_by(self.id, decide)

    def child(self, name: str) -> Session:
        """A child in this process: its asks come to this session.

        Raises:
            BadInput: the name is none. RuntimeError: this session is closed.
        """
        if self._is_over():
            raise RuntimeError(f"session {self.name} is closed, it can have no children")
        ref = ParentRef(session_id=self.id, process=self._host.keeper.process, pid=os.getpid())
        entry = records.build(self._host.context, name=records.child_name(name), keeper=self._host.keeper, parent=ref)
        made = Session(self._host, entry, parent=self)
        made._token = registry.add_child(made.id, self.id)
        self._children.append(made)
        self._host.add_child(entry)
        if self._parent is not None:
            self._host.look_again()  # a child that has children is asked itself from now on
        return made

    def close(self) -> None:
        """Leave: the marks go, and the record says how it ended. Once more than joined is harmless."""
        self._leave(None)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._leave(error)

    def hold(self) -> Session:
        """One more who joined it: it ends with the last of them."""
        self._holders += 1
        return self

    def _leave(self, error: BaseException | None) -> None:
        with registry.shared()["joining"]:
            self._holders -= 1
            if self._holders > 0 or self._closed:
                return
        self._end(error, exiting=False)

    def _at_exit(self) -> None:
        if not self._closed:
            self._end(None, exiting=True)

    def _end(self, error: BaseException | None, *, exiting: bool) -> None:
        self._closed = True
        if os.getpid() != self._host.pid:  # a fork's copy: the session is its parent's
            return
        for child in tuple(self._children):
            child._end(error, exiting=exiting)
        if self._parent is not None:
            if self._token is not None:
                registry.remove_child(self.id, self._token)
            if self in self._parent._children:
                self._parent._children.remove(self)
            self._host.remove_child(self.id)
            return
        atexit.unregister(self._at_exit)
        stopped = self._host.told_to_stop
        self._host.close(lambda now: records.hand_off(now=now, error=error, exiting=exiting, stopped=stopped))
        state = registry.shared()
        with state["joining"]:
            if state["joined"] is self:
                state["joined"] = None

    def _is_over(self) -> bool:
        return self._closed or os.getpid() != self._host.pid

    def _target(self) -> Target | Reason:
        if self._parent is not None:
            parent = registry.parent_of(self.id)
            return Target(parent, "registry") if parent is not None else asking.CLOSED
        context = self._host.context
        return resolve_target({**context.env, "SUPERVISOR_SESSION_ID": self.id}, context.places.home)
