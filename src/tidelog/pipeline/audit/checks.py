"""The checks, in SQL over rows of the format "tidelog-segments".

`batches` are those rows. `logs` has a row per replica of a partition with what `ranges.py` says of it, `partitions` one per partition. Rows are
looked at in the order of the file: a repeated offset shows only there. A batch whose checksum does not hold is believed nothing, so it is
left out where others are compared with the one before; a gap is told only where nothing damaged lies in between, which would be told twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.audit.findings import Check
from tidelog.pipeline.audit.ranges import LogRange
from tidelog.pipeline.segments.walking import SHORTER, VANISHED, ZEROS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOGS: Final = (
    "replica string, topic string, partition int, start bigint, hw bigint, last_segment bigint, bit int, is_judged boolean, "
    "is_reference boolean, is_compacted boolean, is_clean boolean, is_live boolean"
)
PARTITIONS: Final = (
    "topic string, partition int, strict_from bigint, logs array<struct<bit: int, start: bigint, hw: bigint>>"
)

_MEASURED: Final = f"""
SELECT replica, topic, partition,
       count_if(reason IS NULL) AS batch_count,
       coalesce(sum(record_count) FILTER (WHERE crc_ok), 0) AS record_count,
       max(last_offset) FILTER (WHERE crc_ok) + 1 AS end_offset,
       coalesce(max(leader_epoch) FILTER (WHERE crc_ok), -1) AS last_epoch,
       coalesce(bool_or(crc_ok AND (has_delete_horizon OR record_count <> last_offset - base_offset + 1)), false)
         AS is_cleaned,
       max(segment_base_offset) FILTER (WHERE reason = '{VANISHED}') AS vanished_up_to,
       coalesce(bool_or(is_transactional AND producer_id >= 0), false) AS has_transactions
FROM {{batches}}
GROUP BY replica, topic, partition
"""

# Each row beside the sound one before it in its log, and beside the one before it of its producer; all of it after one shuffle.
# Of a log that is being written, nothing from the high watermark on is looked at.
_ORDERED: Final = """
SELECT * FROM (
  SELECT /*+ BROADCAST(l) */ b.*, l.hw, l.last_segment, l.is_compacted, l.is_clean, l.is_live,
         b.crc_ok IS TRUE AS is_sound,
         lag(CASE WHEN crc_ok THEN last_offset END) IGNORE NULLS OVER log AS before_last,
         lag(CASE WHEN crc_ok THEN leader_epoch END) IGNORE NULLS OVER log AS before_epoch,
         count_if(crc_ok IS NOT TRUE) OVER log AS damage_count,
         lag(crc_ok IS NOT TRUE) OVER log AS is_after_damage
  FROM {batches} b JOIN {logs} l USING (replica, topic, partition)
  WHERE l.is_judged
  WINDOW log AS (PARTITION BY replica, topic, partition ORDER BY segment_base_offset, position)
)
WHERE NOT is_live OR coalesce(last_offset, before_last + 1, segment_base_offset) < hw
"""

_BESIDE_PRODUCER: Final = """
SELECT *, producer_epoch > before_producer_epoch AS is_new_epoch,
       pmod(base_sequence - expected, 2147483648) AS ahead, damage_count = before_damage_count AS is_intact
FROM (
  SELECT *,
         lag(CASE WHEN is_numbered THEN producer_epoch END) IGNORE NULLS OVER producer AS before_producer_epoch,
         lag(CASE WHEN is_numbered THEN damage_count END) IGNORE NULLS OVER producer AS before_damage_count,
         lag(CASE WHEN is_numbered THEN pmod(base_sequence + last_offset - base_offset + 1, 2147483648) END)
           IGNORE NULLS OVER producer AS expected,
         lag(CASE WHEN is_of_transaction THEN struct(producer_epoch, control_type, damage_count) END)
           IGNORE NULLS OVER producer AS before_of_transaction
  FROM (
    SELECT *, is_sound AND producer_id >= 0 AND base_sequence >= 0 AND control_type IS NULL AS is_numbered,
           is_sound AND producer_id >= 0 AND is_transactional AS is_of_transaction
    FROM {ordered}
  )
  WINDOW producer AS (PARTITION BY replica, topic, partition, producer_id ORDER BY segment_base_offset, position)
)
"""

_NEXT: Final = "coalesce(before_last + 1, segment_base_offset)"
# What a crash may leave at the end of the active segment, and the next start cuts off.
_IS_TAIL: Final = (
    f"segment_base_offset = last_segment AND NOT is_clean AND coalesce(base_offset, {_NEXT}) >= coalesce(hw, 0)"
)
_IS_EMPTY: Final = f"reason <=> '{ZEROS}' AND segment_base_offset = last_segment"
_IS_LIVELY: Final = f"is_live AND (reason <=> '{VANISHED}' OR reason <=> '{SHORTER}')"

_DAMAGE: Final = f"""
CASE WHEN NOT is_sound AND NOT ({_IS_EMPTY}) AND NOT ({_IS_LIVELY}) THEN struct(
  CASE WHEN {_IS_TAIL} THEN '{Check.TORN_TAIL.value}'
       WHEN reason IS NULL THEN '{Check.CHECKSUM.value}' ELSE '{Check.DAMAGE.value}' END AS check,
  coalesce(concat(size, ' bytes: ', reason), 'the checksum does not hold') AS what) END
"""

_EPOCH: Final = f"""
CASE WHEN is_sound AND leader_epoch < before_epoch THEN struct(
  '{Check.EPOCH.value}' AS check, concat('leader epoch ', leader_epoch, ' after ', before_epoch) AS what) END
"""

_OFFSET: Final = f"""
CASE WHEN is_sound AND (
    base_offset <= before_last OR (NOT is_compacted AND is_after_damage IS NOT TRUE AND base_offset > {_NEXT})
  ) THEN struct(
  '{Check.OFFSETS.value}' AS check,
  CASE WHEN base_offset < {_NEXT} THEN concat('repeated: the log was at offset ', {_NEXT}, ' already')
       ELSE concat('gap: offsets ', {_NEXT}, ' to ', base_offset - 1, ' are missing') END AS what) END
"""

_SEQUENCE: Final = f"""
CASE WHEN is_numbered AND (
    producer_epoch < before_producer_epoch
    OR (is_new_epoch AND base_sequence <> 0 AND NOT is_compacted AND is_intact)
    OR (producer_epoch = before_producer_epoch
        AND (ahead >= 1073741824 OR (ahead > 0 AND NOT is_compacted AND is_intact)))
  ) THEN struct(
  '{Check.SEQUENCE.value}' AS check,
  concat('producer ', producer_id, ': ',
    CASE WHEN producer_epoch < before_producer_epoch
           THEN concat('epoch ', producer_epoch, ' after ', before_producer_epoch)
         WHEN is_new_epoch THEN concat('epoch ', producer_epoch, ' begins at sequence ', base_sequence)
         WHEN ahead >= 1073741824 THEN concat('repeated: sequence ', base_sequence, ' where ', expected, ' comes next')
         ELSE concat('gap: sequence ', base_sequence, ' where ', expected, ' comes next') END) AS what) END
"""

# A producer of a later epoch can only have been let in when the transaction of the earlier one was decided everywhere.
_PASSED_OVER: Final = f"""
CASE WHEN is_of_transaction AND control_type IS NULL AND before_of_transaction IS NOT NULL
    AND before_of_transaction.control_type IS NULL AND producer_epoch > before_of_transaction.producer_epoch
    AND damage_count = before_of_transaction.damage_count
  THEN struct(
  '{Check.TRANSACTION.value}' AS check,
  concat('producer ', producer_id, ': epoch ', producer_epoch, ' writes, and the transaction of epoch ',
         before_of_transaction.producer_epoch, ' was never decided') AS what) END
"""

_IN_ONE_LOG: Final = f"""
SELECT each.check AS check, topic, partition, replica, offset, segment_base_offset, segment, position, each.what AS what
FROM (
  SELECT topic, partition, replica, coalesce(base_offset, {_NEXT}) AS offset, segment_base_offset, segment, position,
         explode(array_compact(array({_DAMAGE}, {_EPOCH}, {_OFFSET}, {_SEQUENCE}, {_PASSED_OVER}))) AS each
  FROM {{rows}}
)
"""

# Bits stand for the replicas of a partition. One that holds a batch is not asked whether it should.
_REPLICAS: Final = f"""
SELECT '{Check.REPLICAS.value}' AS check, topic, partition, CAST(NULL AS string) AS replica, base_offset AS offset,
       CAST(NULL AS bigint) AS segment_base_offset, CAST(NULL AS string) AS segment, CAST(NULL AS bigint) AS position,
       CASE WHEN is_different THEN 'differs' ELSE 'missing' END AS what
FROM (
  SELECT g.*, lowest <> highest AS is_different,
         base_offset >= strict_from AND (aggregate(p.logs, 0L, (bits, each) ->
           bits | IF(each.start <= base_offset AND each.hw > last, shiftleft(1L, each.bit), 0L)) & ~holders) <> 0
           AS is_missing
  FROM (
    SELECT topic, partition, base_offset, bit_or(shiftleft(1L, bit)) AS holders, min(fingerprint) AS lowest,
           max(fingerprint) AS highest, max(last_offset) AS last
    FROM (
      SELECT /*+ BROADCAST(l), BROADCAST(p) */ b.topic, b.partition, b.base_offset, b.last_offset, l.bit,
             CASE WHEN b.base_offset >= p.strict_from THEN b.digest
                  ELSE xxhash64(last_offset, leader_epoch, producer_id, producer_epoch, base_sequence, is_transactional,
                                control_type IS NULL) END AS fingerprint
      FROM {{batches}} b JOIN {{logs}} l USING (replica, topic, partition) JOIN {{partitions}} p USING (topic, partition)
      WHERE l.is_judged AND b.reason IS NULL AND b.base_offset >= l.start AND b.last_offset < l.hw
    )
    GROUP BY topic, partition, base_offset
  ) g JOIN {{partitions}} p USING (topic, partition)
)
WHERE is_different OR is_missing
"""

_FIRST: Final = """
SELECT check, topic, partition, replica, count(*) AS count,
       min(struct(offset, segment_base_offset, position, segment, what)) AS first
FROM {found} GROUP BY check, topic, partition, replica
"""

# A marker counts wherever it is: one above the high watermark that a broker at work wrote down decides what is below.
_OF_TRANSACTIONS: Final = """
SELECT /*+ BROADCAST(l) */ b.topic, b.partition, b.replica, b.producer_id, b.producer_epoch, b.base_offset, b.segment, b.position,
       b.control_type IS NOT NULL AS is_marker, l.hw
FROM {batches} b JOIN {logs} l USING (replica, topic, partition)
WHERE l.is_reference AND b.crc_ok AND b.is_transactional AND b.producer_id >= 0
"""

_OPEN: Final = """
SELECT topic, partition, replica, producer_id, first(hw) AS hw,
       min(struct(base_offset, segment, position, producer_epoch)) AS first
FROM {rows} JOIN (
  SELECT topic, partition, producer_id, coalesce(max(base_offset) FILTER (WHERE is_marker), -1) AS decided
  FROM {rows} GROUP BY topic, partition, producer_id
) USING (topic, partition, producer_id)
WHERE NOT is_marker AND base_offset > decided
GROUP BY topic, partition, replica, producer_id
"""

_COPIES: Final = """
SELECT b.topic, b.partition, b.base_offset, b.replica, b.segment, b.position, b.last_offset, b.leader_epoch, b.size,
       b.crc, b.crc_ok, b.digest
FROM {batches} b JOIN {places} p
  ON b.topic = p.topic AND b.partition = p.partition AND b.base_offset = p.base_offset
"""


def measured(spark: SparkSession, batches: DataFrame) -> DataFrame:
    """What the segments of each replica of each partition add up to."""
    return spark.sql(_MEASURED, batches=batches)


def ordered(spark: SparkSession, batches: DataFrame, logs: DataFrame) -> DataFrame:
    """All rows that are judged, in the order of their logs, each beside the sound one before it."""
    return spark.sql(_ORDERED, batches=batches, logs=logs)


def log_findings(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """What is wrong within one log, of rows from `ordered`."""
    return spark.sql(_IN_ONE_LOG, rows=spark.sql(_BESIDE_PRODUCER, ordered=rows))


def replica_findings(spark: SparkSession, batches: DataFrame, logs: DataFrame, partitions: DataFrame) -> DataFrame:
    """Batches below the high watermarks that differ between replicas, or that one of them lacks."""
    return spark.sql(_REPLICAS, batches=batches, logs=logs, partitions=partitions)


def first_of_each(spark: SparkSession, found: DataFrame) -> DataFrame:
    """The first finding of each check, partition and replica, and how many there are."""
    return spark.sql(_FIRST, found=found)


def open_transactions(spark: SparkSession, batches: DataFrame, logs: DataFrame) -> DataFrame:
    """Transactions without a marker, in the log of the replica that would be elected, and where each begins."""
    return spark.sql(_OPEN, rows=spark.sql(_OF_TRANSACTIONS, batches=batches, logs=logs))


def copies(spark: SparkSession, batches: DataFrame, places: Sequence[tuple[str, int, int]]) -> DataFrame:
    """All copies of the batches at (topic, partition, base offset)."""
    frame = spark.createDataFrame(list(places), "topic string, partition int, base_offset bigint")
    return spark.sql(_COPIES, batches=batches, places=frame)


def logs_frame(spark: SparkSession, ranges: Sequence[LogRange], *, is_live: bool) -> DataFrame:
    """`logs`."""
    rows = [
        (
            each.claims.replica,
            *each.claims.topic_partition,
            each.start,
            each.claims.high_watermark,
            each.claims.last_segment,
            each.bit,
            each.is_judged,
            each.is_reference,
            each.is_compacted,
            each.claims.was_stopped_cleanly,
            is_live,
        )
        for each in ranges
    ]
    return spark.createDataFrame(rows, LOGS)


def partitions_frame(spark: SparkSession, ranges: Sequence[LogRange]) -> DataFrame:
    """`partitions`."""
    members: dict[tuple[str, int, int], list[tuple[int, int, int]]] = {}
    for each in ranges:
        key = (*each.claims.topic_partition, each.strict_from)
        known = members.setdefault(key, [])
        if each.is_judged and each.claims.high_watermark is not None:
            known.append((each.bit, each.start, each.claims.high_watermark))
    rows = [(*key, known) for key, known in members.items()]
    return spark.createDataFrame(rows, PARTITIONS)
