"""Batches of markers, built once for the partitions of a transaction."""

from __future__ import annotations

from tidelog.broker.marker_batches import MarkerBatches
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.model import ProducerIdentity
from tidelog.records import Marker, MarkerType, read_header, read_marker, stamp

END = TransactionEnd(ProducerIdentity(5, 2), is_committed=True, coordinator_epoch=9)


def test_the_place_that_one_log_stamps_into_its_marker_is_not_in_that_of_another() -> None:
    batches = MarkerBatches()
    first = batches.build(END, 77)
    stamp(first, 0, base_offset=1_000, leader_epoch=4)
    second = batches.build(END, 77)
    assert (read_header(first).base_offset, read_header(second).base_offset) == (1_000, 0)
    assert first[16:] == second[16:]


def test_another_end_or_another_time_is_another_marker() -> None:
    batches = MarkerBatches()
    ends = [
        END,
        END._replace(is_committed=False),
        END._replace(producer=ProducerIdentity(5, 3)),
        END._replace(producer=ProducerIdentity(6, 3)),
        END._replace(coordinator_epoch=10),
    ]
    for now_ms in (77, 78):
        for end in ends:
            batch = batches.build(end, now_ms)
            header = read_header(batch)
            kind = MarkerType.COMMIT if end.is_committed else MarkerType.ABORT
            assert read_marker(batch) == Marker(kind, end.coordinator_epoch)
            assert (header.producer_id, header.producer_epoch) == end.producer
            assert header.max_timestamp == now_ms
