"""CountVisibleRecords: leaders count what a reader of committed records would get, within limits."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from tests.broker.replication_rig import CLIENTS, T0, Rig, RigBroker, rig
from tests.broker.test_write_txn_markers import open_transaction
from tidelog.broker.handlers import count_visible_records
from tidelog.broker.visible_records import VisibleRecords
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.model import ErrorCode, ProducerIdentity
from tidelog.runtime import Address
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.count_visible_records import (
    CountFrom,
    CountInTopic,
    CountVisibleRecordsRequest,
    VisibleRecordsOfPartition,
)

ADDRESS = Address("somewhere", 1)
CONTEXT = RequestContext(RequestHeader(ApiKey.COUNT_VISIBLE_RECORDS, 0, 1, "client"), CLIENTS, ADDRESS, ADDRESS)


@pytest.fixture
def one() -> Iterator[Rig]:
    with rig(1) as made:
        made.tell(1, 3, isr=(1,))
        yield made


def count(
    made: Rig, *asked: CountFrom, broker_id: int = 1, topic: str = "t", work_max: int = 1_000
) -> list[VisibleRecordsOfPartition]:
    node = made.brokers[broker_id].node
    cast("SimpleNamespace", node).visible_records = VisibleRecords(work_max=work_max)

    async def story() -> list[VisibleRecordsOfPartition]:
        request = CountVisibleRecordsRequest(topics=(CountInTopic(topic=topic, partitions=asked),))
        (answer,) = (await count_visible_records.handle(node, CONTEXT, request)).topics
        return list(answer.partitions)

    return made.world.run(story())


def at(offset: int, leader_epoch: int = -1, index: int = 0) -> CountFrom:
    return CountFrom(partition_index=index, offset=offset, current_leader_epoch=leader_epoch)


def end(broker: RigBroker, *, is_committed: bool) -> None:
    broker.replicas.append_marker(T0, TransactionEnd(ProducerIdentity(9, 0), is_committed, coordinator_epoch=0))


def test_what_is_visible_is_counted_and_where_the_log_stands_is_told(one: Rig) -> None:
    broker = one.brokers[1]
    broker.produce(b"a", b"b", b"c")  # 0 to 2
    open_transaction(broker)  # 3
    end(broker, is_committed=False)  # 4
    broker.produce(b"d")  # 5
    open_transaction(broker)  # 6
    (row,) = count(one, at(1, leader_epoch=3))
    assert (row.error_code, row.visible_count, row.is_exact) == (ErrorCode.NONE, 3, True)
    assert (row.counted_to, row.last_stable_offset, row.high_watermark, row.log_start_offset) == (6, 6, 7, 0)
    end(broker, is_committed=True)
    assert count(one, at(1))[0].visible_count == 4


@pytest.mark.parametrize(("offset", "counted"), [(-5, 3), (0, 3), (3, 0), (99, 0)])
def test_an_offset_outside_of_the_log_is_no_error(one: Rig, offset: int, counted: int) -> None:
    one.brokers[1].produce(b"a", b"b", b"c")
    assert [row.visible_count for row in count(one, at(offset))] == [counted]


def test_partitions_are_refused_by_themselves(one: Rig) -> None:
    one.brokers[1].produce(b"a")
    rows = count(one, at(0), at(0, index=7), at(0, leader_epoch=2), at(0, leader_epoch=4))
    assert [row.error_code for row in rows] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ]


def test_a_follower_does_not_count() -> None:
    with rig(2) as made:
        made.tell(1, 0)
        (row,) = count(made, at(0), broker_id=2)
        assert row.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_work_that_is_too_much_for_one_request_is_gone_on_with_by_the_next(one: Rig) -> None:
    for _ in range(1_000):
        one.brokers[1].produce(b"a", b"b")
    offset, counted, requests = 0, 0, 0
    while offset < 2_000:
        (row,) = count(one, at(offset), work_max=300)
        assert offset < row.counted_to <= row.last_stable_offset == 2_000
        counted += row.visible_count
        offset = row.counted_to
        requests += 1
    assert counted == 2_000
    assert requests > 1
