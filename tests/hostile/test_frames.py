"""S01 to S04, S20: frames that lie, as whole frames against a running broker. `make proof` runs it longer: TIDELOG_FUZZ_S seconds."""

from __future__ import annotations

import os
import struct
import time
from itertools import count

import pytest

from tests.hostile.victim import MEBIBYTE, Victim
from tests.wire.fuzzer import damaged, valid_frame
from tests.wire.oracle import all_cases
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.timed
PIPELINED = 8
PARTITION_BYTES = 64 << 10
GROWTH_MAX = 48 * MEBIBYTE


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def fuzz(victim: Victim, seed: str, seconds: float) -> int:
    """Send damaged frames of every API until the time is up, and say how many."""
    chance = SimulatedRandomness(seed)
    cases = [case for case in all_cases() if case.is_request]
    deadline = time.monotonic() + seconds
    sent = 0
    for round_number in count():
        if time.monotonic() > deadline:
            return sent
        case = cases[(round_number * 7919 + chance.below(3)) % len(cases)]
        frame = valid_frame(case, chance)
        with victim.socket() as connection:
            try:
                for _ in range(PIPELINED):
                    connection.sendall(framed(damaged(frame, chance)))
                    sent += 1
                if chance.below(2):
                    connection.settimeout(0.01)
                    connection.recv(1 << 16)
            except (ConnectionError, TimeoutError):
                continue
    return sent


def partitions(victim: Victim) -> int:
    with victim.connect() as client:
        return sum(len(topic.partitions) for topic in client.ask(MetadataRequest(topics=None), 9).topics)


def check_unharmed(victim: Victim, seed: str, seconds: float) -> None:
    fuzz(victim, f"{seed}/warm", min(seconds, 1))  # The first use of each API makes its codec.
    before_bytes, before_descriptors, before_partitions = victim.rss_bytes, victim.descriptor_count, partitions(victim)
    sent = fuzz(victim, seed, seconds)
    assert sent > 20 * seconds
    assert victim.serve_within_s() < 5
    # A damaged request may still be a valid one to make a topic, and topics rightly hold files and memory.
    made = partitions(victim) - before_partitions
    victim.until(lambda: victim.descriptor_count <= before_descriptors + 150 + 4 * made)
    assert victim.rss_bytes < before_bytes + GROWTH_MAX + made * PARTITION_BYTES
    assert "Traceback" not in victim.log, victim.log[-4000:]
    assert len(victim.log) < 4 * MEBIBYTE


def test_damaged_frames_of_every_api_harm_nobody(victim: Victim) -> None:
    check_unharmed(victim, "frames", 3)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_damaged_frames_harm_nobody_for_long(victim: Victim) -> None:
    check_unharmed(victim, os.environ.get("TIDELOG_FUZZ_SEED", "long"), float(os.environ.get("TIDELOG_FUZZ_S", "40")))


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 104857601, 0x47455420, 0x16030102])
def test_a_size_nobody_should_read_ends_the_connection_before_anything_is_allocated(victim: Victim, size: int) -> None:
    before = victim.rss_bytes
    with victim.connect() as client:
        client.send_bytes(struct.pack(">i", size))
        assert client.is_closed_by_peer()
    assert victim.rss_bytes < before + 8 * MEBIBYTE


def test_only_a_produce_may_be_large(victim: Victim) -> None:
    for key in (ApiKey.METADATA, ApiKey.FETCH, ApiKey.CREATE_TOPICS):
        with victim.connect() as client:
            client.send_bytes(struct.pack(">ih", 3 * MEBIBYTE, key))
            assert client.is_closed_by_peer()
    with victim.connect() as client:
        client.send_bytes(struct.pack(">ih", 3 * MEBIBYTE, ApiKey.PRODUCE))
        assert victim.serve_within_s() < 5
        client.send_bytes(bytes(3 * MEBIBYTE))  # All zeros: no request, but it was read to its end.
        assert client.is_closed_by_peer()


def test_the_refusal_is_written_down_escaped_and_short(victim: Victim) -> None:
    name = "\x1b[31mred\r\nFAKE LINE " + "x" * 20_000
    text = name.encode()
    body = struct.pack(">hi", 0, 1000) + struct.pack(">ih", 1, len(text)) + text + struct.pack(">iii", 1, 0, 1) + b"x"
    with victim.connect() as client:  # acks=0 to a topic that is not there quotes its name.
        client.send_bytes(framed(struct.pack(">hhih", ApiKey.PRODUCE, 3, 7, -1) + struct.pack(">h", -1) + body))
        assert client.is_closed_by_peer()
    victim.until(lambda: "x" * 50 in victim.log or "without a line" in victim.log)
    lines = victim.log.splitlines()
    assert not any("\x1b" in line or line.startswith("FAKE") for line in lines)
    assert max(map(len, lines)) < 2_000


def test_a_flood_of_bad_clients_does_not_fill_the_log(victim: Victim) -> None:
    before = len(victim.log)
    for _ in range(500):
        with victim.socket() as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert victim.serve_within_s() < 5
    victim.until(lambda: "connections refused without a line" in victim.log)
    assert len(victim.log) - before < 20_000
