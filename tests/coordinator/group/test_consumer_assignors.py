"""The server-side assignors: who gets what, and how little moves."""

from __future__ import annotations

from time import perf_counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordinator.group.consumer.assignors import Assignment, MemberSpec, assign_ranges, assign_uniformly
from tidelog.model import TopicId

A, B, C = (UUID(int=number) for number in (1, 2, 3))
Members = dict[str, MemberSpec]


def members_of(*topics: TopicId, names: str) -> Members:
    return {name: MemberSpec(None, frozenset(topics), {}) for name in names}


def went_on(members: Members, assigned: dict[str, Assignment]) -> Members:
    return {name: spec._replace(former=assigned[name]) for name, spec in members.items() if name in assigned}


def owners(assigned: dict[str, Assignment]) -> dict[tuple[TopicId, int], str]:
    found: dict[tuple[TopicId, int], str] = {}
    for name, topics in assigned.items():
        for topic_id, partitions in topics.items():
            assert partitions, "an empty set is no part of an assignment"
            for partition in partitions:
                assert (topic_id, partition) not in found, "two owners"
                found[topic_id, partition] = name
    return found


def load(assignment: Assignment) -> int:
    return sum(len(partitions) for partitions in assignment.values())


def moved(before: dict[str, Assignment], after: dict[str, Assignment]) -> int:
    was = owners(before)
    return sum(1 for partition, name in owners(after).items() if was.get(partition, name) != name)


counts_of_topics = st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 7), min_size=1)


@st.composite
def groups(draw: st.DrawFn) -> tuple[Members, dict[TopicId, int]]:
    """Members with any subscriptions, and with any former target that some members may have had together."""
    counts = draw(counts_of_topics)
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True))
    former: dict[str, dict[TopicId, set[int]]] = {name: {} for name in names}
    owned_by = draw(st.binary(min_size=3 * 8, max_size=3 * 8))
    for place, owner in enumerate(owned_by):
        if owner % (len(names) + 1) < len(names):
            topic_id, partition = (A, B, C)[place // 8], place % 8
            former[names[owner % (len(names) + 1)]].setdefault(topic_id, set()).add(partition)
    members = {
        name: MemberSpec(
            draw(st.sampled_from([None, f"i-{name}"])),
            frozenset(draw(st.sets(st.sampled_from(sorted(counts))))),
            {topic_id: frozenset(partitions) for topic_id, partitions in former[name].items()},
        )
        for name in names
    }
    return members, counts


@pytest.mark.slow
@pytest.mark.parametrize("assign", [assign_uniformly, assign_ranges])
@given(group=groups())
def test_every_partition_of_a_topic_that_somebody_reads_has_one_owner_who_reads_it(
    assign: type[object], group: tuple[Members, dict[TopicId, int]]
) -> None:
    members, counts = group
    assigned = assign(members, counts)  # type: ignore[call-arg]  # an assignor
    assert isinstance(assigned, dict)
    assert assigned.keys() == members.keys()
    read = {topic_id for spec in members.values() for topic_id in spec.topics}
    expected = {(topic_id, partition) for topic_id in read for partition in range(counts[topic_id])}
    found = owners(assigned)
    assert found.keys() == expected
    assert all(topic_id in members[name].topics for (topic_id, _), name in found.items())


@pytest.mark.slow
@given(group=groups())
def test_uniform_leaves_no_partition_where_another_reader_would_have_fewer_with_it(
    group: tuple[Members, dict[TopicId, int]],
) -> None:
    members, counts = group
    assigned = assign_uniformly(members, counts)
    for (topic_id, _), name in owners(assigned).items():
        least = min(load(assigned[other]) for other, spec in members.items() if topic_id in spec.topics)
        assert load(assigned[name]) - least <= 1


@pytest.mark.slow
@given(counts=counts_of_topics, names=st.lists(st.sampled_from("abcdefgh"), min_size=2, unique=True))
def test_uniform_is_balanced_within_one_and_moves_no_more_than_it_must(
    counts: dict[TopicId, int], names: list[str]
) -> None:
    total = sum(counts.values())
    members = members_of(*counts, names="".join(names))
    first = assign_uniformly(members, counts)
    loads = sorted(load(each) for each in first.values())
    assert loads[-1] - loads[0] <= 1
    assert assign_uniformly(went_on(members, first), counts) == first, "nothing changed, nothing moves"

    newcomer = MemberSpec(None, frozenset(counts), {})
    second = assign_uniformly({**went_on(members, first), "new": newcomer}, counts)
    assert moved(first, second) == load(second["new"]) == total // (len(names) + 1)

    gone = names[0]
    rest = {name: spec for name, spec in went_on(members, first).items() if name != gone}
    third = assign_uniformly(rest, counts)
    assert moved(first, third) == load(first[gone]), "only what the one who left had"


def test_uniform_gives_new_partitions_to_those_with_least() -> None:
    members = members_of(A, names="ab")
    first = assign_uniformly(members, {A: 3})
    grown = assign_uniformly(went_on(members, first), {A: 6})
    assert moved(first, grown) == 0
    assert sorted(load(each) for each in grown.values()) == [3, 3]


def test_uniform_takes_from_those_who_read_more_topics() -> None:
    members = {"a": MemberSpec(None, frozenset({A}), {}), "b": MemberSpec(None, frozenset({A, B}), {})}
    assert assign_uniformly(members, {A: 2, B: 2}) == {"a": {A: frozenset({0, 1})}, "b": {B: frozenset({0, 1})}}


def test_ranges_are_cut_in_the_same_places_in_all_topics() -> None:
    assigned = assign_ranges(members_of(A, B, names="abc"), {A: 7, B: 7})
    assert [sorted(assigned[name][A]) for name in "abc"] == [[0, 1, 2], [3, 4], [5, 6]]
    assert all(assigned[name][A] == assigned[name][B] for name in "abc")


def test_ranges_stay_with_instances_whatever_their_members_are_called() -> None:
    def spec(instance_id: str | None) -> MemberSpec:
        return MemberSpec(instance_id, frozenset({A}), {})

    before = assign_ranges({"m1": spec("i-1"), "m2": spec("i-2"), "a": spec(None)}, {A: 3})
    after = assign_ranges({"z1": spec("i-1"), "b2": spec("i-2"), "a": spec(None)}, {A: 3})
    assert [before[name] for name in ("m1", "m2", "a")] == [after[name] for name in ("z1", "b2", "a")]
    assert before["m1"] == {A: frozenset({0})}


def test_more_members_than_partitions_leave_some_without() -> None:
    for assign in (assign_uniformly, assign_ranges):
        assert sorted(load(each) for each in assign(members_of(A, names="abc"), {A: 2}).values()) == [0, 1, 1]


def test_nobody_gets_nothing() -> None:
    assert assign_uniformly({}, {A: 3}) == assign_ranges({}, {A: 3}) == {}
    assert assign_uniformly({"a": MemberSpec(None, frozenset(), {A: frozenset({0})})}, {A: 3}) == {"a": {}}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["same topics", "many topics", "different topics", "ranges"])
def test_a_thousand_members_and_ten_thousand_partitions_take_well_under_a_second(kind: str) -> None:
    topics = [UUID(int=number) for number in range(1, 2 if kind == "same topics" else 101)]
    counts = {topic_id: 10_000 // len(topics) for topic_id in topics}
    members = {
        f"member-{number}": MemberSpec(
            None, frozenset(topics[number % 7 :] if kind == "different topics" else topics), {}
        )
        for number in range(1_000)
    }
    assign = assign_ranges if kind == "ranges" else assign_uniformly
    assigned = assign(members, counts)
    members = went_on(members, assigned)
    del members["member-0"]
    began = perf_counter()
    assert len(owners(assign(members, counts))) == 10_000
    assert perf_counter() - began < 2.0, "a machine as busy as ours"
