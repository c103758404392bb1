"""S02, S09, S11, S14: many clients who want little, and few who want everything. Each attack has a broker of its own, with small limits."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.broker.test_fetch_behaviour import fetch
from tests.hostile.victim import MEBIBYTE, Victim, one_batch, produce
from tidelog.model import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.timed
PRODUCE_START = struct.pack(">ih", 100 * MEBIBYTE, ApiKey.PRODUCE)


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Victim]:
    victim = Victim(tmp_path / "data", "queued.max.request.bytes=8388608")
    with victim.process:
        victim.create("honest")
        yield victim


def frame_of(request: MetadataRequest | FetchRequest, version: int, number: int = 1) -> bytes:
    key = ApiKey.METADATA if isinstance(request, MetadataRequest) else ApiKey.FETCH
    return b"".join(encode_request_frame(RequestHeader(key, version, number, None), request))


def test_two_thousand_idle_connections_cost_little_and_the_next_client_is_served(crowded: Victim) -> None:
    before = crowded.rss_bytes
    with ExitStack() as idle:
        for _ in range(2_000):
            idle.enter_context(crowded.socket())
        assert crowded.serve_within_s() < 5
        assert crowded.rss_bytes < before + 40 * MEBIBYTE
        assert crowded.descriptor_count > 2_000
    crowded.until(lambda: crowded.descriptor_count < 200)


def test_connections_that_each_announce_100_mib_hold_what_they_sent_and_no_more(crowded: Victim) -> None:
    before = crowded.rss_bytes
    with ExitStack() as attackers:
        for _ in range(300):
            attackers.enter_context(crowded.socket()).sendall(PRODUCE_START + bytes(1000))
        assert crowded.serve_within_s() < 5
        assert crowded.rss_bytes < before + 24 * MEBIBYTE


def test_half_sent_requests_cannot_hold_the_budget_for_long(crowded: Victim) -> None:
    before = crowded.rss_bytes
    with ExitStack() as attackers:
        for _ in range(100):
            attacker = attackers.enter_context(crowded.socket())
            attacker.setblocking(False)
            try:
                attacker.send(PRODUCE_START + bytes(512 << 10))
            except BlockingIOError:
                continue
        assert crowded.serve_within_s() < 15
        assert crowded.rss_peak_bytes < before + 64 * MEBIBYTE
    assert "kind=pressure" in crowded.log


def test_who_never_reads_its_answers_is_served_no_more_and_costs_little(crowded: Victim) -> None:
    crowded.create("wide", 1000)
    before = crowded.rss_bytes
    question = frame_of(MetadataRequest(topics=None), 9) * 1000
    with ExitStack() as deaf:
        for _ in range(20):
            client = deaf.enter_context(crowded.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            client.send(question)
        assert crowded.serve_within_s() < 5
        assert crowded.rss_bytes < before + 64 * MEBIBYTE


def test_pipelined_small_requests_do_not_hold_up_the_others(crowded: Victim) -> None:
    with crowded.socket() as greedy, crowded.connect() as other:
        other.ask(MetadataRequest(topics=()), 9)
        greedy.setblocking(False)
        greedy.send(frame_of(MetadataRequest(topics=()), 9) * 20_000)
        before = time.monotonic()
        other.ask(MetadataRequest(topics=()), 9)
        assert time.monotonic() - before < 0.5


def test_thousands_of_parked_fetches_hold_no_records_and_wake_together(crowded: Victim) -> None:
    with crowded.connect() as producer:
        produce(producer, "honest", one_batch(bytes(900_000)))
        before = crowded.rss_bytes
        greedy = fetch("honest", 0, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, max_bytes=2**31 - 1)
        with ExitStack() as parked:
            for _ in range(1_000):
                parked.enter_context(crowded.socket()).sendall(frame_of(greedy, 12))
            assert crowded.serve_within_s() < 10
            assert crowded.rss_bytes < before + 64 * MEBIBYTE
            slowest = max(_timed_produce(crowded) for _ in range(10))
            assert slowest < 1


def test_ten_thousand_fetch_sessions_are_bounded(crowded: Victim) -> None:
    before = crowded.rss_bytes
    with crowded.connect() as client:
        opening = fetch("honest", 0, session=(0, 0))
        granted = [client.ask(opening, 12).session_id for _ in range(10_000)]
    assert sum(session != 0 for session in granted) <= 1_000
    assert crowded.rss_bytes < before + 24 * MEBIBYTE
    assert crowded.serve_within_s() < 5


def test_a_flood_of_producer_ids_leaves_nothing_behind(crowded: Victim) -> None:
    before = crowded.rss_bytes
    with crowded.connect() as client:
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        given = {client.ask(asked, 4).producer_id for _ in range(5_000)}
    assert len(given) == 5_000
    assert crowded.rss_bytes < before + 16 * MEBIBYTE


def test_connection_churn_leaves_nothing_behind(crowded: Victim) -> None:
    crowded.serve_within_s()
    before, descriptors = crowded.rss_bytes, crowded.descriptor_count
    for number in range(2_000):
        with crowded.socket() as connection:
            if number % 2:
                connection.sendall(PRODUCE_START)
    assert crowded.serve_within_s() < 5
    crowded.until(lambda: crowded.descriptor_count <= descriptors + 20)
    assert crowded.rss_bytes < before + 24 * MEBIBYTE


def test_max_connections_closes_the_newcomer_and_keeps_the_others(tmp_path: Path) -> None:
    victim = Victim(tmp_path / "data", "max.connections.per.ip=3")
    with victim.process, victim.connect() as first, victim.connect() as second, victim.connect() as third:
        for client in (first, second, third):
            assert client.ask(MetadataRequest(topics=()), 9).brokers
        with victim.connect() as newcomer:
            assert newcomer.is_closed_by_peer()
        assert first.ask(MetadataRequest(topics=()), 9).brokers
        victim.until(lambda: 'reason="max.connections.per.ip is 3"' in victim.log)


def _timed_produce(victim: Victim) -> float:
    with victim.connect() as client:
        before = time.monotonic()
        assert produce(client, "honest", one_batch()).error_code is ErrorCode.NONE
        return time.monotonic() - before
