"""Stock Python clients share the work of a group, remember their place, and survive the death of whoever coordinates them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.cluster.stock_clients import close_unconnected
from tests.cluster.waiting import eventually
from tests.compatibility.group_facts import (
    PARTITIONS,
    SETTINGS,
    coordinator_of,
    create_topic,
    group_coordinated_by,
    has_read,
    is_shared,
    reset,
    send,
    wait_until_committed,
    wait_until_shared_and_read,
)
from tests.compatibility.group_members import MEMBERS, GroupMember
from tests.compatibility.processes import TidelogCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
EACH = pytest.mark.parametrize("member_type", MEMBERS.values(), ids=list(MEMBERS))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers that wait for nobody before a group's first generation, and hear of everybody often."""
    with TidelogCluster(tmp_path_factory.mktemp("cluster"), SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def _sockets() -> Iterator[None]:
    """kafka-python leaves some open when it is done."""
    yield
    close_unconnected()


@EACH
def test_members_share_the_partitions_as_they_come_and_go(
    cluster: TidelogCluster, topic: str, member_type: type[GroupMember]
) -> None:
    create_topic(cluster.bootstrap, topic)
    sent = send(cluster.bootstrap, topic, 0)
    with member_type(cluster.bootstrap, topic, topic) as first:
        eventually(lambda: is_shared(first) and has_read(sent, first), "one member reads everything")
        with member_type(cluster.bootstrap, topic, topic) as second:
            eventually(lambda: is_shared(first, second), "two members share the partitions")
            more = send(cluster.bootstrap, topic, 100)
            eventually(lambda: has_read(more, first, second), "both read what comes in")
        eventually(lambda: is_shared(first), "the one that stays owns everything again")
        last = send(cluster.bootstrap, topic, 200)
        eventually(lambda: has_read(last, first), "it reads on")
        wait_until_committed(cluster.bootstrap, topic, topic, 75)
        everything = Counter([*first.values, *second.values])
    assert everything == Counter([*sent, *more, *last]), "each once: every member committed before it left"


@EACH
def test_a_new_member_goes_on_where_the_last_one_committed(
    cluster: TidelogCluster, topic: str, member_type: type[GroupMember]
) -> None:
    create_topic(cluster.bootstrap, topic)
    sent = send(cluster.bootstrap, topic, 0)
    with member_type(cluster.bootstrap, topic, topic) as first:
        eventually(lambda: has_read(sent, first), "it reads everything")
        wait_until_committed(cluster.bootstrap, topic, topic, 25)
    reset(cluster.bootstrap, topic, group_id=topic, to=20)
    with member_type(cluster.bootstrap, topic, topic) as second:
        again = [value for index, value in enumerate(sent) if index // len(PARTITIONS) >= 20]
        more = send(cluster.bootstrap, topic, 100)
        eventually(lambda: has_read([*again, *more], second), "it reads on from where the group was put")
        assert Counter(second.values) == Counter([*again, *more])


@EACH
def test_a_static_member_comes_back_to_its_partitions_and_nobody_notices(
    cluster: TidelogCluster, topic: str, member_type: type[GroupMember]
) -> None:
    create_topic(cluster.bootstrap, topic)
    with member_type(cluster.bootstrap, topic, topic, "other") as other:
        with member_type(cluster.bootstrap, topic, topic, "same") as before:
            eventually(lambda: is_shared(other, before), "two members share the partitions")
            owned, told = before.owned, other.assignments
        sent = send(cluster.bootstrap, topic, 0)
        with member_type(cluster.bootstrap, topic, topic, "same") as after:
            eventually(lambda: after.owned == owned, "it owns again what it owned")
            eventually(lambda: has_read(sent, other, after), "everything is read")
            assert other.assignments == told, "nothing was taken from the other, nor given to it"


@pytest.mark.parametrize("kind", ["confluent", "confluent-consumer-protocol"])
def test_topics_are_subscribed_to_by_a_regular_expression(cluster: TidelogCluster, topic: str, kind: str) -> None:
    create_topic(cluster.bootstrap, topic)
    sent = send(cluster.bootstrap, topic, 0)
    with MEMBERS[kind](cluster.bootstrap, f"^{topic[:-1]}.$", topic) as member:
        eventually(lambda: is_shared(member) and has_read(sent, member), "it reads what fits its expression")


def test_a_group_moves_to_the_consumer_protocol_and_back_while_it_runs(cluster: TidelogCluster, topic: str) -> None:
    create_topic(cluster.bootstrap, topic)
    sent = send(cluster.bootstrap, topic, 0)
    classic, modern = MEMBERS["confluent-cooperative"], MEMBERS["confluent-consumer-protocol"]
    with classic(cluster.bootstrap, topic, topic) as first:
        wait_until_shared_and_read([first], sent)
        with modern(cluster.bootstrap, topic, topic) as second:
            eventually(lambda: is_shared(first, second), "members of both protocols share the partitions")
            first.leave()
            sent += send(cluster.bootstrap, topic, 100)
            eventually(lambda: is_shared(second), "the new one owns everything")
            eventually(lambda: has_read(sent, first, second), "nothing is left out")
            with classic(cluster.bootstrap, topic, topic) as third:
                eventually(lambda: is_shared(second, third), "members of both protocols share the partitions again")
                second.leave()
                sent += send(cluster.bootstrap, topic, 200)
                eventually(lambda: is_shared(third), "the old one owns everything")
                eventually(lambda: has_read(sent, first, second, third), "nothing is left out")
                wait_until_committed(cluster.bootstrap, topic, topic, 75)


@pytest.mark.proof
def test_everybody_goes_on_when_the_broker_that_coordinates_them_is_killed(cluster: TidelogCluster, topic: str) -> None:
    """All kinds of clients at once, in groups of their own that one broker coordinates."""
    bootstrap, one_broker = cluster.bootstrap, cluster.bootstrap.split(",")[0]
    create_topic(bootstrap, topic)
    killed = eventually(lambda: coordinator_of(one_broker, topic), "groups have coordinators")
    sent = send(bootstrap, topic, 0)
    with ExitStack() as stack:
        groups = [
            [stack.enter_context(member_type(bootstrap, topic, group_id)) for _ in range(2)]
            for name, member_type in MEMBERS.items()
            for group_id in [group_coordinated_by(killed, one_broker, f"{topic}-{name}")]
        ]
        for members in groups:
            wait_until_shared_and_read(members, sent)
        cluster.kill(killed)
        sent += send(bootstrap, topic, 100)
        for members in groups:
            wait_until_shared_and_read(members, sent)
        for members in groups:
            wait_until_committed(bootstrap, topic, members[0].group_id, 50)
    cluster.restart(killed)
