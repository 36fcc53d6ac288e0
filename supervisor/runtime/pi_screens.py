"""A pi of ours with a screen is an inbox of its own session: what waits there for a person is shown by pi as well.

Owns the copies that it has put into pi's folder. Whoever answers first, in pi or elsewhere, has answered. Never blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from supervisor.adapters.ask_files import AskFiles
from supervisor.core.ask_wire import Request, Response, encode_request, parse_response, uses_of
from supervisor.core.entry import Entry
from supervisor.core.liveness import Now
from supervisor.core.timing import MS, TICK_MS
from supervisor.runtime.ask_facts import AskParts
from supervisor.runtime.deciding import Desk, Pending, Remember
from supervisor.runtime.logs import warn
from supervisor.runtime.parts import Parts
from supervisor.runtime.pi_marks import has_screen

WHO = "the person before pi"


class Screen(Struct):
    """One pi session: its folder, what is shown there, and what was taken back while pi may still show it."""

    entry: Entry
    files: AskFiles
    shown: dict[str, Request] = {}
    taken_back: set[str] = set()


class PiScreens:
    """`beat` knows the sessions, `turn` shows what waits in them and takes in what was answered there."""

    def __init__(self, parts: Parts, asks: AskParts) -> None:
        self._desk = Desk(parts, asks)
        self._screens: dict[str, Screen] = {}

    def beat(self, entries: Iterable[Entry]) -> None:
        """Once a second."""
        live = {e.entry_id: e for e in entries if has_screen(e)}
        for gone in set(self._screens) - set(live):
            self._end(self._screens.pop(gone))
        for entry_id, entry in live.items():
            screen = self._screens.get(entry_id)
            if screen is None:
                screen = self._screens[entry_id] = Screen(entry, AskFiles(entry.plan.asks_folder or ""))
            screen.entry = entry
            for ask_id in tuple(screen.taken_back):  # pi answers a dialog that has lost its ask, and leaves the answer
                screen.files.remove_response(entry.session_id, ask_id)

    def turn(self, waiting: Mapping[str, Mapping[str, Request]], now: Now) -> int | None:
        """`waiting`: by session what waits for a person. When (monotonic ns) to look again while pi shows any."""
        for screen in self._screens.values():
            here = waiting.get(screen.entry.session_id, {})
            for ask_id in tuple(screen.shown):
                self._look(screen, ask_id, still=ask_id in here)
            for ask_id in here.keys() - screen.shown.keys() - screen.taken_back:
                self._show(screen, here[ask_id])
        return now.monotonic_ns + TICK_MS * MS if any(s.shown for s in self._screens.values()) else None

    def close(self) -> None:
        """A clean end: nothing of ours stays in pi's folders."""
        for screen in self._screens.values():
            self._end(screen)
        self._screens.clear()

    def _show(self, screen: Screen, request: Request) -> None:
        session = screen.entry.session_id
        try:
            data = encode_request(request._replace(target=session))
            screen.files.write_request(session, request.id, data, responses=False)
        except OSError as error:
            warn("an ask could not be shown by pi, inboxes have it", ask=request.id, why=str(error))
            screen.taken_back.add(request.id)
            return
        screen.shown[request.id] = request

    def _look(self, screen: Screen, ask_id: str, *, still: bool) -> None:
        """What pi's person has answered; or it was answered elsewhere, withdrawn or has expired."""
        session = screen.entry.session_id
        data = screen.files.read_response(session, ask_id)
        if data is None and still:
            return
        request = screen.shown.pop(ask_id)
        screen.taken_back.add(ask_id)
        screen.files.remove_request(session, ask_id)
        screen.files.remove_response(session, ask_id)
        response = parse_response(data) if data is not None and still else None
        if isinstance(response, Response):
            self._answer(session, request, response)

    def _answer(self, session: str, request: Request, response: Response) -> None:
        pending = Pending(session, request, 0, None, False)
        lasting = response.approved and response.state == "approved_for_session" and uses_of(request) is not None
        remember: Remember | None = "child" if lasting else None
        try:
            self._desk.answer(pending, approved=response.approved, reason=response.reason, remember=remember, who=WHO)
        except OSError as error:
            warn("pi's answer could not be written, inboxes have the ask", ask=request.id, why=str(error))

    def _end(self, screen: Screen) -> None:
        session = screen.entry.session_id
        for ask_id in (*screen.shown, *screen.taken_back):
            screen.files.remove_request(session, ask_id)
            screen.files.remove_response(session, ask_id)
