"""`tidelog groups describe` tells how many records a group has before it, not only how many offsets."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.broker.conversation import Conversation
from tests.broker.test_transactions_served import Producer
from tests.cli.shell import Shell
from tests.client.test_admin_groups import group_brokers
from tests.client.test_moving_leaders import properties
from tests.cluster.waiting import eventually
from tidelog.cli.groups_describing import GroupTables
from tidelog.cli.output import OutputFormat, Table
from tidelog.client import Cluster, ConsumerConfig
from tidelog.model import BrokerId, ErrorCode
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages import consumer_group_describe, offset_fetch
from tidelog.wire.messages.count_visible_records import CountVisibleRecordsRequest


def described(shell: Shell, group: str) -> dict[str, Any]:
    (row,) = json.loads(shell.ok("groups", "describe", group, "--format", "json"))
    return dict(row)


@pytest.mark.slow
def test_markers_and_aborted_records_are_no_lag(shell: Shell, bootstrap: str, topic: str) -> None:
    group = f"readers-of-{topic}"
    shell.ok("topics", "create", topic)
    with Conversation(bootstrap) as conversation:
        producer = Producer(conversation, topic, f"id of {topic}")
        shell.ok("groups", "reset", group, "--topic", topic, "--to-earliest", "--execute")
        for is_committed in (True, False, True):
            eventually(lambda: producer.produce(b"v", 0, 12) is ErrorCode.NONE, "a transaction has begun")
            assert producer.end(5, is_committed=is_committed) is ErrorCode.NONE
        eventually(lambda: described(shell, group)["visible_lag"] == 2, "the last marker is there")
        row = described(shell, group)
        assert (row["log_end_offset"], row["lag"], row["is_visible_lag_exact"]) == (6, 6, True)
        careful = ("-X", "isolation.level=read_committed")
        assert shell.ok("consume", "-t", topic, "-o", "beginning", "-e", *careful) == b"v\nv\n"
        eventually(lambda: producer.produce(b"open", 0, 12) is ErrorCode.NONE, "one more has begun")
        row = described(shell, group)
        assert (row["lag"], row["visible_lag"]) == (7, 2)
        assert producer.end(5, is_committed=True) is ErrorCode.NONE
        eventually(lambda: described(shell, group)["visible_lag"] == 3, "it is committed")


@pytest.mark.slow
def test_without_transactions_both_are_the_same(shell: Shell, topic: str) -> None:
    group = f"readers-of-{topic}"
    shell.ok("topics", "create", topic)
    shell.ok("produce", "-t", topic, stdin=b"a\nb\nc\n")
    shell.ok("groups", "reset", group, "--topic", topic, "--to-offset", "1", "--execute")
    heads, line = shell.ok("groups", "describe", group).decode().splitlines()
    shown = dict(zip(heads.split(), line.split(), strict=True))
    assert (shown["LAG"], shown["VISIBLE-LAG"], shown["CONSUMER-ID"]) == ("2", "2", "-")


def test_brokers_that_do_not_know_the_question_are_asked_once_and_leave_a_dash() -> None:
    brokers = group_brokers({"a": 2, "b": 2})
    brokers.append(b"1", b"2", b"3")

    def describe(_node: BrokerId, request: consumer_group_describe.ConsumerGroupDescribeRequest) -> Any:
        rows = [
            consumer_group_describe.DescribedGroup(error_code=ErrorCode.NONE, group_id=one, group_state="Empty")
            for one in request.group_ids
        ]
        return consumer_group_describe.ConsumerGroupDescribeResponse(groups=tuple(rows))

    def fetch(_node: BrokerId, request: offset_fetch.OffsetFetchRequest) -> Any:
        row = offset_fetch.OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=1, metadata="", error_code=ErrorCode.NONE
        )
        topics = (offset_fetch.OffsetFetchResponseTopics(name="t", partitions=(row,)),)
        groups = [offset_fetch.OffsetFetchResponseGroup(group_id=one.group_id, topics=topics) for one in request.groups]
        return offset_fetch.OffsetFetchResponse(groups=tuple(groups))

    async def story(runtime: Runtime) -> Table:
        config = ConsumerConfig.from_properties(properties(brokers))
        async with Cluster(config, runtime) as cluster:
            return await GroupTables(cluster, config, runtime).offsets(["a", "b"], is_verbose=False)

    brokers.scripts[ApiKey.CONSUMER_GROUP_DESCRIBE] = describe
    brokers.scripts[ApiKey.OFFSET_FETCH] = fetch
    brokers.scripts[ApiKey.COUNT_VISIBLE_RECORDS] = lambda node, _request: brokers.kill(node)
    table = brokers.run(story)
    assert len(brokers.requests(CountVisibleRecordsRequest)) == 1
    assert [(row["group"], row["lag"], row["visible_lag"]) for row in table.rows] == [("a", 2, None), ("b", 2, None)]
    out = io.StringIO()
    table.write(out, OutputFormat.TABLE)
    heads, line, _ = out.getvalue().splitlines()
    shown = dict(zip(heads.split(), line.split(), strict=True))
    assert (shown["LAG"], shown["VISIBLE-LAG"]) == ("2", "-")
