"""The keeper of this very process: beats, looks after its entry, serves its sessions. One daemon thread, no user code.

Owns the entry (when it registered it), the heartbeat, the bell and the serving marks. Whoever joins an entry that has
a keeper of its own owns only the marks.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable

from msgspec.structs import replace

from supervisor.adapters.bells import drain
from supervisor.core.entry import Entry, HandOff, KeeperRef
from supervisor.core.errors import SupervisorError
from supervisor.core.liveness import Now
from supervisor.core.timing import HEARTBEAT_REFRESH_MS, KILL_WAIT_MS, MS, TICK_MS
from supervisor.library import registry
from supervisor.library.own_entry import OwnEntry
from supervisor.library.serving import Decide, Deciding
from supervisor.runtime.compose import Context
from supervisor.runtime.keeper import me


class Host:
    """`open` before anything else; `root` is the session that this process joined."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.pid = os.getpid()
        self._parts = context.parts
        self.keeper = KeeperRef(os.urandom(6).hex(), me(self._parts))
        self.answering = Deciding(self._parts, context.asks, self.keeper, wake=self.wake)
        self._children: dict[str, Entry] = {}
        self._marks: dict[str, object] = {}
        self._own: OwnEntry | None = None
        self._root: Entry | None = None
        self._beat_due = 0
        self._ending = False
        self._wanted = self._reached = 0
        self._turned = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="supervisor session", daemon=True)

    # -- from any thread

    def open(self, entry: Entry, *, register: bool) -> None:
        """Take an entry up. A heartbeat comes before the record that names it.

        Raises:
            OSError: the state root does not take it.
        """
        self._root = entry
        self._bell = self.context.bells.listen(self.keeper.keeper_id)
        try:
            if register:
                self._own = OwnEntry(self._parts, entry, self.keeper, last_rites=self._last_rites)
                self._own.register()
            else:
                self.answering.elsewhere = {entry.session_id: entry.plan.asks_mode}
        except BaseException:
            self._remove_files()
            raise
        self._thread.start()
        self.look_again()

    def add_child(self, entry: Entry) -> None:
        """An in-process child, which no other process can see: it is not on record."""
        with self._turned:
            self._children = {**self._children, entry.session_id: entry}

    def remove_child(self, session: str) -> None:
        """Its mark goes, and nobody else's."""
        self.answering.decides.pop(session, None)
        with self._turned:
            self._children = {s: e for s, e in self._children.items() if s != session}
        self.look_again()

    def decide_by(self, session: str, decide: Decide | None) -> None:
        """Serve a session by a program; its mark is up when this returns (unless the disk says no)."""
        if decide is None:
            self.answering.decides.pop(session, None)
        else:
            self.answering.decides[session] = decide
        self.look_again()
        if self._root is not None and session in self.answering.elsewhere:
            with contextlib.suppress(OSError):  # its keeper learns at once to whom it leaves what is open
                self._parts.bells.ring(self._root.keeper.keeper_id)

    def look_again(self) -> None:
        """Have the marks renewed now, and wait for it."""
        with self._turned:
            self._wanted += 1
            wanted = self._wanted
        self.wake()
        with self._turned:
            self._turned.wait_for(lambda: self._reached >= wanted or not self._thread.is_alive(), KILL_WAIT_MS / 1000)

    def wake(self) -> None:
        """Ring our own bell: harmless also when nobody listens any more."""
        with contextlib.suppress(OSError, SupervisorError):
            self._parts.bells.ring(self.keeper.keeper_id)

    @property
    def told_to_stop(self) -> bool:
        """Whether the entry is wanted down."""
        return self._own is not None and self._own.entry.want == "down"

    def close(self, end: Callable[[int], HandOff]) -> None:
        """End the thread, take down every mark, write the end."""
        self._ending = True
        self.wake()
        if self._thread is not threading.current_thread():
            self._thread.join(KILL_WAIT_MS / 1000)
        now = self._parts.now()
        for session, token in self._marks.items():
            registry.unmark_serving(session, token)
        self._marks.clear()
        with contextlib.suppress(OSError, SupervisorError):
            self.answering.close()
        if self._own is not None:
            self._own.close(end, now)
        self._remove_files()

    def _remove_files(self) -> None:
        if self._own is not None:
            self._own.remove_beat()
        with contextlib.suppress(OSError):
            self._parts.bells.remove(self.keeper.keeper_id)
        os.close(self._bell)

    def _last_rites(self) -> None:
        with contextlib.suppress(OSError, SupervisorError):
            self.answering.close()
            self._parts.bells.remove(self.keeper.keeper_id)

    # -- the thread

    def _run(self) -> None:
        while not self._ending:
            wanted, now = self._wanted, self._parts.now()
            if now.monotonic_ns >= self._beat_due or wanted != self._reached:
                self._beat_due = now.monotonic_ns + HEARTBEAT_REFRESH_MS * MS
                self._beat(now)
            until = self._turn(self._parts.now())
            if wanted != self._reached:
                with self._turned:
                    self._reached = wanted
                    self._turned.notify_all()
            self._sleep(until)

    def _beat(self, now: Now) -> None:
        """Before any work, and each part whatever became of the others: a full disk ends no heartbeat."""
        own = self._own
        if own is not None:
            with contextlib.suppress(OSError, SupervisorError):
                own.beat(now)
        with contextlib.suppress(OSError, SupervisorError):
            self.answering.beat(now, self._hosted())
        with contextlib.suppress(OSError, SupervisorError):
            self._mark_registry(now)
        if own is not None:
            with contextlib.suppress(OSError, SupervisorError):
                own.look_after(now)
            if own.lost:  # another keeper has taken it over: it asks persons and parents from now on
                own.remove_beat()
                self._root, self._own = own.entry, None
                self.answering.elsewhere = {own.entry.session_id: own.entry.plan.asks_mode}

    def _turn(self, now: Now) -> int:
        due = None
        with contextlib.suppress(OSError, SupervisorError):
            self.answering.take_outcomes(now)
            due = self.answering.turn(now)
        tick = now.monotonic_ns + TICK_MS * MS if self.answering.decides else self._beat_due
        return min(self._beat_due, tick, due if due is not None else tick)

    def _sleep(self, until: int) -> None:
        poll = select.poll()  # a program may hold more descriptors than `select` can tell apart
        poll.register(self._bell, select.POLLIN)
        if poll.poll(max(until - self._parts.clock.monotonic_ns(), 0) / MS):
            drain(self._bell)

    def _hosted(self) -> list[Entry]:
        """Our own entry, and the children that can be asked: by their own authority, or for children of theirs."""
        decides, root, children = self.answering.decides, self._root, self._children
        above = {e.parent.session_id for e in children.values() if e.parent}
        hosted = [e for e in children.values() if e.session_id in decides or e.session_id in above]
        if root is not None and (self._own is not None or root.session_id in decides):
            hosted.insert(0, self._own.entry if self._own is not None else root)
        return [_held(e) if e.session_id in decides else e for e in hosted]

    def _mark_registry(self, now: Now) -> None:
        """In-process children are told by the registry what others read from the heartbeat."""
        root = self._root
        served = {s for s in (*self._children, *([root.session_id] if root else ())) if self.answering.serves(s)}
        if root is not None and self._own is None and self.answering.served_elsewhere(root.session_id, now):
            served.add(root.session_id)
        for session in set(self._marks) - served:
            registry.unmark_serving(session, self._marks.pop(session))
        for session in served - set(self._marks):
            self._marks[session] = registry.mark_serving(session)


def _held(entry: Entry) -> Entry:
    """With an authority of its own a session serves, and keeps asks, whoever else is there."""
    return replace(entry, plan=replace(entry.plan, asks_mode="hold"))
