"""How a keeper learns of the ends of agents that are not its children: watched, else polled. Owns those watches.

Decides nothing about the end; asks the kernel for its status until it tells, or has had time enough.
"""

from __future__ import annotations

from supervisor.core.identity import Gone, ProcessKey, same_process
from supervisor.core.ports import Exit
from supervisor.runtime.kept_agent import KeptAgent
from supervisor.runtime.parts import Parts, Watches

_STATUS_TRIES = 8
"""Ticks that a re-attached agent's end may take until its parent has reaped it and the kernel tells the status."""


class AgentExits:
    """The watches of one keeper's attached agents."""

    def __init__(self, parts: Parts, watches: Watches) -> None:
        self._parts = parts
        self._watches = watches
        self._fds: dict[int, KeptAgent] = {}
        self._polled: dict[str, tuple[KeptAgent, ProcessKey]] = {}
        self._asked: dict[str, int] = {}

    @property
    def polls(self) -> bool:
        """Whether some end can only be learned by looking at every tick."""
        return bool(self._polled)

    def watch(self, agent: KeptAgent) -> None:
        """From now on its end is learned."""
        key = agent.leader
        if key is None:
            return
        fd = self._parts.exit_watch.watch(key)
        if fd is None:
            self._polled[agent.entry.key] = (agent, key)
        else:
            self._fds[fd] = agent
            self._watches.watch(fd)

    def heard(self, fd: int) -> bool:
        """A descriptor is readable: False when it is none of these."""
        agent = self._fds.get(fd)
        if agent is None:
            return False
        self._end(agent, fd)
        return True

    def poll(self) -> None:
        """Look at those that cannot be watched."""
        for agent, key in tuple(self._polled.values()):
            seen = self._parts.processes.probe(key.pid)
            if isinstance(seen, Gone) or (isinstance(seen, ProcessKey) and not same_process(key, seen)):
                self._end(agent, None)

    def forget(self, agent: KeptAgent) -> None:
        """Its end is known, or it is another's now."""
        self._polled.pop(agent.entry.key, None)
        self._asked.pop(agent.entry.key, None)
        for fd in [f for f, a in self._fds.items() if a is agent]:
            self._watches.forget(fd)
            del self._fds[fd]
        ref = agent.entry.generation.process
        if ref:
            self._parts.exit_watch.forget(ref.key)

    def _end(self, agent: KeptAgent, fd: int | None) -> None:
        """Its status if the kernel tells it, after some tries unknown."""
        key = agent.leader
        if key is None:
            return
        status = self._parts.exit_watch.status(key)
        tries = self._asked.get(agent.entry.key, 0)
        if status is None and fd is not None and tries < _STATUS_TRIES:
            self._asked[agent.entry.key] = tries + 1
            self._watches.forget(fd)  # it stays readable: come back at a tick, not at once
            self._fds.pop(fd, None)
            self._polled[agent.entry.key] = (agent, key)
            return
        if status is None and fd is None and 0 < tries < _STATUS_TRIES:
            self._asked[agent.entry.key] = tries + 1
            return
        agent.ended(status or Exit())
        self.forget(agent)
