"""A forest of arbitrary parents, cycles among them: everybody is in it once, whatever the order on disk."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.entry import Entry, ParentRef
from supervisor.core.tree import ancestors, children_first, forest, walk
from supervisor.testing import make_entry

SIZE = 8


@st.composite
def matrices(draw: st.DrawFn) -> list[Entry]:
    count = draw(st.integers(0, SIZE))
    out = []
    for n in range(count):
        parent = draw(st.none() | st.integers(0, SIZE))  # SIZE itself is nobody on record
        out.append(
            make_entry(
                f"n{n}",
                status=draw(st.sampled_from(["running", "closed"])),
                parent=ParentRef(session_id=f"session-n{parent}") if parent is not None else None,
                started_at=draw(st.integers(0, 3)),
            )
        )
    return out


@given(matrices())
def test_everybody_is_in_the_forest_once(matrix: list[Entry]) -> None:
    assert sorted(e.entry_id for e in matrix) == sorted(n.entry.entry_id for _, n in walk(forest(matrix)))


@given(matrices(), st.randoms(use_true_random=False))
def test_the_order_on_disk_does_not_matter(matrix: list[Entry], random: object) -> None:
    shuffled = list(matrix)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    drawn = [[(d, n.entry.entry_id) for d, n in walk(forest(m))] for m in (matrix, shuffled)]
    assert drawn[0] == drawn[1]


@given(matrices())
def test_children_are_stopped_before_their_parents(matrix: list[Entry]) -> None:
    for root in forest(matrix):
        order = [e.entry_id for e in children_first(root)]
        for _, node in walk([root]):
            below = [order.index(c.entry.entry_id) for c in node.children]
            assert all(i < order.index(node.entry.entry_id) for i in below)


@given(matrices())
def test_ancestors_end(matrix: list[Entry]) -> None:
    for entry in matrix:
        found = [e.entry_id for e in ancestors(entry, matrix)]
        assert (sorted(set(found)), False) == (sorted(found), entry.entry_id in found)
