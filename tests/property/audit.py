"""What is true of every write on the simulated machine, however it comes about. Reads what is told and who lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from supervisor.core.ending import describe
from supervisor.core.entry import Closed, Entry, Resumable, is_live, unconfirmed
from supervisor.core.identity import ProcessKey
from supervisor.core.timing import ENDED_RETENTION_MS, RESUMABLE_RETENTION_MS
from supervisor.core.transitions import MOVES

if TYPE_CHECKING:
    from tests.property.machines import World


class Audit:
    """What is true of every write, however it comes about."""

    def __init__(self, world: World) -> None:
        self._world = world

    def wrote(self, base: Entry | None, before: Entry, after: Entry, writer: ProcessKey) -> None:
        """`base` is what was on disk, `before` what the writer knew."""
        name = before.name
        assert base is not None, f"a record of {name} came back that had been removed"
        assert base.revision == before.revision, f"{name}: a write over a newer record"
        assert before.status == after.status or after.status in MOVES[before.status], f"{name}: {after.status}"
        assert before.agent.agent_id == after.agent.agent_id, f"{name} is another agent now"
        assert not isinstance(after.state, Resumable) or after.state.agent == after.agent, f"{name}: two identities"
        self._by_its_keeper(before, after, writer)
        self._end_is_kept(before, after)
        self._taken_back(before, after)
        self._in_one_session(before, after)

    def _by_its_keeper(self, before: Entry, after: Entry, writer: ProcessKey) -> None:
        keeper = next((k for k in self._world.keepers if k.process == writer), None)
        claims = after.keeper != before.keeper
        if keeper is not None:
            assert after.keeper == keeper.ref, f"{before.name}: a write by {keeper.ref.keeper_id}, which lost it"
        if claims:
            old = before.keeper.process.key
            assert not is_live(before) or not self._world.processes.alive(old), f"{before.name} is taken from a keeper"
        elif before.generation.nonce != after.generation.nonce:
            assert keeper is not None, f"{before.name}: a new generation by somebody who does not keep it"

    def _end_is_kept(self, before: Entry, after: Entry) -> None:
        end = before.hand_off
        if end is None or before.parent is None or is_live(before):
            return
        if unconfirmed(after) is not None:
            return  # it comes back, see below, or the agent does
        assert after.hand_off is not None, f"the end of {before.name} is lost"
        assert replace(after.hand_off, delivered_at=end.delivered_at) == end, f"the end of {before.name} is another"
        if end.delivered_at is None and after.hand_off.delivered_at is not None:
            assert (before.name, describe(end)) in self._world.told, f"the end of {before.name} was told to nobody"

    def _taken_back(self, before: Entry, after: Entry) -> None:
        claim = unconfirmed(before)
        state = after.state
        if claim is None or not isinstance(state, Closed | Resumable) or state.failed_resume is None:
            return
        assert replace(state, failed_resume=None) == claim.state, f"{before.name} is not as it was"
        assert (after.parent, after.agent) == (claim.parent, before.agent), f"{before.name} is not as it was"

    def _in_one_session(self, before: Entry, after: Entry) -> None:
        """Of a claim: nobody may be in that session while it is on record."""
        if is_live(before) or unconfirmed(after) is None:
            return
        others = [k for k, s in self._world.sessions().items() if s == after.generation.resumes]
        assert not others, f"{after.name} is resumed in a session that is in use"

    def removed(self, entry: Entry) -> None:
        """Nothing is removed before its time, by the latest that the clock has ever shown: a plan may be older."""
        state = entry.state
        assert isinstance(state, Closed | Resumable) and not is_live(entry), f"{entry.name} is removed, and lives"
        told = entry.hand_off is not None and entry.hand_off.delivered_at is not None
        kept = ENDED_RETENTION_MS if told and isinstance(state, Closed) else RESUMABLE_RETENTION_MS
        assert self._world.latest_ms() - state.since > kept, f"{entry.name} is removed too early"
