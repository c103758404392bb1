"""What the files beside the logs claim, and what is wrong with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.pipeline.audit.planted import Planted, log_of, run
from tidelog.model import TopicPartition
from tidelog.pipeline.audit.claims import Claims, LogClaims, read_claims
from tidelog.pipeline.audit.findings import Check

SOUND = log_of(run(6))


def read(planted: Planted, *topics: str) -> Claims:
    return read_claims(planted.write(), topics or None)


def claimed(claims: Claims, broker: int, topic: str = "orders") -> LogClaims:
    (log,) = [
        log for log in claims.logs if (log.replica, log.topic_partition) == (str(broker), TopicPartition(topic, 0))
    ]
    return log


def test_checkpoints_are_of_the_directory_the_log_lies_in(tmp_path: Path) -> None:
    planted = Planted(tmp_path)
    planted.add("orders", replace(SOUND, high_watermark=20), replace(SOUND, log_start=7), replace(SOUND, cleaned=5))
    planted.stopped_cleanly = {2}
    claims = read(planted)
    assert [claimed(claims, broker).high_watermark for broker in (1, 2, 3)] == [20, 30, 30]
    assert [claimed(claims, broker).log_start_offset for broker in (1, 2, 3)] == [0, 7, 0]
    assert [claimed(claims, broker).is_compacted for broker in (1, 2, 3)] == [False, False, True]
    assert [claimed(claims, broker).was_stopped_cleanly for broker in (1, 2, 3)] == [False, True, False]
    assert claims.findings == ()


def test_a_partition_that_a_broker_remembers_but_does_not_hold_is_missing(tmp_path: Path) -> None:
    planted = Planted(tmp_path)
    planted.add("orders", SOUND)
    planted.add("alone", SOUND, None)
    planted.write()
    for file in (tmp_path / "broker-2" / "orders-0").iterdir():
        file.unlink()
    (tmp_path / "broker-2" / "orders-0").rmdir()
    (found,) = read_claims([str(tmp_path)], None).findings
    assert (found.check, found.replicas, found.topic) == (Check.MISSING_REPLICA, ("2",), "orders")


def test_a_partition_that_nobody_holds_any_more_was_deleted(tmp_path: Path) -> None:
    planted = Planted(tmp_path, brokers=[1])
    planted.add("orders", SOUND)
    planted.add("deleted", SOUND)
    planted.write()
    for file in (tmp_path / "broker-1" / "deleted-0").iterdir():
        file.unlink()
    (tmp_path / "broker-1" / "deleted-0").rmdir()
    assert read_claims([str(tmp_path)], None).findings == ()


def test_a_damaged_checkpoint_is_a_finding_and_claims_nothing(tmp_path: Path) -> None:
    planted = Planted(tmp_path)
    planted.add("orders", SOUND)
    planted.write()
    (tmp_path / "broker-3" / "replication-offset-checkpoint").write_bytes(b"0\n1\norders 0 30")
    claims = read_claims([str(tmp_path)], None)
    (found,) = claims.findings
    assert (found.check, found.replicas) == (Check.CHECKPOINT, ("3",))
    assert "the last line is cut off" in found.what
    assert claimed(claims, 3).high_watermark is None


def test_an_unfinished_compaction_shows_that_a_partition_is_compacted(tmp_path: Path) -> None:
    planted = Planted(tmp_path, brokers=[1])
    planted.add("orders", replace(SOUND, files={"00000000000000000000.log.swap": b""}))
    planted.add("deleting", replace(SOUND, files={"00000000000000000000.log.deleted": b""}))
    claims = read(planted)
    assert (claimed(claims, 1).is_compacted, claimed(claims, 1, "deleting").is_compacted) == (True, False)


def test_internal_topics_are_compacted_and_others_if_somebody_says_so(tmp_path: Path) -> None:
    planted = Planted(tmp_path, brokers=[1])
    for topic in ("__consumer_offsets", "orders", "told"):
        planted.add(topic, SOUND)
    claims = read_claims(planted.write(), None, compacted=("told",))
    compacted = {log.topic_partition.topic for log in claims.logs if log.is_compacted}
    assert compacted == {"__consumer_offsets", "told"}


def test_what_coordinators_know_is_read_whatever_topics_are_asked_for(tmp_path: Path) -> None:
    planted = Planted(tmp_path, brokers=[1])
    for topic in ("__transaction_state", "orders", "other"):
        planted.add(topic, SOUND)
    claims = read(planted, "orders")
    assert [str(log.topic_partition) for log in claims.logs] == ["orders-0"]
    assert [str(log.topic_partition) for log in claims.transaction_logs] == ["__transaction_state-0"]


def test_a_checkpoint_that_kafka_has_not_filled_yet_claims_nothing(tmp_path: Path) -> None:
    planted = Planted(tmp_path, brokers=[1])
    planted.add("orders", SOUND)
    planted.write()
    (tmp_path / "broker-1" / "log-start-offset-checkpoint").write_bytes(b"")
    assert read_claims([str(tmp_path)], None).findings == ()
