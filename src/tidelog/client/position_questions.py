"""Asking new leaders whether their logs still have what was read from the old ones (KIP-320)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from tidelog.client.cluster import Cluster
from tidelog.client.errors import BrokersUnreachable, ClientError, ConnectionLost, FetchFailed, UnsupportedApi
from tidelog.client.position_checks import EpochEnd, PositionCheck
from tidelog.client.verdict import SAYS_METADATA_IS_STALE
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.wire.messages import offset_for_leader_epoch as wire

_CONSUMER = -1


class PositionQuestions:
    """One round of questions to the leaders of many partitions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def ask(self, checks: Iterable[PositionCheck]) -> dict[PositionCheck, EpochEnd | ClientError | None]:
        """What each leader answers: where the epoch ends, an error that lasts, None from one that knows no such question.

        Left out are those who could not answer yet; metadata is asked for again where that may help.
        """
        by_leader: dict[BrokerId, list[PositionCheck]] = {}
        for check in checks:
            leader = self._cluster.metadata.leader_of(check.topic_partition)
            if leader is None or leader.leader_epoch != check.leader_epoch:
                self._cluster.want_refresh(check.topic_partition.topic)
            else:
                by_leader.setdefault(leader.broker_id, []).append(check)
        answers: dict[PositionCheck, EpochEnd | ClientError | None] = {}
        async with asyncio.TaskGroup() as group:
            for node, led in by_leader.items():
                group.create_task(self._ask_leader(node, led, answers))
        return answers

    async def _ask_leader(
        self,
        node: BrokerId,
        checks: Sequence[PositionCheck],
        answers: dict[PositionCheck, EpochEnd | ClientError | None],
    ) -> None:
        try:
            response = await self._cluster.request(node, _request(checks))
        except (ConnectionLost, BrokersUnreachable):
            self._cluster.want_refresh()
            return
        except UnsupportedApi:
            answers.update(dict.fromkeys(checks))
            return
        asked = {check.topic_partition: check for check in checks}
        for topic in response.topics:
            for row in topic.partitions:
                check = asked.get(TopicPartition(topic.topic, row.partition))
                if check is None:
                    continue
                if row.error_code is ErrorCode.NONE:
                    answers[check] = EpochEnd(row.leader_epoch, row.end_offset)
                elif row.error_code in SAYS_METADATA_IS_STALE:
                    self._cluster.want_refresh(topic.topic)
                elif not row.error_code.is_retriable and row.error_code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                    answers[check] = FetchFailed(check.topic_partition, row.error_code)


def _request(checks: Iterable[PositionCheck]) -> wire.OffsetForLeaderEpochRequest:
    topics: dict[str, list[wire.OffsetForLeaderPartition]] = {}
    for check in checks:
        topics.setdefault(check.topic_partition.topic, []).append(
            wire.OffsetForLeaderPartition(
                partition=check.topic_partition.index,
                current_leader_epoch=check.leader_epoch,
                leader_epoch=check.fetched_epoch,
            )
        )
    return wire.OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=tuple(wire.OffsetForLeaderTopic(topic=name, partitions=tuple(rows)) for name, rows in topics.items()),
    )
