"""The doctor's looking: gathers `Facts` for `checks`, and sweeps what dead processes have left. Never signals an agent.

What is swept is only what nobody can need: temp files whose writer is dead, heartbeats and bells of dead keepers.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from supervisor.adapters import machine, tmux
from supervisor.adapters.atomic_file import writer_of_temp
from supervisor.adapters.beat_files import BeatFiles
from supervisor.adapters.exit_watch import SystemExitWatch
from supervisor.adapters.places import Places
from supervisor.adapters.process_table import system_process_table
from supervisor.adapters.profile_files import Found
from supervisor.adapters.signals import SystemSignals
from supervisor.adapters.spawn import SystemSpawner
from supervisor.core.entry import Entry, is_live
from supervisor.core.errors import SupervisorError
from supervisor.core.identity import Gone, ProcessKey
from supervisor.core.liveness import Beat, Now, beat_age_ms, process_alive
from supervisor.core.ports import ExitWatch, ProcessTable, Signals, Spawner
from supervisor.core.profile import LaunchProfile, field_of
from supervisor.core.timing import HEARTBEAT_STALE_MS
from supervisor.runtime.compose import Context
from supervisor.runtime.findings import Facts, Problem, ProfileFacts, Swept
from supervisor.runtime.versions import probe

TEMP_AGE_MS = 60_000
"""A temp file lives for milliseconds. A writer in another pid namespace looks dead from here, this spares it."""


class _Tools(Struct, frozen=True):
    """What the kernel is tried with: needs no state root."""

    processes: ProcessTable
    spawner: Spawner
    exit_watch: ExitWatch
    signals: Signals


class _Records(Struct, frozen=True, kw_only=True):
    newest_start_ms: int | None = None
    corrupt: tuple[tuple[str, str], ...] = ()
    without_keeper: tuple[str, ...] = ()
    swept: tuple[Swept, ...] = ()


def look(context: Context) -> Facts:
    """Look at everything; what is broken becomes a fact.

    Raises:
        BadState: there is no place for a state root at all.
    """
    places = context.places
    problem = _problem_of(places.exists)
    home = machine.folder(places.home)
    usable = not problem and home.kind == "folder"
    table = system_process_table("")
    tools = _Tools(table, SystemSpawner(table), SystemExitWatch(table), SystemSignals(table))
    run_folder = machine.folder(places.run)
    records = _records(context) if usable else _Records()
    return Facts(
        uid=os.geteuid(),
        home=home,
        home_problem=problem,
        home_writable=machine.writable(places.home),
        space=machine.space(places.home),
        folders=tuple(machine.folder(p) for p in _folders(places)) if usable else (),
        run=run_folder,
        run_target=machine.folder(os.path.realpath(places.run)) if run_folder.kind else None,
        run_space=machine.space(os.path.realpath(places.run)) if run_folder.kind else None,
        host_id=_host_id(places.home),
        wall_ms=context.clock.wall_ms(),
        monotonic_ns=context.clock.monotonic_ns(),
        newest_start_ms=records.newest_start_ms,
        kernel=machine.kernel(tools),
        tmux=tmux.available(context.env),
        python=platform.python_version(),
        executable=context.python,
        supervisord=machine.supervisord_beside(os.path.dirname(os.path.dirname(__file__))),
        owners=tuple(machine.owners_of("supervisor")),
        corrupt=records.corrupt,
        swept=records.swept,
        without_keeper=records.without_keeper,
        settings_problem=_problem_of(context.settings.values),
        tasks_problem=_problem_of(context.tasks.all) if usable else None,
        profiles=look_at_profiles(context, context.profiles.all()),
    )


def look_at_profiles(context: Context, found: Sequence[Found]) -> tuple[ProfileFacts, ...]:
    """Each profile with its programs and versions; the probes run side by side."""
    if not found:
        return ()
    with ThreadPoolExecutor(max_workers=8) as pool:
        return tuple(pool.map(lambda one: _look_at_profile(context, one), found))


def _look_at_profile(context: Context, found: Found) -> ProfileFacts:
    facts = ProfileFacts(name=found.name, origin=found.origin, path=found.path, trusted=found.trusted)
    try:
        profile = context.profiles.read(found)
    except SupervisorError as error:
        return replace(facts, problem=str(error))
    programs = tuple((name, machine.find_program(name, context.env)) for name in _programs(profile))
    facts = replace(facts, programs=programs, tested=profile.tested_versions)
    if not found.trusted or facts.missing or not profile.probe:
        return facts  # a project's own command is never run before it is trusted
    version, problem = probe(context, profile)
    return replace(facts, version=version, probe_error=problem)


def _programs(profile: LaunchProfile) -> Sequence[str]:
    """What must be on PATH: `needs`, and the first word of each command, a driver's too (a `{field}` is none)."""
    driven = profile.driver.command[:1] if profile.driver else ()
    first = [t for t in (*profile.argv.base[:1], *driven) if field_of(t) is None]
    return tuple(dict.fromkeys((*profile.needs, *first)))


def _problem_of(look: Callable[[], object]) -> Problem | None:
    try:
        look()
    except SupervisorError as error:
        return Problem(error.message, error.hint)
    except OSError as error:
        return Problem(f"{error.filename or ''}: {error.strerror or error}".removeprefix(": "))
    return None


def _folders(places: Places) -> Sequence[str]:
    """What is in the state root and in its run directory, as far as it is folders (or leads to one)."""
    found = [*_within(places.home), *_within(places.run)]
    return [path for path in found if path != places.run]


def _within(path: str) -> Sequence[str]:
    try:
        return sorted(item.path for item in os.scandir(path) if item.is_dir())
    except OSError:
        return ()


def _host_id(home: str) -> str | None:
    try:
        with open(os.path.join(home, "host-id"), encoding="utf-8", errors="replace") as file:
            return file.read(128)
    except OSError:
        return None


def _records(context: Context) -> _Records:
    """Read every record (which sets corrupt ones aside), judge it, and sweep."""
    try:
        entries = context.store.list()
        here = context.processes.machine()
    except (OSError, SupervisorError):
        return _Records()
    now = Now(here, context.clock.wall_ms(), context.clock.monotonic_ns())  # not Parts.now(): bad settings forbid Parts
    starts = [e.started_at for e in entries if e.keeper.process.machine.host_id == here.host_id]
    lost = [e.name for e in entries if is_live(e) and _keeper_gone(context, e, now)]
    return _Records(
        newest_start_ms=max(starts, default=None),
        corrupt=_corrupt(context),
        without_keeper=tuple(sorted(lost)),
        swept=(*_sweep_temps(context), *_sweep_keepers(context, entries, now)),
    )


def _keeper_gone(context: Context, entry: Entry, now: Now) -> bool:
    keeper = entry.keeper.process
    return process_alive(keeper, context.processes.probe(keeper.key.pid), now) is False


def _corrupt(context: Context) -> tuple[tuple[str, str], ...]:
    """What cannot be read: files set aside now or earlier, and those left in place (a newer version's)."""
    reasons = dict(context.store.corrupt)
    now = context.clock.wall_ms()
    aside = [f.path for f in machine.files(context.places.matrix, now_ms=now) if f.name.endswith(".corrupt")]
    out = [(p, reasons.pop(p.removesuffix(".corrupt"), "set aside earlier")) for p in aside]
    return tuple(sorted([*out, *reasons.items()]))


def _sweep_temps(context: Context) -> Sequence[Swept]:
    places, now = context.places, context.clock.wall_ms()
    swept = []
    for folder in (places.home, *_folders(places)):
        for file in machine.files(folder, now_ms=now):
            writer = writer_of_temp(file.name)
            if writer is None or file.age_ms < TEMP_AGE_MS:
                continue
            if isinstance(context.processes.probe(writer), Gone):
                swept.append(Swept("temp file", file.path, machine.remove(file.path)))
    return swept


def _sweep_keepers(context: Context, entries: Sequence[Entry], now: Now) -> Sequence[Swept]:
    """Heartbeats and bells that no live record names and whose keeper is dead."""
    needed = {e.keeper.keeper_id for e in entries if is_live(e)}
    beats = BeatFiles(context.places.heartbeats)
    swept = []
    for file in machine.files(context.places.heartbeats, now_ms=now.wall_ms):
        keeper = unquote(file.name.removesuffix(".json"))
        if keeper == file.name or keeper in needed:
            continue
        beat = beats.read(keeper)
        if beat is not None and _keeper_dead(context, beat, now):
            swept.append(Swept("heartbeat", file.path, machine.remove(file.path)))
    for file in machine.files(context.places.bells, now_ms=now.wall_ms):
        keeper = unquote(file.name)
        if keeper in needed or file.age_ms < TEMP_AGE_MS or beats.read(keeper) is not None:
            continue
        with contextlib.suppress(OSError):
            if not context.bells.ring(keeper):
                swept.append(Swept("bell", file.path, machine.remove(file.path)))
    return swept


def _keeper_dead(context: Context, beat: Beat, now: Now) -> bool:
    """Certainly dead: of this host, and of an earlier boot, or silent with its pid gone or another's."""
    if beat.host_id != now.machine.host_id:
        return False
    if beat.boot_id != now.machine.boot_id:
        return True
    age = beat_age_ms(beat, now)
    if age is None or age < HEARTBEAT_STALE_MS:
        return False  # it may beat from another pid namespace
    seen = context.processes.probe(beat.pid)
    return isinstance(seen, Gone) or (isinstance(seen, ProcessKey) and seen.start_ticks != beat.start_ticks)
