"""What is true of transactions whichever stock client is in them; each check has a topic of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from typing import Final, Protocol

import pytest

from tests.cluster.waiting import eventually
from tests.cluster.witness import Witness
from tests.compatibility.committed_readers import Reader, read_by_confluent
from tests.compatibility.group_facts import (
    PARTITIONS,
    committed,
    coordinator_of,
    create_topic,
    group_coordinated_by,
    send,
)
from tests.compatibility.processes import TidelogCluster
from tests.compatibility.transaction_facts import (
    END,
    Worker,
    close_with_a_record,
    id_coordinated_by,
    transaction_coordinator_of,
)
from tests.compatibility.transactional_client import Aborted, Fenced, Make, Read, TransactionalClient
from tidelog.model import TopicPartition

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


class Somewhere(Protocol):
    """A broker, or a cluster of them, of any make."""

    bootstrap: str


def _commit(client: TransactionalClient, topic: str, value: bytes) -> None:
    client.begin()
    client.send(topic, 0, value)
    client.commit()


def commit_and_abort(cluster: Somewhere, topic: str, make: Make, read: Reader) -> None:
    """What is committed is read, what is aborted is not; everything is there for who reads uncommitted."""
    create_topic(cluster.bootstrap, topic)
    with closing(make(cluster.bootstrap, topic)) as client:
        for number in range(6):
            client.begin()
            for partition in (0, 1):
                client.send(topic, partition, f"{number} a".encode())
                client.send(topic, partition, f"{number} b".encode())
            client.flush()
            if number % 3 == 1:
                client.abort()
            else:
                client.commit()
    close_with_a_record(cluster.bootstrap, topic, range(2))
    expected = [f"{number} {which}".encode() for number in (0, 2, 3, 5) for which in "ab"]
    for partition in (0, 1):
        assert read(cluster.bootstrap, topic, partition, last=END) == [*expected, END]
    everything = read_by_confluent(cluster.bootstrap, topic, 0, last=END, committed=False)
    assert everything == [f"{number} {which}".encode() for number in range(6) for which in "ab"] + [END]


def end_without_records(cluster: Somewhere, topic: str, make: Make) -> None:
    """A transaction in which nothing was sent ends all the same."""
    create_topic(cluster.bootstrap, topic)
    with closing(make(cluster.bootstrap, topic)) as client:
        for end in (client.commit, client.abort, client.commit):
            client.begin()
            end()
        _commit(client, topic, b"one")
    close_with_a_record(cluster.bootstrap, topic)
    assert read_by_confluent(cluster.bootstrap, topic, 0, last=END) == [b"one", END]


def fence_a_zombie(cluster: Somewhere, topic: str, make: Make) -> None:
    """The next producer of an id ends what the last one left open, and the last one is refused from then on."""
    create_topic(cluster.bootstrap, topic)
    with closing(make(cluster.bootstrap, topic)) as zombie:
        zombie.begin()
        zombie.send(topic, 0, b"left open")
        zombie.flush()
        with closing(make(cluster.bootstrap, topic)) as heir:
            heir.begin()
            heir.send(topic, 0, b"from the heir")
            heir.flush()
            with pytest.raises((Fenced, Aborted)):
                zombie.commit()
            heir.commit()
            with pytest.raises((Fenced, Aborted)):
                _commit(zombie, topic, b"from the grave")
            _commit(heir, topic, b"from the heir again")
    close_with_a_record(cluster.bootstrap, topic)
    assert read_by_confluent(cluster.bootstrap, topic, 0, last=END) == [b"from the heir", b"from the heir again", END]


def take_too_long(cluster: Somewhere, topic: str, make: Make) -> None:
    """The broker aborts a transaction that takes too long, and refuses its producer."""
    create_topic(cluster.bootstrap, topic)
    with closing(make(cluster.bootstrap, topic, timeout_ms=1_000)) as client:
        client.begin()
        client.send(topic, 0, b"too late")
        client.flush()
        close_with_a_record(cluster.bootstrap, topic)
        # The end comes: nothing is held back for ever.
        assert read_by_confluent(cluster.bootstrap, topic, 0, last=END) == [END]
        with pytest.raises((Fenced, Aborted)):
            client.commit()
    with closing(make(cluster.bootstrap, topic)) as client:
        _commit(client, topic, b"in time")
    assert read_by_confluent(cluster.bootstrap, topic, 0, last=b"in time") == [END, b"in time"]


def commit_offsets(cluster: Somewhere, topic: str, make: Make) -> None:
    """Offsets are committed with the transaction, or not at all."""
    create_topic(cluster.bootstrap, topic)
    create_topic(cluster.bootstrap, f"{topic}-out")
    sent = send(cluster.bootstrap, topic, 0)
    with closing(make(cluster.bootstrap, topic)) as client:
        client.join(topic, topic)
        for end in (client.abort, client.commit):
            found: list[bytes] = []
            while len(found) < len(sent):
                found += [record.value for record in client.poll()]
            client.begin()
            client.send(f"{topic}-out", 0, b"%d" % len(found))
            client.send_offsets()
            end()
            if end == client.abort:
                assert set(committed(cluster.bootstrap, topic, topic).values()) == {-1001}, "nothing is committed"
                client.rewind()
    assert set(committed(cluster.bootstrap, topic, topic).values()) == {25}
    close_with_a_record(cluster.bootstrap, f"{topic}-out")
    assert read_by_confluent(cluster.bootstrap, f"{topic}-out", 0, last=END) == [b"100", END]


def fence_a_member(cluster: Somewhere, topic: str, make: Make) -> None:
    """KIP-447: a generation that is over fences, though each member has a transactional id of its own."""
    create_topic(cluster.bootstrap, topic)
    sent = send(cluster.bootstrap, topic, 0)
    with ExitStack() as stack:
        zombie = stack.enter_context(closing(make(cluster.bootstrap, f"{topic}-one")))
        zombie.join(topic, topic)
        found: list[bytes] = []
        while len(found) < len(sent):
            found += [record.value for record in zombie.poll()]
        zombie.begin()
        zombie.send(topic, 0, b"from the zombie")
        heir = stack.enter_context(closing(make(cluster.bootstrap, f"{topic}-two")))
        heir.join(topic, topic)
        taken: list[Read] = []
        while not taken:  # both poll, so that the group settles anew
            zombie.poll()
            taken = heir.poll()
        with pytest.raises(Aborted):
            zombie.send_offsets()
        zombie.abort()
    assert set(committed(cluster.bootstrap, topic, topic).values()) == {-1001}, "nothing is committed"


def transform_while_brokers_are_killed(cluster: TidelogCluster, topic: str, makes: Mapping[str, Make]) -> None:
    """Each record is transformed once while whoever coordinates all transactions, then the groups, then whoever leads, is killed."""
    bootstrap, asked = cluster.bootstrap, cluster.bootstrap.split(",")[0]
    first = eventually(lambda: transaction_coordinator_of(asked, topic), "transactions have coordinators")
    second = eventually(lambda: coordinator_of(asked, topic), "groups have coordinators")
    with ExitStack() as stack:
        workers = [
            Worker(
                make,
                bootstrap,
                f"{topic}-{name}",
                transactional_id=id_coordinated_by(first, asked, f"{topic}-{name}"),
                group_id=group_coordinated_by(second, asked, f"{topic}-{name}"),
            )
            for name, make in makes.items()
        ]
        for worker in workers:
            create_topic(bootstrap, worker.source)
            create_topic(bootstrap, worker.target)
        one = workers[0]
        witness = Witness({each: f"127.0.0.1:{port}" for each, port in cluster.ports.items()}, one.target)
        sent = _send_to_all(bootstrap, workers, 0)
        for worker in workers:
            stack.enter_context(worker)
        _wait_for_all(workers, len(sent) // 2)
        victims: list[Callable[[], int]] = [
            lambda: transaction_coordinator_of(asked, one.transactional_id),
            lambda: coordinator_of(asked, one.group_id),
            lambda: witness.leaders()[TopicPartition(one.target, 0)].leader_id,
        ]
        for number, victim in enumerate(victims, 1):
            killed = eventually(victim, "there is somebody to kill")
            sent += _send_to_all(bootstrap, workers, 1000 * number)
            cluster.kill(killed)
            try:
                sent += _send_to_all(bootstrap, workers, 1000 * number + 100)
                _wait_for_all(workers, len(sent))
            finally:
                cluster.restart(killed)
            eventually(lambda: _is_whole(witness), "all replicas are in sync again")
    for worker in workers:
        _check_each_once(bootstrap, worker, sent)


def _send_to_all(bootstrap: str, workers: list[Worker], first: int) -> list[bytes]:
    sent = [send(bootstrap, worker.source, first) for worker in workers]
    return sent[0]


def _wait_for_all(workers: list[Worker], count: int) -> None:
    for worker in workers:
        eventually(partial(worker.has_committed, count), f"{worker.transactional_id} works on", timeout_s=90)


def _check_each_once(bootstrap: str, worker: Worker, sent: list[bytes]) -> None:
    offsets = committed(bootstrap, worker.source, worker.group_id)
    close_with_a_record(bootstrap, worker.target, range(len(PARTITIONS)))
    read = [
        value for index in PARTITIONS for value in read_by_confluent(bootstrap, worker.target, index, last=END)[:-1]
    ]
    missing, repeated = Counter(sent) - Counter(read), Counter(read) - Counter(sent)
    told = f"{worker.transactional_id}: committed {offsets}, missing {missing}, repeated {repeated}"
    assert not missing | repeated, told
    assert set(offsets.values()) == {len(sent) // len(PARTITIONS)}, told


def _is_whole(witness: Witness) -> bool:
    leaders = witness.leaders()
    return len(leaders) == len(PARTITIONS) and all(len(row.isr) == 3 for row in leaders.values())
