"""Who is an orphan, and every fence before an adoption or a release, each on its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from supervisor.core.entry import Adopted, Closed, Entry, Grace, ParentRef, Resumable, Running, as_parent
from supervisor.core.liveness import Judgement, Verdict
from supervisor.core.orphans import adoption_fence, orphaned, release_fence
from supervisor.testing import make_entry, make_hand_off, make_ref, make_state

ALIVE = Judgement(Verdict.ALIVE, "beat 1s ago")
DEAD = Judgement(Verdict.DEAD_PID, "pid 300 is gone", True)
ABSENT = Judgement(Verdict.ABSENT, "closed, no process expected")
UNKNOWN = Judgement(Verdict.UNKNOWN, "another host, no heartbeat")
HUNG = Judgement(Verdict.STALE, "its keeper has not beaten for 9s")
GRACE = Grace(until=9, until_ns=9, evidence="lead: pid 300 is gone")


class Scene:
    """A dead lead, its orphan, and another lead that would adopt it."""

    def __init__(self) -> None:
        self.lead = make_entry("lead")
        self.orphan = make_entry("orphan", parent=as_parent(self.lead), generation=make_entry("o").generation)
        self.orphan = replace(self.orphan, state=Resumable(since=1, agent=self.orphan.agent, grace=GRACE))
        self.other = make_entry("other")
        self.verdicts = {"lead": DEAD, "orphan": ALIVE, "other": ALIVE}

    @property
    def entries(self) -> list[Entry]:
        return [self.lead, self.orphan, self.other]

    @property
    def judged(self) -> dict[str, Judgement]:
        return {e.entry_id: self.verdicts[e.name] for e in self.entries}

    def code(self) -> str | None:
        fence = adoption_fence(self.orphan, self.other, self.entries, self.judged)
        return fence.code if fence else None


def running(scene: Scene) -> None:
    scene.orphan = replace(scene.orphan, state=Running(since=1, ready_at=1))


def master(scene: Scene) -> None:
    scene.orphan = replace(scene.orphan, parent=None)


def ended(scene: Scene) -> None:
    scene.orphan = replace(scene.orphan, state=Closed(since=1, hand_off=make_hand_off()))
    scene.verdicts["orphan"] = ABSENT


def dead(scene: Scene) -> None:
    scene.verdicts["orphan"] = DEAD


def elsewhere(scene: Scene) -> None:
    scene.verdicts["orphan"] = UNKNOWN


def wanted_down(scene: Scene) -> None:
    scene.orphan = replace(scene.orphan, want="down")


def not_adopted(scene: Scene) -> None:
    scene.orphan = replace(scene.orphan, state=replace(make_state("winding_down"), reason="not_adopted"))


def marked(scene: Scene) -> None:
    scene.orphan = replace(scene.orphan, state=replace(make_state("winding_down"), reason="parent_lost"))


def starting(scene: Scene) -> None:
    scene.orphan = replace(scene.orphan, state=make_state("starting"))


def itself(scene: Scene) -> None:
    scene.other = scene.orphan


def descendant(scene: Scene) -> None:
    scene.other = replace(scene.other, parent=ParentRef(session_id="session-orphan"))


def parent_ended(scene: Scene) -> None:
    scene.other = replace(scene.other, state=Closed(since=1, hand_off=make_hand_off()))
    scene.verdicts["other"] = ABSENT


def parent_hung(scene: Scene) -> None:
    scene.verdicts["other"] = HUNG


def parent_elsewhere(scene: Scene) -> None:
    scene.verdicts["other"] = UNKNOWN


def parent_not_started(scene: Scene) -> None:
    scene.other = make_entry("other", status="starting")


def parent_wanted_down(scene: Scene) -> None:
    scene.other = replace(scene.other, want="down")


def claimed(scene: Scene) -> None:
    scene.orphan = replace(scene.orphan, state=Adopted(since=1, by_session="session-third", grace=GRACE))


def parent_lives(scene: Scene) -> None:
    running(scene)
    scene.verdicts["lead"] = ALIVE


def other_task(scene: Scene) -> None:
    scene.orphan = replace(scene.orphan, task_ref="two")


def nothing(scene: Scene) -> None:
    """An orphan in its grace, and a parent that lives."""


def parent_done(scene: Scene) -> None:
    running(scene)
    scene.lead = replace(scene.lead, state=Closed(since=1, hand_off=make_hand_off()))
    scene.verdicts["lead"] = ABSENT


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (nothing, None),
        (parent_done, None),
        (running, None),
        (master, "no_parent"),
        (ended, "not_alive"),
        (dead, "not_alive"),
        (elsewhere, "unknown"),
        (wanted_down, "ending"),
        (not_adopted, "ending"),
        (marked, "settling"),
        (starting, "settling"),
        (itself, "cycle"),
        (descendant, "cycle"),
        (parent_ended, "parent_not_alive"),
        (parent_hung, "parent_not_alive"),
        (parent_not_started, "parent_not_alive"),
        (parent_wanted_down, "parent_not_alive"),
        (parent_elsewhere, "unknown"),
        (claimed, "claimed"),
        (parent_lives, "has_parent"),
        (other_task, "task_mismatch"),
    ],
)
def test_each_fence_stops_an_adoption(change: Callable[[Scene], None], code: str | None) -> None:
    scene = Scene()
    change(scene)
    assert code == scene.code()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (nothing, None),
        (parent_lives, None),
        (parent_done, None),
        (starting, None),
        (marked, None),
        (claimed, None),
        (master, "no_parent"),
        (ended, "not_alive"),
        (elsewhere, "unknown"),
        (wanted_down, "ending"),
        (not_adopted, "ending"),
    ],
)
def test_each_fence_stops_a_release(change: Callable[[Scene], None], code: str | None) -> None:
    scene = Scene()
    change(scene)
    fence = release_fence(scene.orphan, scene.judged)
    assert code == (fence.code if fence else None)


@pytest.mark.parametrize(
    ("change", "evidence"),
    [
        (nothing, "lead: pid 300 is gone"),
        (running, "lead: pid 300 is gone"),
        (parent_done, "lead exited with 0"),
        (parent_lives, None),
        (master, None),
        (ended, None),
    ],
)
def test_an_orphan_is_told_with_the_evidence(change: Callable[[Scene], None], evidence: str | None) -> None:
    scene = Scene()
    change(scene)
    assert evidence == orphaned(scene.orphan, scene.entries, scene.judged)


def test_a_session_that_was_resumed_is_the_parent_whatever_it_was_before() -> None:
    scene = Scene()
    running(scene)
    again = make_entry("lead", entry_id="entry-again", generation=replace(scene.lead.generation, process=make_ref(9)))
    ended_lead = replace(scene.lead, state=Closed(since=1, hand_off=make_hand_off()), role="worker")
    judged = {**scene.judged, "entry-again": ALIVE}
    assert orphaned(scene.orphan, [ended_lead, again, scene.orphan], judged) is None
