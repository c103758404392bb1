"""The decoder against whatever logs and clients can come up with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.codec.logs import Log, logs
from tests.pipeline.codec.rows import Row, decode, row_of, rows_in, wanted
from tests.records import batches
from tests.records.judges import KafkaPythonBuilder
from tidelog.client.aborted import AbortedTransaction
from tidelog.client.fetched import FetchedRecords, ReadingRules
from tidelog.model import IsolationLevel, TopicPartition
from tidelog.pipeline.codec.decoding import COLUMNS, Decoder
from tidelog.records import Codec

pytestmark = pytest.mark.slow


def read(log: Log, decoder: Decoder, to_offset: int, bytes_max: int) -> list[Row]:
    """Fetch and decode until the end is reached; every fetch must get on."""
    rows: list[Row] = []
    while decoder.next_offset < to_offset:
        before = decoder.next_offset
        decoded = decoder.decode(*log.fetch(before, bytes_max))
        rows += rows_in(decoded.batches)
        assert before < decoded.next_offset == decoder.next_offset <= to_offset
    return rows


@given(logs, st.data(), st.integers(0, 2_000), st.booleans())
def test_fetches_of_any_size_give_the_committed_records_of_any_range(
    log: Log, data: st.DataObject, bytes_max: int, skips_aborted: bool
) -> None:
    from_offset = data.draw(st.integers(0, log.end_offset))
    to_offset = data.draw(st.integers(from_offset, log.end_offset))
    what = wanted(from_offset=from_offset, to_offset=to_offset, skips_aborted=skips_aborted)

    rows = read(log, Decoder(what), to_offset, bytes_max)

    assert rows == log.rows(from_offset, to_offset, with_aborted=not skips_aborted)


@given(logs)
def test_the_decoder_and_the_consumer_agree(log: Log) -> None:
    fetched, aborted = log.fetch(0, 1 << 30)
    rules = ReadingRules(isolation_level=IsolationLevel.READ_COMMITTED, checks_crcs=True, batch_bytes_max=1 << 20)
    consumer = FetchedRecords(
        TopicPartition("orders", 3),
        fetched,
        fetch_offset=0,
        aborted=[AbortedTransaction(*each) for each in aborted],
        rules=rules,
    )

    expected = [
        row_of(record.offset, record.timestamp_ms, record.key, record.value, record.headers, record.timestamp_type)
        for record in consumer.take(1 << 30)
    ]

    assert decode(fetched, aborted=aborted) == expected


@given(logs, st.lists(st.sampled_from(COLUMNS), unique=True).map(tuple))
def test_any_columns_are_those_of_all(log: Log, columns: tuple[str, ...]) -> None:
    fetched, aborted = log.fetch(0, 1 << 30)

    everything = Decoder(wanted()).decode(fetched, aborted).batches
    some = Decoder(wanted(columns=columns)).decode(fetched, aborted).batches

    assert [batch.num_rows for batch in some] == [batch.num_rows for batch in everything]
    assert some == [batch.select(columns) for batch in everything] or not columns


@given(batches.rows, st.sampled_from(Codec))
def test_batches_of_kafka_python_are_decoded(rows: list[batches.Row], codec: Codec) -> None:
    builder = KafkaPythonBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for index, (timestamp_ms, key, value, headers) in enumerate(rows):
        builder.append(index, timestamp=timestamp_ms, key=key, value=value, headers=list(headers))

    assert decode(bytes(builder.build())) == [row_of(index, *row) for index, row in enumerate(rows)]
