"""S03, S07 to S09, S16, S17, S19: requests that are well formed and mean harm."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.broker.test_fetch_behaviour import fetch
from tests.hostile.test_batches import built, sealed
from tests.hostile.victim import MEBIBYTE, NOW_MS, Victim, one_batch, produce
from tests.wire import fuzzer
from tests.wire.oracle import Case, all_cases
from tidelog.model import ErrorCode
from tidelog.records import Codec
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

pytestmark = pytest.mark.slow
EVIL_NAMES = ["../x", "..", ".", "a/b", "/etc/x", "a\0b", "x" * 32_000, "ünï", "", "a\r\nb", "..\\x", "x" * 250]
OLDEST_AND_NEWEST = [
    Case(key, version, is_request=True)
    for key, api in API_TABLE.items()
    for version in sorted({next(iter(api.served)), list(api.served)[-1]})
]


@contextmanager
def every_text_being(name: str) -> Iterator[None]:
    before = fuzzer.SAMPLES[str]
    fuzzer.SAMPLES[str] = lambda _chance: name
    try:
        yield
    finally:
        fuzzer.SAMPLES[str] = before


def names_outside(victim: Victim) -> set[str]:
    """Everything around the log directory, and not its own files."""
    return {str(path) for place in (victim.data, victim.data.parent) for path in place.iterdir()}


@pytest.mark.parametrize("name", EVIL_NAMES, ids=lambda name: repr(name[:12]))
def test_no_name_at_any_api_becomes_a_path(victim: Victim, name: str) -> None:
    outside = names_outside(victim)
    chance = SimulatedRandomness(f"names/{name[:20]}")
    with every_text_being(name):
        for case in OLDEST_AND_NEWEST:
            frame = fuzzer.valid_frame(case, chance)
            with victim.connect() as client:
                client.send_bytes(len(frame).to_bytes(4, "big") + frame)
                client.hears_or_is_closed()
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    with victim.connect() as client:
        (created,) = client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=1000), 7).topics
    assert created.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    made = [path.name for path in victim.process.log_dir.iterdir() if path.is_dir()]
    assert all(re.fullmatch(r"[a-zA-Z0-9._-]{1,249}-\d+(\.[0-9a-f]{32}-(delete|stray))?", each) for each in made), made
    assert names_outside(victim) == outside
    assert "Traceback" not in victim.log, victim.log[-4000:]
    victim.serve_within_s()


def test_files_are_for_their_owner_only(victim: Victim) -> None:
    with victim.connect() as client:
        produce(client, "honest", one_batch())
    for path in victim.process.log_dir.rglob("*"):
        forbidden = stat.S_IMODE(path.stat().st_mode) & 0o077
        assert not forbidden, f"{path} is open to others"


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (CreatableTopic(name="many", num_partitions=2**31 - 1, replication_factor=1), ErrorCode.POLICY_VIOLATION),
        (CreatableTopic(name="far", num_partitions=1, replication_factor=32767), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic(name="minus", num_partitions=-7, replication_factor=1), ErrorCode.INVALID_PARTITIONS),
        (
            CreatableTopic(
                name="assigned",
                num_partitions=-1,
                replication_factor=-1,
                assignments=tuple(
                    CreatableReplicaAssignment(partition_index=index, broker_ids=(1,)) for index in range(15_000)
                ),
            ),
            ErrorCode.POLICY_VIOLATION,
        ),
    ],
    ids=lambda value: value.name,
)
def test_topics_beyond_the_policy_cost_nothing(victim: Victim, topic: CreatableTopic, code: ErrorCode) -> None:
    with victim.connect() as client:
        (answered,) = client.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=1000), 7).topics
    assert answered.error_code is code
    assert not [path for path in victim.process.log_dir.iterdir() if path.name.startswith(f"{topic.name}-")]


def test_auto_creation_is_bound_by_the_same_policy(victim: Victim) -> None:
    asked = tuple(MetadataRequestTopic(name=f"auto-{number}") for number in range(15_000))
    with victim.connect() as client:
        answered = client.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 9).topics
    assert {topic.error_code for topic in answered} == {ErrorCode.POLICY_VIOLATION}
    victim.serve_within_s()


def test_who_claims_to_be_a_replica_reads_nothing(victim: Victim) -> None:
    topics = (
        FetchTopic(topic="honest", partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=99),)),
    )
    with victim.connect() as client:
        old = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=MEBIBYTE, topics=topics, replica_id=7)
        new = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=MEBIBYTE, topics=(), replica_state=ReplicaState(replica_id=7)
        )
        for request, version in ((old, 12), (new, 15)):
            answer = client.ask(request, version)
            assert answer.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert not answer.responses


def test_one_partition_asked_for_twenty_thousand_times_is_answered_once(victim: Victim) -> None:
    partitions = tuple(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10) for _ in range(19_000))
    with victim.connect() as client:
        produce(client, "honest", one_batch())
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=MEBIBYTE, topics=(FetchTopic(topic="honest", partitions=partitions),)
        )
        (topic,) = client.ask(request, 11).responses
    assert len(topic.partitions) == 1


@pytest.mark.timed
def test_the_widest_requests_do_not_hold_up_the_others(victim: Victim) -> None:
    wide = fetch("honest", *range(19_000))
    looks = tuple(ListOffsetsPartition(partition_index=index, timestamp=NOW_MS) for index in range(19_000))
    with victim.connect() as client, victim.answering_others(within_s=0.5):
        client.ask(wide, 12)
        client.ask(ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="honest", partitions=looks),)), 6)
        names = tuple(MetadataRequestTopic(name=f"nobody-{number}") for number in range(19_000))
        client.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
    victim.serve_within_s()


def test_full_validation_finds_what_a_right_checksum_hides(tmp_path_factory: pytest.TempPathFactory) -> None:
    lying = {codec: sealed(_with_a_count_too_large(built(codec))) for codec in (Codec.NONE, Codec.GZIP)}
    for validation, expected in (("header", ErrorCode.NONE), ("full", ErrorCode.INVALID_RECORD)):
        data = tmp_path_factory.mktemp(validation) / "data"
        broker = Victim(data, f"tidelog.produce.validation={validation}")
        with broker.process, broker.connect() as client:
            broker.create("checked")
            for batch in lying.values():
                assert produce(client, "checked", bytearray(batch)).error_code is expected
            assert produce(client, "checked", built(Codec.ZSTD)).error_code is ErrorCode.NONE


def _with_a_count_too_large(batch: bytearray) -> bytearray:
    batch[23:27] = (99).to_bytes(4, "big")
    batch[57:61] = (100).to_bytes(4, "big")
    return batch


def test_every_case_of_the_table_is_tried() -> None:
    assert {case.key for case in OLDEST_AND_NEWEST} == {case.key for case in all_cases()}
    assert ApiKey.PRODUCE in {case.key for case in OLDEST_AND_NEWEST}
