"""Whatever happens in whatever order, a group's offsets are what a list of all events says; compaction changes nothing (G05)."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.coordinator.group.classic_room import GROUP
from tests.coordinator.group.offset_room import LogDriver, OffsetRoom
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ErrorCode

Partition = tuple[str, int]

RETENTION_MS = 100_000
CHECK_MS = 10_000
TOPICS = ("orders", "payments")
PARTITIONS = [(topic, index) for topic in TOPICS for index in (0, 1)]
partitions = st.sampled_from(PARTITIONS)
producers = st.sampled_from((7, 8, 9))
offsets = st.integers(0, 1_000)


class OffsetsModel(RuleBasedStateMachine):
    """Beside the machine stands a model: what is visible, and for each open transaction what it wrote and when."""

    drive: type[LogDriver] = LogDriver

    @initialize()
    def begin(self) -> None:
        checks = GroupSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)
        self.room = OffsetRoom(settings=checks, drive=self.drive)
        self.room.topics.is_whole = True
        for topic in TOPICS:
            self.room.topics.create(topic)
        self.steps = 0
        self.visible: dict[Partition, tuple[int, int, float]] = {}  # step, offset, time
        self.pending: dict[int, dict[Partition, tuple[int, int, float]]] = {}

    def stamp(self, offset: int) -> tuple[int, int, float]:
        self.steps += 1
        return self.steps, offset, self.room.driver.monotonic_ms

    @rule(partition=partitions, offset=offsets)
    def commit(self, partition: Partition, offset: int) -> None:
        assert self.room.commit({partition: offset}) == {partition: ErrorCode.NONE}
        self.visible[partition] = self.stamp(offset)

    @rule(producer=producers, committed=st.dictionaries(partitions, offsets, min_size=1))
    def commit_in_transaction(self, producer: int, committed: dict[Partition, int]) -> None:
        codes = self.room.commit_in_transaction(producer, committed)
        assert codes == dict.fromkeys(committed, ErrorCode.NONE)
        for partition, offset in committed.items():
            self.pending.setdefault(producer, {})[partition] = self.stamp(offset)

    @rule(producer=producers, partition=partitions, offset=offsets)
    def commit_late(self, producer: int, partition: Partition, offset: int) -> None:
        """The log refuses it: the transaction has ended on the way. Nothing has happened then (T10)."""
        self.room.driver.append_error = ErrorCode.INVALID_TXN_STATE
        refused = self.room.commit_in_transaction(producer, {partition: offset})
        self.room.driver.append_error = None
        assert refused == {partition: ErrorCode.INVALID_TXN_STATE}

    @rule(producer=producers, partition=partitions, offset=offsets)
    def commit_of_another_generation(self, producer: int, partition: Partition, offset: int) -> None:
        """The group has no members, so whoever claims to be one has been put out (G06)."""
        refused = self.room.commit_in_transaction(producer, {partition: offset}, member_id="zombie", generation=1)
        assert refused[partition] in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)

    @rule(producer=producers, is_committed=st.booleans())
    def end(self, producer: int, is_committed: bool) -> None:
        self.room.log.end(producer, is_committed=is_committed)
        for partition, written in self.pending.pop(producer, {}).items():
            if is_committed:
                self.visible[partition] = max(written, self.visible.get(partition, written))

    @rule(partition=partitions)
    def delete(self, partition: Partition) -> None:
        self.room.delete(partition)
        self.forget(partition)

    @rule(topic=st.sampled_from(TOPICS), is_seen_gone=st.booleans())
    def delete_topic(self, topic: str, is_seen_gone: bool) -> None:
        """And make it again, which the coordinator hears of before or after it hears that the old one is gone."""
        self.room.topics.delete(topic)
        if is_seen_gone:
            self.room.driver.topics_changed()
        self.room.topics.create(topic)
        self.room.driver.topics_changed()
        self.room.wait_ms(0)
        self.forget_topic(topic)

    @rule(topic=st.sampled_from(TOPICS), is_compacted=st.booleans())
    def delete_topic_while_nobody_looks(self, topic: str, is_compacted: bool) -> None:
        """Whoever takes over has never heard of it; it is made again soon after."""
        self.room.topics.delete(topic)
        self.room.log.compact() if is_compacted else self.room.driver.fail_over()
        self.room.wait_ms(0)
        self.room.topics.create(topic)
        self.room.driver.topics_changed()
        self.forget_topic(topic)

    @rule()
    def delete_group(self) -> None:
        self.room.delete_group()
        self.visible.clear()
        self.pending.clear()

    @rule(interval=st.sampled_from((1, CHECK_MS, RETENTION_MS / 2, RETENTION_MS)))
    def wait(self, interval: float) -> None:
        """What is too old may go; if a whole interval passes after it was, it must."""
        begin_ms = self.room.driver.monotonic_ms
        self.room.wait_ms(interval)
        shown = self.room.fetch()
        for partition, (_, _, written_ms) in list(self.visible.items()):
            is_old = begin_ms + interval - written_ms >= RETENTION_MS and not self.is_pending(partition)
            must_go = is_old and interval >= CHECK_MS and begin_ms - written_ms >= RETENTION_MS
            if must_go or (is_old and partition not in shown):
                del self.visible[partition]

    @rule()
    def fail_over(self) -> None:
        self.room.driver.fail_over()

    @rule()
    def compact(self) -> None:
        self.room.log.compact()

    @invariant()
    def shows_what_the_model_shows(self) -> None:
        shown = {partition: offset for partition, (_, offset, _) in self.visible.items()}
        assert self.room.fetch() == shown
        unstable = -ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert self.room.fetch(*PARTITIONS, stable=True) == {
            partition: unstable if self.is_pending(partition) else shown.get(partition, -1) for partition in PARTITIONS
        }
        assert GROUP in self.room.book.groups or not (shown or any(self.pending.values()))

    def is_pending(self, partition: Partition) -> bool:
        return any(partition in written for written in self.pending.values())

    def forget_topic(self, topic: str) -> None:
        for partition in PARTITIONS:
            if partition[0] == topic:
                self.forget(partition)

    def forget(self, partition: Partition) -> None:
        self.visible.pop(partition, None)
        for written in self.pending.values():
            written.pop(partition, None)


TestOffsetsModel = pytest.mark.slow(OffsetsModel.TestCase)
OffsetsModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.proof
def test_long_runs_show_what_the_model_shows() -> None:
    run_state_machine_as_test(OffsetsModel, settings=settings(max_examples=700, stateful_step_count=80, deadline=None))
