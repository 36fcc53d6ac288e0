"""The commands of the simulated machine: the real use cases, in processes that are run step by step.

Owns what stands between them and the machine: the lock of names, the fork of a keeper, the news that it tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from supervisor.core.ending import describe
from supervisor.core.entry import Entry, HandOff, as_parent, is_live
from supervisor.core.errors import Fenced, SupervisorError
from supervisor.core.fences import Fence
from supervisor.core.identity import ProcessKey
from supervisor.core.leases import owner_of_words
from supervisor.core.spawn_limits import SpawnLimits
from supervisor.runtime.activation import Activated
from supervisor.runtime.adopting import adopt, release
from supervisor.runtime.agent_request import Request, ResumeRequest
from supervisor.runtime.attaching import attach_all
from supervisor.runtime.compose import Context
from supervisor.runtime.delivering import deliver
from supervisor.runtime.intents import Draft, start_all
from supervisor.runtime.kept_agent import Report
from supervisor.runtime.recovering import Event, Recovery, recover_own
from supervisor.runtime.scan import alive, carry_out, plan, scan
from supervisor.runtime.starting import Choose, Started, drafts_of
from tests.property.actors import Actor
from tests.property.machines import SimKeeper, World


class _Profiles:
    @staticmethod
    def known() -> tuple[Any, ...]:
        return ()


class _Tasks:
    @staticmethod
    def all() -> tuple[Any, ...]:
        return ()


def context_of(world: World, process: ProcessKey, parts: Any = None) -> Context:
    """What the use cases need of a context."""
    parts = parts or world.parts_of(process)
    return cast(
        Context,
        SimpleNamespace(
            parts=parts,
            store=parts.store,
            clock=world.clock,
            processes=world.processes,
            profiles=_Profiles,
            tasks=_Tasks,
            env={},
            places=SimpleNamespace(prompts=world.folder, home=parts.home),
            spawn_limits=SpawnLimits(max_depth=8, max_children=16, max_agents=64),
        ),
    )


class Command:
    """One process of ours: what all commands have in common. `deliver` is how it tells of an end."""

    deliver = staticmethod(deliver)

    def __init__(self, world: World, process: ProcessKey) -> None:
        self.world = world
        self.process = process
        self.context = context_of(world, process)
        self.parts = self.context.parts

    def wait(self, _seconds: float = 0) -> None:
        """The others go on."""
        self.world.port(self.process)

    def activate(self, _context: Context | None = None) -> Activated:
        """As `runtime.activation`: look once, repair what is dead, give those without a keeper a new one."""
        seen = scan(self.parts)
        done = carry_out(self.parts, plan(self.parts, seen))
        if not done.attach:
            return Activated(scan(self.parts) if done.changed else seen, done.changed, ())
        entries = [a.entry for a in done.attach]

        def fill(keeper: SimKeeper, report: Report) -> None:
            attach_all(context_of(self.world, keeper.process, keeper.parts), entries, keeper.keeper, report)

        keeper = self.world.fork_keeper(fill)
        while keeper.alive and not keeper.filled:
            self.wait()
        return Activated(scan(self.parts), done.changed, done.attach)

    def start(
        self,
        _context: Context,
        choose: Choose,
        *,
        until: str,
        tell: Callable[[Draft, str], None],
        refused: Callable[[ResumeRequest, SupervisorError], None] | None = None,
    ) -> tuple[Activated, list[Started]]:
        """As `runtime.starting`: drafts under the lock of names, intents by a forked keeper, then its news."""
        with self.world.names.held(self.process, self.wait):
            activated = self.activate()
            drafts = self.drafts(choose(activated), activated, refused)
            if not drafts:
                return activated, []
            keeper = self.sow(drafts)
        return activated, self._results(keeper, drafts, tell)

    def drafts(self, requests: Sequence[Request], activated: Activated, refused: Any) -> list[Draft]:
        return drafts_of(self.context, requests, activated, refused)

    def sow(self, drafts: Sequence[Draft]) -> SimKeeper:
        def fill(keeper: SimKeeper, report: Report) -> None:
            start_all(context_of(self.world, keeper.process, keeper.parts), drafts, keeper.keeper, report)

        return self.world.fork_keeper(fill, holding=self.world.names)

    def _results(self, keeper: SimKeeper, drafts: list[Draft], tell: Callable[[Draft, str], None]) -> list[Started]:
        by_key = {d.entry.key: d for d in drafts}
        heard: dict[str, set[str]] = {key: set() for key in by_key}
        while True:
            for key, what in keeper.news:
                if key in by_key and what not in heard[key]:
                    heard[key].add(what)
                    tell(by_key[key], what)
            if not keeper.alive or all(h & {"ready", "ended", "lost"} for h in heard.values()):
                break
            self.wait()
        return [self._result(d, heard[d.entry.key]) for d in drafts]

    def _result(self, draft: Draft, heard: set[str]) -> Started:
        entry = self.context.store.read(draft.entry.key) or draft.entry
        if "lost" in heard:
            return Started(entry, False, "lost")
        if "ready" in heard:
            return Started(entry, True)
        return Started(entry, False, "keeper_lost" if is_live(entry) else "ended")

    def say(self, event: Event) -> None:
        """On its terminal, unless it is killed before."""
        self.wait()
        if event.event == "handed_off":
            self.world.told.add((event.name, event.why))


Use = Callable[[Command], None]


def launch(intent: Entry) -> Use:
    """`launch`: its intent written by a new keeper, under the lock of names."""

    def run(command: Command) -> None:
        with command.world.names.held(command.process, command.wait):
            seen = command.activate().seen
            if any(e.entry_id == intent.entry_id for e in seen.entries):
                return
            if owner_of_words(intent.plan.argv, seen.entries, lambda e: alive(command.parts, e)) is not None:
                return
            command.sow([Draft(intent, {}, None)])

    return run


def resume(key: str, *, by: str | None = None) -> Use:
    """`resume --detach`, and then what is its own comes back with it."""

    def choose(command: Command, activated: Activated) -> list[ResumeRequest]:
        entry = next((e for e in activated.seen.entries if e.key == key), None)
        parent = next((e for e in activated.seen.entries if e.key == by and is_live(e)), None)
        if entry is None:
            return []
        above = as_parent(parent) if parent else None
        return [ResumeRequest(entry_id=entry.entry_id, name=entry.name, cwd="/", parent=above)]

    def run(command: Command) -> None:
        context = command.context
        try:
            _, results = command.start(
                context, lambda a: choose(command, a), until="ready", tell=lambda _draft, _what: None
            )
        except SupervisorError:
            return
        for started in results:
            if started.reached:
                recover_own(context, started.entry, command.say, look=command.activate, start=command.start)

    return run


def recover(key: str, *, heard: bool = True) -> Use:
    """`recover --as SESSION --yes-exact-only`; unheard as beside an agent that has the terminal."""

    def run(command: Command) -> None:
        activated = command.activate()
        active = next((e for e in activated.seen.entries if e.key == key), None)
        tell = command.say if heard else None
        recovery = Recovery(command.context, active, tell, start=command.start)
        try:
            recovery.run(activated)
        except Fenced:
            return
        for entry in recovery.resumed:
            recover_own(command.context, entry, tell, look=command.activate, start=command.start)

    return run


def adopting(child: str, parent: str, outcome: list[Entry | Fence]) -> Use:
    """`adopt ID --as SESSION`."""

    def run(command: Command) -> None:
        orphan, above = command.context.store.read(child), command.context.store.read(parent)
        if orphan is not None and above is not None:
            outcome.append(adopt(command.parts, orphan, above, wait_s=command.wait))

    return run


def releasing(child: str) -> Use:
    """`release ID`."""

    def run(command: Command) -> None:
        worker = command.context.store.read(child)
        if worker is not None:
            release(command.parts, worker)

    return run


def waiting_for(child: str) -> Use:
    """Somebody looks how one has ended, and says so."""

    def run(command: Command) -> None:
        def tell(entry: Entry, end: HandOff) -> None:
            command.wait()
            command.world.told.add((entry.name, describe(end)))

        entry = command.context.store.read(child)
        if entry is not None and not is_live(entry):
            command.deliver(command.context.store, entry, tell, now=command.world.clock.wall_ms())

    return run


def reconciling(command: Command) -> None:
    """`reconcile`."""
    command.activate()


def begin(world: World, name: str, use: Use, *, kind: type[Command] = Command) -> Actor:
    """A command begins: nothing of it has happened yet."""
    return world.act(name, lambda process: use(kind(world, process)))
