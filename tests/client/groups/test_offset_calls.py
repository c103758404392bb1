"""Commits that are repeated: in whose name, and for how long."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.client.groups.scripted_coordinator import T0, ScriptedCoordinator
from tests.client.scripted_brokers import ScriptedBrokers
from tidelog.client import Cluster, CommitFailed, Committed, ConsumerConfig, GroupRefused
from tidelog.client.coordinators import Coordinators
from tidelog.client.groups.membership import Identity
from tidelog.client.groups.offset_calls import OffsetCalls
from tidelog.model import ErrorCode, IsolationLevel, TopicPartition
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest

ME = Identity("me", 3)


class Committing:
    """One commit of `t-0` by `ME`, to a coordinator that refuses it so often."""

    def __init__(self, *codes: ErrorCode, owner: Identity | None = None, timeout_ms: float = 5_000) -> None:
        self.brokers = ScriptedBrokers()
        self.coordinator = ScriptedCoordinator(self.brokers, 2)
        self.coordinator.refuse(ApiKey.OFFSET_COMMIT, *codes)
        self.refused: list[tuple[ErrorCode, Identity]] = []
        self._owner = owner
        self._timeout_ms = timeout_ms

    def run(self) -> list[int]:
        """The epochs in which it was tried."""

        async def story(runtime: Runtime) -> None:
            config = ConsumerConfig.from_properties({"bootstrap.servers": self.brokers.bootstrap, "group.id": "g"})
            async with Cluster(config, runtime) as cluster:
                calls = OffsetCalls(cluster, config, runtime, Coordinators(cluster, config, runtime))
                await calls.commit(
                    {T0: Committed(7)},
                    ME,
                    timeout_ms=self._timeout_ms,
                    renewed=self._renewed,
                    on_refused=lambda code, member: self.refused.append((code, member)),
                )

        self.brokers.run(story)
        requests = self.brokers.requests(OffsetCommitRequest)
        return [request.generation_id_or_member_epoch for _, request in requests]

    def _renewed(self, partitions: Iterable[TopicPartition]) -> Identity | None:
        assert list(partitions) == [T0]
        return self._owner


def test_stale_epoch_is_renewed_where_the_partition_is_still_ours() -> None:
    committing = Committing(ErrorCode.STALE_MEMBER_EPOCH, owner=ME._replace(epoch=4))
    assert committing.run() == [3, 4]
    assert committing.coordinator.committed == {T0: (7, -1)}
    assert committing.refused == []


def test_stale_epoch_is_the_end_where_others_may_have_the_partition() -> None:
    committing = Committing(ErrorCode.STALE_MEMBER_EPOCH, owner=None)
    with pytest.raises(CommitFailed) as failed:
        committing.run()
    assert failed.value.codes == {T0: ErrorCode.STALE_MEMBER_EPOCH}
    assert committing.coordinator.committed == {}


def test_what_concerns_the_member_is_told_and_not_repeated() -> None:
    committing = Committing(ErrorCode.REBALANCE_IN_PROGRESS, owner=ME)
    with pytest.raises(CommitFailed):
        committing.run()
    assert committing.refused == [(ErrorCode.REBALANCE_IN_PROGRESS, ME)]
    assert len(committing.brokers.requests(OffsetCommitRequest)) == 1


def test_coordinator_that_never_gets_ready_is_waited_for_until_the_timeout() -> None:
    committing = Committing(*[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100, timeout_ms=3_000)
    with pytest.raises(CommitFailed, match="no answer in time"):
        committing.run()
    assert 3 <= len(committing.brokers.requests(OffsetCommitRequest)) <= 10


def test_offset_that_awaits_its_marker_is_waited_for_whatever_is_read() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    coordinator.committed[T0] = (20, -1)
    coordinator.refuse(ApiKey.OFFSET_FETCH, *[ErrorCode.UNSTABLE_OFFSET_COMMIT] * 2)
    found: list[Committed | None] = []

    async def story(runtime: Runtime) -> None:
        config = ConsumerConfig.from_properties({"bootstrap.servers": brokers.bootstrap, "group.id": "g"})
        assert config.isolation_level is IsolationLevel.READ_UNCOMMITTED
        async with Cluster(config, runtime) as cluster:
            calls = OffsetCalls(cluster, config, runtime, Coordinators(cluster, config, runtime))
            found.append((await calls.fetch([T0], Identity, timeout_ms=5_000))[T0])

    brokers.run(story)
    assert [one and one.offset for one in found] == [20]
    asked = [request for _, request in brokers.requests(OffsetFetchRequest)]
    assert [request.require_stable for request in asked] == [True] * 3


def test_coordinator_that_will_not_tell_is_no_reason_to_ask_again() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    coordinator.group_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    async def story(runtime: Runtime) -> None:
        config = ConsumerConfig.from_properties({"bootstrap.servers": brokers.bootstrap, "group.id": "g"})
        async with Cluster(config, runtime) as cluster:
            calls = OffsetCalls(cluster, config, runtime, Coordinators(cluster, config, runtime))
            with pytest.raises(GroupRefused, match="GROUP_AUTHORIZATION_FAILED"):
                await calls.fetch([T0], Identity, timeout_ms=5_000)

    brokers.run(story)
