"""Every partition gets one owner, shares are even, and what need not move stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.client.groups.assignors import (
    ASSIGNORS,
    COOPERATIVE_STICKY,
    RANGE,
    ROUND_ROBIN,
    STICKY,
    Assignor,
    GroupMember,
    RebalanceProtocol,
    assign,
    common_protocol,
)
from tidelog.client.groups.subscription_codec import Subscription
from tidelog.model import TopicPartition

TOPICS = ("a", "b", "c")


def member(
    member_id: str,
    *topics: str,
    owned: tuple[TopicPartition, ...] = (),
    generation: int = -1,
    instance_id: str | None = None,
    assignor: Assignor = COOPERATIVE_STICKY,
) -> GroupMember:
    data = assignor.user_data(owned, generation)
    subscription = Subscription(topics=topics, owned=owned, generation=generation, user_data=data)
    return GroupMember(member_id, instance_id, subscription)


def of(topic: str, *indexes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def test_range_gives_neighbours_topic_by_topic_and_more_to_the_first() -> None:
    shares = assign(RANGE, {"a": 5, "b": 3}, [member("m2", "a", "b"), member("m1", "a", "b")])
    assert shares == {"m1": of("a", 0, 1, 2) + of("b", 0, 1), "m2": of("a", 3, 4) + of("b", 2)}


def test_round_robin_deals_all_topics_in_one_go() -> None:
    shares = assign(ROUND_ROBIN, {"a": 3, "b": 3}, [member("m1", "a", "b"), member("m2", "a", "b")])
    assert shares == {"m1": of("a", 0, 2) + of("b", 1), "m2": of("a", 1) + of("b", 0, 2)}


def test_round_robin_passes_over_members_that_do_not_want_the_topic() -> None:
    members = [member("m0", "a"), member("m1", "a", "b"), member("m2", "a", "b", "c")]
    shares = assign(ROUND_ROBIN, {"a": 1, "b": 2, "c": 3}, members)
    assert shares == {"m0": of("a", 0), "m1": of("b", 0), "m2": of("b", 1) + of("c", 0, 1, 2)}


def test_static_members_come_first_and_by_instance_so_that_a_new_member_id_moves_nothing() -> None:
    before = assign(RANGE, {"a": 3}, [member("m9", "a", instance_id="one"), member("m1", "a")])
    after = assign(RANGE, {"a": 3}, [member("m0", "a", instance_id="one"), member("m1", "a")])
    assert before["m9"] == after["m0"] == of("a", 0, 1)
    assert before["m1"] == after["m1"]


def test_topic_that_does_not_exist_gives_nothing_to_anybody() -> None:
    for assignor in ASSIGNORS.values():
        assert assign(assignor, {"a": 1}, [member("m", "a", "missing")]) == {"m": of("a", 0)}


def test_sticky_member_tells_what_it_had_in_the_user_data() -> None:
    had = tuple(of("a", 0, 3))
    there = GroupMember("m1", None, Subscription(topics=("a",), user_data=STICKY.user_data(had, 4)))
    shares = assign(STICKY, {"a": 4}, [there, member("m0", "a", assignor=STICKY)])
    assert shares == {"m0": of("a", 1, 2), "m1": of("a", 0, 3)}


def test_user_data_that_makes_no_sense_claims_nothing() -> None:
    broken = GroupMember("m1", None, Subscription(topics=("a",), user_data=b"\0\0\0\x09nonsense"))
    assert sum(map(len, assign(STICKY, {"a": 3}, [broken, member("m0", "a")]).values())) == 3


def test_the_younger_of_two_claims_counts() -> None:
    members = [
        member("old", "a", owned=tuple(of("a", 0, 1)), generation=3, assignor=STICKY),
        member("new", "a", owned=tuple(of("a", 0, 1)), generation=4, assignor=STICKY),
        member("one", "a", assignor=STICKY),
        member("two", "a", assignor=STICKY),
    ]
    assert set(assign(STICKY, {"a": 8}, members)["new"]) == set(of("a", 0, 1))


def test_user_data_is_as_javas() -> None:
    assert COOPERATIVE_STICKY.user_data([], 7) == b"\0\0\0\x07"
    assert STICKY.user_data(of("t", 2, 1), 7) == b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\1\0\0\0\2\0\0\0\7"
    assert RANGE.user_data(of("t", 2), 7) is ROUND_ROBIN.user_data(of("t", 2), 7) is None


def test_a_partition_of_somebody_waits_one_round() -> None:
    members = [member("m1", "a", owned=tuple(of("a", 0, 1, 2, 3)), generation=1), member("m2", "a")]
    assert assign(COOPERATIVE_STICKY, {"a": 4}, members) == {"m1": of("a", 0, 1), "m2": []}
    members = [member("m1", "a", owned=tuple(of("a", 0, 1)), generation=2), member("m2", "a", generation=2)]
    assert assign(COOPERATIVE_STICKY, {"a": 4}, members) == {"m1": of("a", 0, 1), "m2": of("a", 2, 3)}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("range", "cooperative-sticky"), RebalanceProtocol.EAGER),
        (("cooperative-sticky",), RebalanceProtocol.COOPERATIVE),
        (("sticky",), RebalanceProtocol.EAGER),
    ],
)
def test_members_are_cooperative_only_if_every_assignor_in_their_list_is(
    names: tuple[str, ...], expected: RebalanceProtocol
) -> None:
    assert common_protocol([ASSIGNORS[name] for name in names]) is expected


counts = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS})
wishes = st.lists(st.sampled_from(TOPICS), min_size=1, unique=True).map(tuple)
groups = st.lists(wishes, min_size=1, max_size=6)


@st.composite
def owning(draw: st.DrawFn) -> tuple[dict[str, int], list[GroupMember]]:
    """Members that own anything, also what is another's or does not exist, since any generation."""
    partition_counts = draw(counts)
    partitions = [TopicPartition(topic, index) for topic in TOPICS for index in range(6)]
    members = []
    for number, topics in enumerate(draw(groups)):
        owned = tuple(draw(st.lists(st.sampled_from(partitions), max_size=8, unique=True)))
        members.append(member(f"m{number}", *topics, owned=owned, generation=draw(st.integers(0, 2))))
    return partition_counts, members


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
@settings(max_examples=100)
@given(world=owning())
def test_every_wanted_partition_has_one_owner_that_wants_it(
    name: str, world: tuple[dict[str, int], list[GroupMember]]
) -> None:
    partition_counts, members = world
    shares = assign(ASSIGNORS[name], partition_counts, members)
    wanted = {topic for m in members for topic in m.subscription.topics}
    assert sorted(p for share in shares.values() for p in share) == [
        TopicPartition(topic, i) for topic in sorted(wanted) for i in range(partition_counts[topic])
    ]
    for m in members:
        assert {p.topic for p in shares[m.member_id]} <= set(m.subscription.topics)


@settings(max_examples=100)
@given(world=owning())
def test_sticky_shares_cannot_be_made_more_even_by_a_move(world: tuple[dict[str, int], list[GroupMember]]) -> None:
    partition_counts, members = world
    shares = assign(STICKY, partition_counts, members)
    for giver in members:
        for partition in shares[giver.member_id]:
            for receiver in members:
                if partition.topic in receiver.subscription.topics:
                    assert len(shares[giver.member_id]) - len(shares[receiver.member_id]) < 2


@settings(max_examples=100)
@given(partition_counts=counts, wanted=groups, gone=st.integers(0, 5))
def test_sticky_moves_only_what_a_leaving_member_had(
    partition_counts: dict[str, int], wanted: list[tuple[str, ...]], gone: int
) -> None:
    topics = tuple({topic: None for each in wanted for topic in each})  # alike, so that even means within one
    names = [f"m{number}" for number in range(len(wanted))]
    first = assign(STICKY, partition_counts, [member(name, *topics) for name in names])
    left = [name for number, name in enumerate(names) if number != gone % len(names)]
    owned = {name: tuple(first[name]) for name in left}
    second = assign(
        STICKY, partition_counts, [member(n, *topics, owned=owned[n], generation=1, assignor=STICKY) for n in left]
    )
    for name in left:
        assert set(owned[name]) <= set(second[name])


@settings(max_examples=100)
@given(world=owning())
def test_cooperative_never_gives_away_what_somebody_still_owns(
    world: tuple[dict[str, int], list[GroupMember]],
) -> None:
    partition_counts, members = world
    shares = assign(COOPERATIVE_STICKY, partition_counts, members)
    for m in members:
        for partition in shares[m.member_id]:
            owners = [each.member_id for each in members if partition in each.subscription.owned]
            assert not owners or m.member_id in owners
    given_away = [partition for share in shares.values() for partition in share]
    assert len(given_away) == len(set(given_away))


@settings(max_examples=50)
@given(world=owning())
def test_cooperative_has_given_everything_out_after_a_few_rounds(
    world: tuple[dict[str, int], list[GroupMember]],
) -> None:
    partition_counts, members = world
    shares = assign(COOPERATIVE_STICKY, partition_counts, members)
    for generation in range(3, 6):
        members = [
            member(m.member_id, *m.subscription.topics, owned=tuple(shares[m.member_id]), generation=generation)
            for m in members
        ]
        shares = assign(COOPERATIVE_STICKY, partition_counts, members)
    wanted = {topic for m in members for topic in m.subscription.topics}
    assert sum(map(len, shares.values())) == sum(partition_counts[topic] for topic in wanted)
