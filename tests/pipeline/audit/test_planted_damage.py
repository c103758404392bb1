"""Every check finds what was planted for it, at the place where it was planted, and nothing else; sound logs have no findings.

All damage lies in one set of data directories, a topic for each kind, and is audited once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tests.pipeline.audit.planted import Log, Planted, batch, emptied, flipped, log_of, marker, run
from tidelog.coordinator.transaction.records import state_record
from tidelog.coordinator.transaction.states import TransactionState, TransactionStatus, TransactionVersion
from tidelog.model import TopicPartition
from tidelog.pipeline.audit.findings import Check, Finding
from tidelog.pipeline.audit.report import Report, compared_range
from tidelog.pipeline.audit.running import AuditPlan, audit
from tidelog.records.batch import HEADER_SIZE
from tidelog.records.builder import RecordBatchBuilder
from tidelog.storage.names import LOG, file_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

SOUND = log_of(run(6))
SIZE = len(run(1)[0])
HUNG, OPEN, OPEN_ELSEWHERE = 71, 72, 73


def plant_replicas(planted: Planted) -> None:
    forked = [*run(3), batch(15, text="other"), *run(2, first=20)]
    planted.add("forked", SOUND, SOUND.with_batches(forked), SOUND)
    planted.add("missing-batch", SOUND, SOUND, SOUND.with_batches([*run(2), *run(3, first=15)]))
    planted.add("other-epoch", SOUND, SOUND.with_batches([*run(5), *run(1, first=25, epoch=1)]), SOUND)
    planted.add(
        "above-the-mark",
        replace(SOUND, high_watermark=20),
        log_of([*run(4), *run(2, first=20, text="tail")], high_watermark=20),
    )
    planted.add("behind", SOUND, SOUND, log_of(run(2)))
    planted.add("short", SOUND, SOUND, replace(log_of(run(4)), high_watermark=30))
    planted.add(
        "trimmed",
        SOUND,
        Log(segments=[(10, b"".join(run(4, first=10)))], high_watermark=30),
        replace(SOUND, log_start=15),
    )
    planted.add("no-mark", SOUND, replace(SOUND.with_batches(run(6, text="other")), high_watermark=None), SOUND)
    planted.add("re-created", SOUND, SOUND, replace(SOUND.with_batches(run(6, text="old")), topic_id=UUID(int=8)))
    planted.add("lonely", SOUND, None)
    planted.add(
        "two-segments",
        SOUND,
        Log(segments=[(0, b"".join(run(3))), (15, b"".join(run(3, first=15)))], high_watermark=30),
        SOUND,
    )
    lacking = Log(segments=[(0, b"".join(run(2))), (20, b"".join(run(2, first=20)))], high_watermark=30)
    planted.add("missing-segment", SOUND, lacking, SOUND)


def plant_damage(planted: Planted) -> None:
    whole = b"".join(run(6))
    record = 3 * SIZE + HEADER_SIZE + 10
    planted.add("flipped", SOUND, SOUND, SOUND.with_batches([flipped(whole, record)]))
    planted.add("flipped-length", SOUND, SOUND.with_batches([flipped(whole, 3 * SIZE + 9)]), SOUND)
    planted.add("garbage", SOUND, SOUND.with_batches([*run(3), b"\x07" * SIZE, *run(2, first=20)]), SOUND)
    torn = replace(SOUND.with_batches([whole[:-9]]), high_watermark=25)
    planted.add("torn-tail", SOUND, SOUND, torn)
    planted.add("torn-below", SOUND, SOUND.with_batches([whole[:-9]]), SOUND)
    planted.add("preallocated", SOUND, SOUND.with_batches([whole, bytes(5_000)]), SOUND)
    planted.add(
        "half-written-checksum",
        SOUND,
        SOUND,
        replace(SOUND.with_batches([flipped(whole, 5 * SIZE + 70)]), high_watermark=25),
    )


def plant_order(planted: Planted) -> None:
    planted.add("gap", log_of([*run(3), *run(3, first=20)]))
    planted.add("late-beginning", Log(segments=[(0, b"".join(run(2, first=5)))], high_watermark=15))
    planted.add("repeated", log_of([*run(3), *run(1, first=10), *run(2, first=15)]))
    planted.add("epoch-falls", log_of([*run(2, epoch=4), *run(2, first=10, epoch=3)]))
    planted.add("epoch-grows", log_of([*run(2), *run(2, first=10, epoch=1), *run(1, first=20, epoch=7)]))
    compacted = Log(
        segments=[(0, run(1)[0] + emptied(run(1, first=10)[0])), (20, b"".join(run(2, first=20)))], high_watermark=30
    )
    original = Log(segments=[(0, b"".join(run(4))), (20, b"".join(run(2, first=20)))], high_watermark=30)
    planted.add("compacted", compacted, original, replace(original, cleaned=20))
    forked = [(0, batch(0, producer=(4, 0, 0)) + b"".join(run(3, first=5))), *original.segments[1:]]
    planted.add("compacted-fork", compacted, original, replace(original, segments=forked))
    dirty = [original.segments[0], (20, b"".join(run(2, first=20, text="dirty")))]
    planted.add("compacted-dirty", replace(compacted, segments=[compacted.segments[0], dirty[1]]), original, original)
    leftovers = dict.fromkeys((file_name(0, LOG) + ".cleaned", file_name(5, LOG) + ".deleted"), b"")
    planted.add("leftovers", replace(SOUND, files=leftovers), SOUND)


def written(sequences: Sequence[tuple[int, int]], producer_id: int = 9) -> Log:
    """A batch of one producer for each (epoch, base sequence)."""
    batches = [batch(number * 5, producer=(producer_id, *each)) for number, each in enumerate(sequences)]
    return log_of(batches)


def plant_sequences(planted: Planted) -> None:
    planted.add("sequences", written([(0, 7), (0, 12), (1, 0), (1, 5)]))
    planted.add("sequence-gap", written([(0, 0), (0, 5), (0, 15)]))
    planted.add("sequence-repeated", written([(0, 0), (0, 5), (0, 5), (0, 10)]))
    planted.add("sequence-wraps", written([(0, 2147483646), (0, 3), (0, 8)]))
    planted.add("sequence-epoch-begins-late", written([(0, 0), (1, 5)]))
    planted.add("producer-epoch-falls", written([(3, 0), (2, 5)]))
    cleaned = written([(0, 0), (0, 15), (0, 10)])
    planted.add("sequence-compacted", replace(cleaned, cleaned=10))


def plant_transactions(planted: Planted) -> None:
    def data(offset: int, producer: tuple[int, int, int]) -> bytes:
        return batch(offset, producer=producer, is_transactional=True)

    planted.add(
        "decided",
        log_of([data(0, (5, 0, 0)), data(5, (6, 0, 0)), marker(10, (6, 0)), marker(11, (5, 0), commits=False)]),
    )
    planted.add(
        "hanging", log_of([data(0, (HUNG, 0, 0)), marker(5, (HUNG, 0)), data(6, (HUNG, 0, 5)), data(11, (HUNG, 0, 10))])
    )
    planted.add("open", log_of([data(0, (OPEN, 0, 0)), data(5, (OPEN, 0, 5))]))
    planted.add("open-elsewhere", log_of([data(0, (OPEN_ELSEWHERE, 0, 0))]))
    planted.add("open-above", log_of([*run(1), data(5, (HUNG, 4, 0))], high_watermark=5))
    planted.add("passed-over", log_of([data(0, (HUNG, 0, 0)), data(5, (HUNG, 1, 0)), marker(10, (HUNG, 1))]))
    states = [
        _state(OPEN, TransactionStatus.ONGOING, "open"),
        _state(OPEN_ELSEWHERE, TransactionStatus.ONGOING, "decided"),
        _state(HUNG, TransactionStatus.ONGOING, "hanging"),
        _state(HUNG, TransactionStatus.COMPLETE_COMMIT, "hanging"),
    ]
    builder = RecordBatchBuilder()
    for state in states:
        record = state_record(state, TransactionVersion.TWO)
        builder.append(timestamp_ms=1_700_000_000_000, key=record.key, value=record.value)
    planted.add("__transaction_state", log_of([bytes(builder.build(0, 0))]))


def _state(producer_id: int, status: TransactionStatus, topic: str) -> TransactionState:
    return TransactionState(
        transactional_id=f"id-{producer_id}",
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=60_000,
        status=status,
        partitions=(TopicPartition(topic, 0),),
    )


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    made = Planted(tmp_path_factory.mktemp("planted"))
    made.add("sound", SOUND)
    for plant in (plant_replicas, plant_damage, plant_order, plant_sequences, plant_transactions):
        plant(made)
    made.write()
    return made


@pytest.fixture(scope="module")
def report(spark: SparkSession, planted: Planted) -> Report:
    return audit(spark, AuditPlan(directories=(str(planted.root),)))


def of_topic(report: Report, topic: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.topic == topic]


def told(report: Report, topic: str) -> list[tuple[Check, tuple[str, ...], int | None, int | None]]:
    """Check, replicas, offset and position of each finding."""
    return [(each.check, each.replicas, each.offset, each.position) for each in of_topic(report, topic)]


@pytest.mark.parametrize(
    "topic",
    [
        "sound", "above-the-mark", "behind", "trimmed", "no-mark", "lonely", "two-segments", "torn-tail", "preallocated",
        "half-written-checksum", "epoch-grows", "compacted", "leftovers", "sequences", "sequence-wraps", "decided", "open",
        "open-above", "__transaction_state",
    ],
)  # fmt: skip
def test_nothing_is_found_where_nothing_is_wrong(report: Report, topic: str) -> None:
    assert of_topic(report, topic) == []


def test_other_bytes_with_a_good_checksum_are_found_in_the_replica_that_stands_alone(report: Report) -> None:
    (found,) = of_topic(report, "forked")
    assert (found.check, found.replicas, found.offset, found.position) == (Check.REPLICAS, ("2",), 15, 3 * SIZE)
    assert found.file is not None
    assert found.file.endswith("broker-2/forked-0/00000000000000000000.log")
    assert "2 has other bytes than 1" in found.what


def test_a_batch_that_one_replica_lacks_is_a_gap_there_and_missing_beside_the_others(report: Report) -> None:
    assert told(report, "missing-batch") == [
        (Check.REPLICAS, ("3",), 10, 2 * SIZE),
        (Check.OFFSETS, ("3",), 15, 2 * SIZE),
    ]
    assert "3 lacks the batch" in of_topic(report, "missing-batch")[0].what


def test_a_byte_outside_the_checksum_counts_when_replicas_are_compared(report: Report) -> None:
    (found,) = of_topic(report, "other-epoch")
    assert (found.check, found.replicas, found.offset) == (Check.REPLICAS, ("2",), 25)
    assert "leader_epoch 1 instead of 0" in found.what


def test_a_log_that_ends_below_its_own_high_watermark_is_found(report: Report) -> None:
    assert [(each.check, each.replicas, each.offset) for each in of_topic(report, "short")] == [
        (Check.HIGH_WATERMARK, ("3",), 20),
        (Check.REPLICAS, ("3",), 20),
    ]


def test_another_topic_of_the_same_name_is_told_and_not_compared(report: Report) -> None:
    assert [(each.check, each.replicas) for each in of_topic(report, "re-created")] == [(Check.TOPIC_ID, ("3",))]


def test_a_segment_that_is_gone_from_the_middle_is_found(report: Report) -> None:
    assert told(report, "missing-segment") == [(Check.REPLICAS, ("2",), 10, 2 * SIZE), (Check.OFFSETS, ("2",), 20, 0)]


def test_a_flipped_byte_breaks_the_checksum_and_the_agreement(report: Report) -> None:
    assert told(report, "flipped") == [
        (Check.CHECKSUM, ("3",), 15, 3 * SIZE),
        (Check.REPLICAS, ("3",), 15, 3 * SIZE),
    ]
    assert "its checksum does not hold" in of_topic(report, "flipped")[1].what


@pytest.mark.parametrize(("topic", "position"), [("flipped-length", 3 * SIZE), ("garbage", 3 * SIZE)])
def test_bytes_that_are_no_batch_are_found_where_they_begin(report: Report, topic: str, position: int) -> None:
    damage = [each for each in of_topic(report, topic) if each.check in {Check.DAMAGE, Check.CHECKSUM}]
    assert [(each.replicas, each.offset, each.position) for each in damage] == [(("2",), 15, position)]
    assert Check.REPLICAS in {each.check for each in of_topic(report, topic)}


def test_a_torn_tail_above_the_high_watermark_is_told_but_no_finding(report: Report) -> None:
    assert {(each.topic, each.replicas, each.offset) for each in report.torn_tails} == {
        ("torn-tail", ("3",), 25),
        ("half-written-checksum", ("3",), 25),
    }


def test_the_same_tail_below_the_high_watermark_is_damage(report: Report) -> None:
    assert {each.check for each in of_topic(report, "torn-below")} == {
        Check.DAMAGE,
        Check.HIGH_WATERMARK,
        Check.REPLICAS,
    }


@pytest.mark.parametrize(
    ("topic", "check", "offset", "what"),
    [
        ("gap", Check.OFFSETS, 20, "gap: offsets 15 to 19 are missing"),
        ("late-beginning", Check.OFFSETS, 5, "gap: offsets 0 to 4 are missing"),
        ("repeated", Check.OFFSETS, 10, "repeated: the log was at offset 15 already"),
        ("epoch-falls", Check.EPOCH, 10, "leader epoch 3 after 4"),
        ("sequence-gap", Check.SEQUENCE, 10, "producer 9: gap: sequence 15 where 10 comes next"),
        ("sequence-repeated", Check.SEQUENCE, 10, "producer 9: repeated: sequence 5 where 10 comes next"),
        ("sequence-epoch-begins-late", Check.SEQUENCE, 5, "producer 9: epoch 1 begins at sequence 5"),
        ("producer-epoch-falls", Check.SEQUENCE, 5, "producer 9: epoch 2 after 3"),
        ("sequence-compacted", Check.SEQUENCE, 10, "producer 9: repeated: sequence 10 where 20 comes next"),
        (
            "passed-over",
            Check.TRANSACTION,
            5,
            "producer 71: epoch 1 writes, and the transaction of epoch 0 was never decided",
        ),
    ],
)
def test_what_is_wrong_in_every_replica_is_found_in_each(
    report: Report, topic: str, check: Check, offset: int, what: str
) -> None:
    found = {(each.check, each.replicas, each.offset, each.what) for each in of_topic(report, topic)}
    assert found == {(check, (replica,), offset, what) for replica in ("1", "2", "3")}


def test_replicas_of_a_compacted_partition_may_have_lost_batches_but_not_changed_them(report: Report) -> None:
    (found,) = of_topic(report, "compacted-fork")
    assert (found.check, found.replicas, found.offset) == (Check.REPLICAS, ("3",), 0)


def test_what_compaction_has_not_come_to_is_equal_byte_by_byte(report: Report) -> None:
    (found,) = of_topic(report, "compacted-dirty")
    assert (found.check, found.replicas, found.offset, found.count) == (Check.REPLICAS, ("1",), 20, 2)


def test_a_transaction_that_its_coordinator_calls_ended_hangs(report: Report) -> None:
    (found,) = of_topic(report, "hanging")
    assert (found.check, found.offset) == (Check.TRANSACTION, 6)
    assert "producer 71, epoch 0: never decided, and __transaction_state knows of no transaction" in found.what


def test_a_transaction_that_is_under_way_elsewhere_hangs_here(report: Report) -> None:
    (found,) = of_topic(report, "open-elsewhere")
    assert "the transaction of 'id-73' under way is not in this partition" in found.what
    assert report.known_open == 2


def test_what_was_not_compared_is_told(report: Report) -> None:
    notes = "\n".join(report.notes)
    assert "only one replica was given: lonely-0" in notes
    assert "no high watermark of theirs is known: no-mark-0 on 2" in notes
    assert "behind-0 on 3 (below 10 of 30)" in notes
    assert "00000000000000000000.log.cleaned" in notes


def test_replicas_are_compared_between_the_second_start_and_the_second_high_watermark(report: Report) -> None:
    assert compared_range(report.by_partition[TopicPartition("trimmed", 0)]) == (10, 30)
    assert compared_range(report.by_partition[TopicPartition("behind", 0)]) == (0, 30)
    assert compared_range(report.by_partition[TopicPartition("lonely", 0)]) is None
