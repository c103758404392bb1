"""A room of consumers who commit: says in one word what they commit, fetch and delete; its log has transactions and can be compacted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.coordinator.driving import Driver
from tests.coordinator.group.classic_room import GROUP, Room
from tidelog.coordinator import CoordinatorRecord, Decision, Machine, Written
from tidelog.coordinator.group.administration import AdminArea
from tidelog.coordinator.group.book import GroupBook, TopicView
from tidelog.coordinator.group.classic import ClassicArea
from tidelog.coordinator.group.consumer import ConsumerArea
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.offsets import OffsetsArea
from tidelog.model import ErrorCode, ProducerIdentity, TopicId
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

COMMIT_VERSION, FETCH_VERSION, DELETE_VERSION, TRANSACTIONAL_VERSION = 9, 9, 0, 5
MARKER = CoordinatorRecord(b"\x7f\xff", None)  # of a kind that nobody knows


class FakeTopics:
    """Topics come and go; each has an id that no other has had."""

    def __init__(self) -> None:
        self.views: dict[str, TopicView] = {}
        self.version = 0
        self.is_whole = False

    def create(self, name: str) -> None:
        self.version += 1
        self.views[name] = TopicView(name, UUID(int=self.version), (frozenset(),) * 3)

    def delete(self, name: str) -> None:
        self.version += 1
        del self.views[name]

    def by_name(self, name: str) -> TopicView | None:
        return self.views.get(name)

    def id_of(self, name: str) -> TopicId | None:
        view = self.by_name(name)
        return None if view is None else view.topic_id

    def by_id(self, topic_id: TopicId) -> TopicView | None:
        return next((view for view in self.views.values() if view.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return sorted(self.views)


class LogDriver(Driver):
    """A log in which records may belong to transactions, with markers, that can be compacted."""

    def __init__(self, make: Callable[[], Machine]) -> None:
        self.producers: dict[int, int] = {}  # by the offset of a record
        self.markers: dict[int, tuple[int, bool]] = {}  # by the offset of the marker
        self.record_counts: list[int] = []  # of all decisions
        self.before_loaded: Callable[[], None] = lambda: None  # happens between the last record and the first request
        super().__init__(make)

    def _carry_out(self, decision: Decision) -> bool:
        self.record_counts.append(len(decision.records))
        return super()._carry_out(decision)

    def append(self, records: Iterable[CoordinatorRecord]) -> None:
        """Only the records of a decision: the broker has died before it did the rest."""
        for record in records:
            self.write(record)

    def write(self, record: CoordinatorRecord, producer: ProducerIdentity | None = None) -> None:
        if producer is not None:
            self.producers[len(self.log)] = producer.producer_id
        super().write(record, producer)

    def end(self, producer_id: int, *, is_committed: bool) -> None:
        self.markers[len(self.log)] = (producer_id, is_committed)
        self.machine.end_transaction(producer_id, is_committed=is_committed, offset=len(self.log))
        self.log.append(MARKER)

    def fail_over(self) -> None:
        self._load(range(len(self.log)))

    def compact(self) -> None:
        """The cleaner has run, and another broker takes over: of each key the newest is left, and no tombstone."""
        self._load(self._kept())

    def _load(self, offsets: Iterable[int]) -> None:
        for token, command in list(self.waiting.items()):
            self._reply(token, self.machine.refusal(command, ErrorCode.NOT_COORDINATOR))
        self.timers.clear()
        self.machine = self._make()
        self._replay(offsets)
        self.before_loaded()
        self._take_over()

    def _replay(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            if offset in self.markers:
                producer_id, is_committed = self.markers[offset]
                self.machine.end_transaction(producer_id, is_committed=is_committed, offset=offset)
            else:
                self.machine.replay(self.log[offset], Written(offset, self.producers.get(offset, -1), 0))

    def _kept(self) -> list[int]:
        """Nothing from the first record of an open transaction on is touched; what was aborted is gone."""
        fates = {offset: self._fate(offset) for offset in self.producers}
        end = min((offset for offset, fate in fates.items() if fate is None), default=len(self.log))
        newest = {
            self.log[offset].key: offset
            for offset in range(end)
            if offset not in self.markers and fates.get(offset, True)
        }
        return [
            offset
            for offset in range(len(self.log))
            if offset >= end
            or offset in self.markers
            or (newest.get(self.log[offset].key) == offset and self.log[offset].value is not None)
        ]

    def _fate(self, offset: int) -> bool | None:
        """Whether the transaction of a record was committed; None if it is open."""
        later = (fate for at, fate in sorted(self.markers.items()) if at > offset)
        return next((fate for producer_id, fate in later if producer_id == self.producers[offset]), None)


@dataclass
class OffsetRoom(Room):
    """All of groups: members of both protocols, offsets, administration."""

    topics: FakeTopics = field(default_factory=FakeTopics)
    drive: type[LogDriver] = LogDriver

    def __post_init__(self) -> None:
        super().__post_init__()
        self.log = self.driver = self.drive(self._make)

    def _make(self) -> Machine:
        self.book = GroupBook(self.topics)
        self.offsets = OffsetsArea(self.book, self.settings)
        consumers = ConsumerArea(self.book, self.settings, self.randomness)
        classic = ClassicArea(self.book, self.settings, self.randomness, elsewhere=consumers.classic_requests)
        admin = AdminArea(self.book, self.settings, self.offsets)
        return GroupMachine(self.book, [classic, self.offsets, consumers, admin])

    def commit(
        self, offsets: dict[tuple[str, int], int], *, version: int = COMMIT_VERSION, **said: Any
    ) -> dict[tuple[str, int], ErrorCode]:
        """Commit, and what is said about each partition."""
        response = self.driver.ask(commit_request(offsets, **said), version=version)
        return {
            (topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }

    def fetch(self, *asked: tuple[str, int], group_id: str = GROUP, stable: bool = False) -> dict[tuple[str, int], int]:
        """What was committed: for these partitions, or for all that there is. Errors are negative numbers below -1."""
        topics = tuple(OffsetFetchRequestTopics(name=topic, partition_indexes=(index,)) for topic, index in asked)
        group = self.fetched(OffsetFetchRequestGroup(group_id=group_id, topics=topics or None), stable=stable)
        assert group.error_code is ErrorCode.NONE
        return {
            (topic.name, partition.partition_index): -partition.error_code or partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }

    def fetched(self, group: OffsetFetchRequestGroup, *, stable: bool = False) -> Any:
        request = OffsetFetchRequest(groups=(group,), require_stable=stable)
        (answer,) = self.driver.ask(request, version=FETCH_VERSION).groups
        return answer

    def delete(self, *partitions: tuple[str, int], group_id: str = GROUP) -> Any:
        topics = tuple(
            OffsetDeleteRequestTopic(name=topic, partitions=(OffsetDeleteRequestPartition(partition_index=index),))
            for topic, index in partitions
        )
        return self.driver.ask(OffsetDeleteRequest(group_id=group_id, topics=topics), version=DELETE_VERSION)

    def delete_group(self, group_id: str = GROUP) -> ErrorCode:
        (result,) = self.driver.ask(DeleteGroupsRequest(groups_names=(group_id,)), version=2).results
        code: ErrorCode = result.error_code
        return code

    def commit_in_transaction(
        self,
        producer_id: int,
        offsets: dict[tuple[str, int], int],
        *,
        version: int = TRANSACTIONAL_VERSION,
        **said: Any,
    ) -> dict[tuple[str, int], ErrorCode]:
        """Commit as part of a producer's transaction, and what is said about each partition."""
        response = self.driver.ask(transactional_request(producer_id, offsets, **said), version=version)
        return {
            (topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }


def commit_request(
    offsets: dict[tuple[str, int], int],
    *,
    group_id: str = GROUP,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    metadata: str | None = "",
    retention_ms: int = -1,
    leader_epoch: int = -1,
    topic_id: UUID | None = None,
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        group_instance_id=instance_id,
        retention_time_ms=retention_ms,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    ),
                ),
            )
            for (topic, index), offset in offsets.items()
        ),
    )


def transactional_request(
    producer_id: int,
    offsets: dict[tuple[str, int], int],
    *,
    group_id: str = GROUP,
    producer_epoch: int = 0,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    metadata: str | None = "",
    leader_epoch: int = -1,
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=f"t{producer_id}",
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    ),
                ),
            )
            for (topic, index), offset in offsets.items()
        ),
    )
