"""The Java clients 3.9 and 4.x and KafkaJS, unmodified, as members of groups: they share, come back, go on, and survive the death of whoever
coordinates them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.broker.conversation import Conversation
from tests.cluster.waiting import eventually
from tests.compatibility.apache_kafka import ToolMissing, jars, old_client_jars
from tests.compatibility.driven_members import DrivenMember
from tests.compatibility.drivers import Driver, java_driver, kafkajs, kafkajs_driver
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
from tests.compatibility.processes import TidelogCluster
from tidelog.wire.messages.list_groups import ListGroupsRequest

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers that wait for nobody before a group's first generation, and are told often that members live."""
    with TidelogCluster(tmp_path_factory.mktemp("cluster"), SETTINGS) as running:
        yield running


class Client(NamedTuple):
    """A stock client and the way it takes part in groups."""

    driver: Driver
    kind: str

    def join(self, topic: str, group_id: str | None = None, instance_id: str | None = None) -> DrivenMember:
        """One more member."""
        return DrivenMember(self.driver, self.kind, topic, group_id, instance_id)


@pytest.fixture(scope="module")
def drivers(cluster: TidelogCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Driver]]:
    """The process of a client by its name, started when it is asked for first."""
    running: dict[str, Driver] = {}
    starts: dict[str, Callable[[Path], Driver]] = {
        "3.x": lambda classes: java_driver(old_client_jars(), classes, cluster.bootstrap),
        "newest": lambda classes: java_driver(jars(), classes, cluster.bootstrap),
        "javascript": lambda _classes: kafkajs_driver(kafkajs(), cluster.bootstrap),
    }

    def driver(name: str) -> Driver:
        if name not in running:
            try:
                running[name] = stack.enter_context(starts[name](tmp_path_factory.mktemp("classes")))
            except ToolMissing as missing:
                pytest.skip(str(missing))
        return running[name]

    with ExitStack() as stack:
        yield driver


CLIENTS = {
    "java-3.x-range": ("3.x", "range"),
    "java-range": ("newest", "range"),
    "java-cooperative": ("newest", "cooperative"),
    "java-consumer": ("newest", "consumer"),
    "kafkajs": ("javascript", "kafkajs"),
}
STATIC = [name for name in CLIENTS if name != "kafkajs"]  # which has no static members


@pytest.fixture
def client(request: pytest.FixtureRequest, drivers: Callable[[str], Driver]) -> Client:
    """The client that the test names."""
    driver, kind = CLIENTS[request.param]
    return Client(drivers(driver), kind)


@pytest.mark.parametrize("client", CLIENTS, indirect=True)
def test_members_come_and_go_and_the_next_one_reads_on(cluster: TidelogCluster, topic: str, client: Client) -> None:
    create_topic(cluster.bootstrap, topic)
    sent = send(cluster.bootstrap, topic, 0)
    with client.join(topic) as first:
        eventually(lambda: is_shared(first) and has_read(sent, first), "one member reads everything")
        with client.join(topic) as second:
            eventually(lambda: is_shared(first, second), "two members share the partitions")
            more = send(cluster.bootstrap, topic, 100)
            eventually(lambda: has_read(more, first, second), "both read what comes in")
            wait_until_committed(cluster.bootstrap, topic, topic, 50)
        eventually(lambda: is_shared(first), "the one that stays owns everything again")
        last = send(cluster.bootstrap, topic, 200)
        eventually(lambda: has_read(last, first), "it reads on")
        wait_until_committed(cluster.bootstrap, topic, topic, 75)
    assert Counter([*first.values, *second.values]) == Counter([*sent, *more, *last]), "each once"
    reset(cluster.bootstrap, topic, group_id=topic, to=70)
    with client.join(topic) as third:
        again = [value for index, value in enumerate(last) if index // len(PARTITIONS) >= 20]
        eventually(lambda: has_read(again, third), "the next one reads on from where the group was put")
    assert Counter(third.values) == Counter(again)


@pytest.mark.parametrize("client", STATIC, indirect=True)
def test_a_static_member_comes_back_to_its_partitions_and_nobody_notices(
    cluster: TidelogCluster, topic: str, client: Client
) -> None:
    create_topic(cluster.bootstrap, topic)
    with client.join(topic, instance_id="other") as other:
        with client.join(topic, instance_id="same") as before:
            eventually(lambda: is_shared(other, before), "two members share the partitions")
            owned, told = before.owned, other.rebalances
        sent = send(cluster.bootstrap, topic, 0)
        with client.join(topic, instance_id="same") as after:
            eventually(lambda: after.owned == owned, "it owns again what it owned")
            eventually(lambda: has_read(sent, other, after), "everything is read")
            assert other.rebalances == told, "nothing was taken from the other, nor given to it"


def test_static_members_come_back_to_the_next_coordinator_and_nobody_notices(
    cluster: TidelogCluster, topic: str, drivers: Callable[[str], Driver]
) -> None:
    """Away when their coordinator is killed: who they are and what they own is what the next one reads in its log."""
    bootstrap, one_broker = cluster.bootstrap, cluster.bootstrap.split(",")[0]
    create_topic(bootstrap, topic)
    killed = eventually(lambda: coordinator_of(one_broker, topic), "groups have coordinators")
    clients = {
        group_coordinated_by(killed, one_broker, f"{topic}-{kind}"): Client(drivers("newest"), kind)
        for kind in ("range", "cooperative", "consumer")
    }
    with ExitStack() as stack:
        others = {each: stack.enter_context(clients[each].join(topic, each, "other")) for each in clients}
        before = {each: stack.enter_context(clients[each].join(topic, each, "same")) for each in clients}
        for each in clients:
            wait_until_shared_and_read([others[each], before[each]], [])
        owned = {each: before[each].owned for each in clients}
        told = {each: others[each].rebalances for each in clients}
        for member in before.values():
            member.leave()
        cluster.kill(killed)
        after = {each: stack.enter_context(clients[each].join(topic, each, "same")) for each in clients}
        sent = send(bootstrap, topic, 0)
        for each in clients:
            wait_until_shared_and_read([others[each], after[each]], sent)
        assert {each: after[each].owned for each in clients} == owned
        assert {each: others[each].rebalances for each in clients} == told
    cluster.restart(killed)


def test_everybody_goes_on_when_the_broker_that_coordinates_them_is_killed(
    cluster: TidelogCluster, topic: str, drivers: Callable[[str], Driver]
) -> None:
    """All clients at once, in groups of their own that one broker coordinates."""
    bootstrap, one_broker = cluster.bootstrap, cluster.bootstrap.split(",")[0]
    create_topic(bootstrap, topic)
    killed = eventually(lambda: coordinator_of(one_broker, topic), "groups have coordinators")
    sent = send(bootstrap, topic, 0)
    with ExitStack() as stack:
        groups = []
        for name, (driver, kind) in CLIENTS.items():
            group_id = group_coordinated_by(killed, one_broker, f"{topic}-{name}")
            client = Client(drivers(driver), kind)
            groups.append([stack.enter_context(client.join(topic, group_id)) for _ in range(2)])
        for members in groups:
            wait_until_shared_and_read(members, sent)
        cluster.kill(killed)
        sent += send(bootstrap, topic, 100)
        for members in groups:
            wait_until_shared_and_read(members, sent)
        for members in groups:
            wait_until_committed(bootstrap, topic, members[0].group_id, 50)
    cluster.restart(killed)


def type_of(cluster: TidelogCluster, group_id: str) -> str:
    """Whether the coordinator of a group calls it classic or consumer."""
    alive = next(f"127.0.0.1:{cluster.ports[broker_id]}" for broker_id in cluster.pids)
    coordinator = eventually(lambda: coordinator_of(alive, group_id), "the group has a coordinator")
    with Conversation(f"127.0.0.1:{cluster.ports[coordinator]}") as conversation:
        listed = conversation.ask(ListGroupsRequest(), 5).groups
    return next((group.group_type for group in listed if group.group_id == group_id), "")


def test_java_moves_a_group_to_the_consumer_protocol_and_back_while_it_works(
    cluster: TidelogCluster, topic: str, drivers: Callable[[str], Driver]
) -> None:
    """Member by member, as in a rolling upgrade; the coordinator dies while both protocols are in use."""
    bootstrap = cluster.bootstrap
    old, new = Client(drivers("3.x"), "range"), Client(drivers("newest"), "consumer")
    create_topic(bootstrap, topic)
    sent = send(bootstrap, topic, 0)
    with old.join(topic) as second_old, new.join(topic) as first_new:
        with old.join(topic) as first_old:
            wait_until_shared_and_read([first_old, second_old, first_new], sent)
            eventually(lambda: type_of(cluster, topic) == "consumer", "the first new member converts the group")
            killed = coordinator_of(bootstrap.split(",")[0], topic)
            cluster.kill(killed)
            sent += send(bootstrap, topic, 100)
            wait_until_shared_and_read([first_old, second_old, first_new], sent)
            cluster.restart(killed)
        readers = [first_old, second_old, first_new]
        with new.join(topic) as second_new:
            second_old.leave()
            eventually(lambda: is_shared(first_new, second_new), "all members are new")
            sent += send(bootstrap, topic, 200)
            readers.append(second_new)
            eventually(lambda: has_read(sent, *readers), "everything is read")
            third_old = old.join(topic)
        with third_old:
            first_new.leave()
            eventually(lambda: is_shared(third_old), "the last member is old")
            eventually(lambda: type_of(cluster, topic) == "classic", "the last new member takes the protocol with it")
            sent += send(bootstrap, topic, 300)
            readers.append(third_old)
            eventually(lambda: has_read(sent, *readers), "everything is read")
            wait_until_committed(bootstrap, topic, topic, 100)
