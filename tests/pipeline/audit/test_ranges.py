"""What must be equal follows from what the replicas claim and how far their logs reach."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.model import TopicPartition
from tidelog.pipeline.audit.claims import LogClaims
from tidelog.pipeline.audit.copies import difference
from tidelog.pipeline.audit.findings import Check
from tidelog.pipeline.audit.ranges import LogRange, Measured, findings_of, ranges_of
from tidelog.pipeline.segments.directories import DataDirectory, PartitionFiles, SegmentFile

ORDERS = TopicPartition("orders", 0)


def claims(
    broker: int,
    *,
    segments: tuple[int, ...] = (0,),
    mark: int | None = 100,
    start: int | None = None,
    topic_id: int | None = 7,
    is_compacted: bool = False,
) -> LogClaims:
    directory = DataDirectory(path=f"/b{broker}", replica=str(broker), broker=broker, cluster_id=None)
    files = tuple(
        SegmentFile(base_offset=base, path=f"/b{broker}/orders-0/{base:020d}.log", size=10) for base in segments
    )
    return LogClaims(
        files=PartitionFiles(directory=directory, topic_partition=ORDERS, segments=files),
        topic_id=None if topic_id is None else UUID(int=topic_id),
        high_watermark=mark,
        log_start_offset=segments[0] if start is None else start,
        is_compacted=is_compacted,
        was_stopped_cleanly=False,
    )


def ranged(logs: list[LogClaims], **measured: Measured) -> list[LogRange]:
    """The ranges, where broker 1 is called `b1`."""
    return ranges_of(logs, {(name.removeprefix("b"), ORDERS): each for name, each in measured.items()})


def test_bytes_are_equal_everywhere_unless_a_replica_was_compacted() -> None:
    assert [each.strict_from for each in ranged([claims(1), claims(2, segments=(0, 40))])] == [0, 0]


@pytest.mark.parametrize("is_seen_in_a_batch", [False, True])
def test_of_a_compacted_partition_only_what_no_replica_can_have_cleaned(is_seen_in_a_batch: bool) -> None:
    logs = [claims(1, segments=(0, 40)), claims(2, segments=(0, 60), is_compacted=not is_seen_in_a_batch)]
    ranges = ranged(logs, b1=Measured(is_cleaned=is_seen_in_a_batch))
    assert [(each.strict_from, each.is_compacted) for each in ranges] == [(60, True), (60, True)]


def test_the_reference_is_who_would_be_elected() -> None:
    measured = {
        "b1": Measured(end_offset=120, last_epoch=3),
        "b2": Measured(end_offset=90, last_epoch=4),
        "b3": Measured(end_offset=95, last_epoch=4),
    }
    assert [each.is_reference for each in ranged([claims(1), claims(2), claims(3)], **measured)] == [False, False, True]


def test_another_topic_id_is_judged_by_the_majority() -> None:
    ranges = ranged([claims(1, topic_id=8), claims(2), claims(3), claims(4, topic_id=None)])
    assert [each.is_judged for each in ranges] == [False, True, True, True]
    (found,) = findings_of(ranges, replica_count=None, is_live=True)
    assert (found.check, found.replicas) == (Check.TOPIC_ID, ("1",))


def test_a_log_begins_after_what_was_deleted_while_it_was_read() -> None:
    (each,) = ranged([claims(1, segments=(0, 40, 80))], b1=Measured(vanished_up_to=0))
    assert each.start == 40


def test_an_empty_active_segment_says_where_the_log_ends() -> None:
    (each,) = ranged([claims(1, segments=(0, 100))], b1=Measured(end_offset=90))
    assert each.end_offset == 100
    assert findings_of([each], replica_count=None, is_live=False) == []


def test_a_log_below_its_own_high_watermark_is_too_short_unless_it_is_being_written() -> None:
    ranges = ranged([claims(1)], b1=Measured(end_offset=90))
    (found,) = findings_of(ranges, replica_count=None, is_live=False)
    assert (found.check, found.offset) == (Check.HIGH_WATERMARK, 90)
    assert findings_of(ranges, replica_count=None, is_live=True) == []


def test_too_few_replicas_are_a_finding_where_their_number_is_known() -> None:
    ranges = ranged([claims(1), claims(2)], b1=Measured(end_offset=100), b2=Measured(end_offset=100))
    assert findings_of(ranges, replica_count=2, is_live=False) == []
    (found,) = findings_of(ranges, replica_count=3, is_live=False)
    assert (found.check, found.replicas, found.topic) == (Check.MISSING_REPLICA, ("1", "2"), "orders")


def copy(replica: str, *, digest: int = 1, crc_ok: bool = True, **changes: int) -> dict[str, object]:
    sound = {"topic": "orders", "partition": 0, "base_offset": 20, "last_offset": 24, "leader_epoch": 0, "size": 90}
    place = {"replica": replica, "segment": "0.log", "position": 400, "crc": 5}
    return {**sound, **place, "digest": digest, "crc_ok": crc_ok, **changes}


def test_the_odd_one_out_differs_from_the_majority() -> None:
    members = ranged([claims(1), claims(2), claims(3)])
    found = difference([copy("1", digest=2, crc=6), copy("2"), copy("3")], members, count=4)
    assert (found.replicas, found.file, found.position, found.count) == (("1",), "/b1/orders-0/0.log", 400, 4)
    assert found.what == "1 has other bytes than 2 (crc 6 instead of 5)"


def test_of_two_the_one_whose_checksum_holds_is_believed() -> None:
    members = ranged([claims(1), claims(2)])
    found = difference([copy("1", digest=2, crc_ok=False), copy("2")], members, count=1)
    assert found.what == "1 has other bytes than 2 (its checksum does not hold)"


def test_who_lacks_a_batch_is_named_only_if_it_should_have_it() -> None:
    members = ranged([claims(1), claims(2), claims(3, mark=20), claims(4, start=30)])
    found = difference([copy("1")], members, count=1)
    assert found.what == "2 lacks the batch that 1 has"
