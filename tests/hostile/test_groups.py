"""S10: members by the hundred thousand, metadata without measure, sessions without end, and regular expressions that never finish."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.broker.conversation import Conversation
from tests.hostile.victim import MEBIBYTE, Victim
from tidelog.model import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

pytestmark = pytest.mark.timed
SETTINGS = ("offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1")
JOIN = 9
AT_A_TIME = 500


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    victim = Victim(tmp_path_factory.mktemp("coordinator") / "data", *SETTINGS)
    with victim.process:
        begin(victim)
        yield victim
    assert victim.process.process.returncode == 0, f"no clean stop after all this:\n{victim.process.output}"


def begin(victim: Victim) -> None:
    """Have the topic of offsets made."""
    victim.create("honest")
    with victim.connect() as client:

        def is_there() -> bool:
            found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4).coordinators
            return found[0].error_code is ErrorCode.NONE

        victim.until(is_there)


def join(member_id: str = "", *, metadata: bytes = b"", session_timeout_ms: int = 10_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )


def joined(client: Conversation, request: JoinGroupRequest, count: int) -> list[ErrorCode]:
    """The answers to as many joins, sent without waiting for each other."""
    headers = [client.send(request, JOIN) for _ in range(count)]
    answers = [client.hear(header) for header in headers]
    return [answer.error_code for answer in answers if isinstance(answer, JoinGroupResponse)]


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_s10_a_hundred_thousand_members_cost_a_bounded_amount_and_others_are_answered(coordinator: Victim) -> None:
    before = coordinator.rss_bytes
    codes: dict[ErrorCode, int] = {}
    with coordinator.connect() as flood, coordinator.answering_others(within_s=1.0):
        for _ in range(100_000 // AT_A_TIME):
            for code in joined(flood, join(), AT_A_TIME):
                codes[code] = codes.get(code, 0) + 1
    assert codes == {ErrorCode.MEMBER_ID_REQUIRED: 100_000}
    assert coordinator.rss_bytes < before + 200 * MEBIBYTE
    assert coordinator.serve_within_s() < 5


def test_s10_a_group_takes_no_more_members_than_group_max_size(tmp_path: Path) -> None:
    # Whoever comes while the first generation is awaited, belongs to it: all sixty do.
    awaited = "group.initial.rebalance.delay.ms=2000"
    victim = Victim(tmp_path / "data", *SETTINGS, "group.max.size=50", awaited)
    with victim.process:
        begin(victim)
        with ExitStack() as crowd:
            members = [crowd.enter_context(victim.connect()) for _ in range(60)]
            ids = [client.ask(join(), JOIN).member_id for client in members]
            sent = [client.send(join(each), JOIN) for client, each in zip(members, ids, strict=True)]
            codes = [client.hear(header) for client, header in zip(members, sent, strict=True)]
        counts = Counter(answer.error_code for answer in codes if isinstance(answer, JoinGroupResponse))
        assert counts == {ErrorCode.NONE: 50, ErrorCode.GROUP_MAX_SIZE_REACHED: 10}
        assert victim.serve_within_s() < 5


@pytest.mark.parametrize("session_timeout_ms", [2**31 - 1, 0, -1, -(2**31)])
def test_s10_a_session_that_never_ends_is_refused(coordinator: Victim, session_timeout_ms: int) -> None:
    with coordinator.connect() as client:
        answer = client.ask(join(session_timeout_ms=session_timeout_ms), JOIN)
    assert answer.error_code is ErrorCode.INVALID_SESSION_TIMEOUT


def test_s10_fifty_megabytes_of_metadata_are_refused_by_their_size(coordinator: Victim) -> None:
    before = coordinator.rss_bytes
    for _ in range(4):
        with coordinator.connect() as client:
            member_id = client.ask(join(), JOIN).member_id
            assert is_hung_up_on(client, join(member_id, metadata=bytes(50 * MEBIBYTE)))
    assert coordinator.serve_within_s() < 5
    assert coordinator.rss_bytes < before + 24 * MEBIBYTE


def is_hung_up_on(client: Conversation, request: JoinGroupRequest) -> bool:
    try:
        client.send(request, JOIN)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return client.is_closed_by_peer()


def test_s10_more_metadata_of_an_offset_than_4_kib_is_refused_alone(coordinator: Victim) -> None:
    coordinator.create("other")
    topics = tuple(
        OffsetCommitRequestTopic(
            name=name,
            partitions=(
                OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="x" * size),
            ),
        )
        for name, size in (("honest", 4_097), ("other", 4_096))
    )
    request = OffsetCommitRequest(group_id="offsets", generation_id_or_member_epoch=-1, member_id="", topics=topics)
    with coordinator.connect() as client:
        answered = client.ask(request, 8).topics
    codes = {topic.name: topic.partitions[0].error_code for topic in answered}
    assert codes == {"honest": ErrorCode.OFFSET_METADATA_TOO_LARGE, "other": ErrorCode.NONE}


def test_s10_a_regular_expression_that_backtracks_for_ever_elsewhere_is_answered_at_once(coordinator: Victim) -> None:
    coordinator.create("a" * 200 + "-")
    request = ConsumerGroupHeartbeatRequest(
        group_id="regex",
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=(),
        subscribed_topic_regex="(a+)+$",
        topic_partitions=(),
    )
    with coordinator.connect() as client, coordinator.answering_others(within_s=1.0):
        begun = time.monotonic()
        answer = client.ask(request, 1)
        assert time.monotonic() - begun < 2
    assert answer.error_code is ErrorCode.NONE
