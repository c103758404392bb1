"""Counting visible records: leaders are asked until they have counted everything, and whoever does not know how is left out."""

from __future__ import annotations

from tests.client.scripted_brokers import T0, ScriptedBrokers
from tests.client.test_admin_replicas import asked
from tidelog.client import VisibleRecords
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.count_visible_records import (
    CountVisibleRecordsRequest,
    CountVisibleRecordsResponse,
    VisibleRecordsOfPartition,
    VisibleRecordsOfTopic,
)

END = 100


def counted(count: int, to: int, *, is_exact: bool = True) -> CountVisibleRecordsResponse:
    row = VisibleRecordsOfPartition(
        partition_index=0,
        error_code=ErrorCode.NONE,
        visible_count=count,
        is_exact=is_exact,
        counted_to=to,
        last_stable_offset=END,
        high_watermark=END + 5,
        log_start_offset=3,
    )
    return answer(row)


def answer(row: VisibleRecordsOfPartition) -> CountVisibleRecordsResponse:
    return CountVisibleRecordsResponse(topics=(VisibleRecordsOfTopic(topic="t", partitions=(row,)),))


def offsets_asked(brokers: ScriptedBrokers) -> list[tuple[BrokerId, int]]:
    requests = brokers.requests(CountVisibleRecordsRequest)
    return [(node, request.topics[0].partitions[0].offset) for node, request in requests]


def test_a_leader_that_stops_on_the_way_is_asked_again_from_there() -> None:
    brokers = ScriptedBrokers()
    answers = iter([counted(20, 40, is_exact=False), counted(0, 90), counted(7, END)])
    brokers.scripts[ApiKey.COUNT_VISIBLE_RECORDS] = lambda _node, _request: next(answers)
    assert asked(brokers, lambda admin: admin.groups.visible_records({T0: 10})) == {
        T0: VisibleRecords(
            visible_count=27,
            is_exact=False,
            counted_to=END,
            last_stable_offset=END,
            high_watermark=END + 5,
            log_start_offset=3,
        )
    }
    assert offsets_asked(brokers) == [(1, 10), (1, 40), (1, 90)]


def test_a_leader_that_does_not_get_on_is_not_asked_for_ever() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.COUNT_VISIBLE_RECORDS] = lambda _node, _request: counted(0, 10)
    told = asked(brokers, lambda admin: admin.groups.visible_records({T0: 10}))
    assert told == {T0: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert len(offsets_asked(brokers)) == 1


def test_a_new_leader_is_asked_from_the_beginning() -> None:
    brokers = ScriptedBrokers()
    moved = answer(VisibleRecordsOfPartition(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def script(node: BrokerId, request: CountVisibleRecordsRequest) -> CountVisibleRecordsResponse:
        if node == 2:
            return counted(9, END)
        if request.topics[0].partitions[0].offset == 10:
            return counted(5, 50)
        brokers.elect(2, 1)
        return moved

    brokers.scripts[ApiKey.COUNT_VISIBLE_RECORDS] = script
    (told,) = asked(brokers, lambda admin: admin.groups.visible_records({T0: 10})).values()
    assert isinstance(told, VisibleRecords)
    assert told.visible_count == 9
    assert offsets_asked(brokers) == [(1, 10), (1, 50), (2, 10)]


def test_a_broker_that_hangs_up_does_not_know_the_question() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.COUNT_VISIBLE_RECORDS] = lambda node, _request: brokers.kill(node)
    told = asked(brokers, lambda admin: admin.groups.visible_records({T0: 10}))
    assert told == {T0: ErrorCode.UNSUPPORTED_VERSION}
    assert len(offsets_asked(brokers)) == 1


def test_a_partition_that_nobody_knows_is_an_error_of_its_own() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.COUNT_VISIBLE_RECORDS] = lambda _node, _request: counted(9, END)
    nowhere = TopicPartition("t", 7)
    told = asked(brokers, lambda admin: admin.groups.visible_records({T0: 10, nowhere: 0}))
    assert told[nowhere] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert isinstance(told[T0], VisibleRecords)
