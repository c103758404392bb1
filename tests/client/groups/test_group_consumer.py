"""A consumer and its group over real bytes: what goes wrong between them, and what comes of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.groups.scripted_coordinator import T0, ScriptedCoordinator
from tests.client.scripted_brokers import ScriptedBrokers
from tests.simulation.story import passed
from tidelog.client import CommitFailed, Consumer, ConsumerConfig, GroupRefused, WrongUse
from tidelog.client.groups.offset_commits import Committed
from tidelog.model import ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest


def config(brokers: ScriptedBrokers, **more: str) -> ConsumerConfig:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return ConsumerConfig.from_properties(
        {"bootstrap.servers": brokers.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **named}
    )


async def values(consumer: Consumer, count: int, within_s: float = 60) -> list[bytes]:
    """The next records, exactly so many."""
    found: list[bytes] = []
    async with asyncio.timeout(within_s):
        while len(found) < count:
            found += [record.value or b"" for record in await consumer.poll(timeout_ms=100)]
    assert len(found) == count
    return found


def test_member_reads_from_the_beginning_commits_when_it_closes_and_leaves() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    brokers.append(b"a", b"b")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"])
            assert await values(consumer, 2) == [b"a", b"b"]
            assert consumer.assignment == [T0]
            assert consumer.group.metadata() == ("g", 1, "me", None)

    brokers.run(story)
    assert coordinator.committed == {T0: (2, 0)}
    assert [request.members[0].member_id for _, request in brokers.requests(LeaveGroupRequest)] == ["me"]


def test_member_goes_on_where_its_group_has_committed() -> None:
    brokers = ScriptedBrokers()
    ScriptedCoordinator(brokers, 2).committed[T0] = (1, 0)
    brokers.append(b"a", b"b")

    async def story(runtime: Runtime) -> list[bytes]:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"])
            return await values(consumer, 1)

    assert brokers.run(story) == [b"b"]


def test_committed_epoch_shows_that_the_log_was_cut_since() -> None:
    brokers = ScriptedBrokers()
    ScriptedCoordinator(brokers, 2).committed[T0] = (3, 1)
    brokers.append(b"a", b"b")  # in epoch 0; what was read in epoch 1 is gone
    brokers.elect(1, 2)
    brokers.append(b"c", b"d")

    async def story(runtime: Runtime) -> list[bytes]:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"])
            return await values(consumer, 2)

    assert brokers.run(story) == [b"c", b"d"]


def test_program_that_fails_commits_nothing_that_it_may_not_have_finished() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"])
            await values(consumer, 1)
            raise LookupError

    with pytest.raises(LookupError):
        brokers.run(story)
    assert coordinator.committed == {}
    assert brokers.requests(LeaveGroupRequest)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.JOIN_GROUP, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ApiKey.JOIN_GROUP, ErrorCode.NOT_COORDINATOR),
        (ApiKey.JOIN_GROUP, ErrorCode.REBALANCE_IN_PROGRESS),
        (ApiKey.SYNC_GROUP, ErrorCode.REBALANCE_IN_PROGRESS),
        (ApiKey.SYNC_GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ApiKey.SYNC_GROUP, ErrorCode.UNKNOWN_MEMBER_ID),
        (ApiKey.HEARTBEAT, ErrorCode.NOT_COORDINATOR),
        (ApiKey.OFFSET_FETCH, ErrorCode.NOT_COORDINATOR),
        (ApiKey.OFFSET_FETCH, ErrorCode.UNSTABLE_OFFSET_COMMIT),
        (ApiKey.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ApiKey.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR),
        (ApiKey.OFFSET_COMMIT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_error_that_passes_is_waited_out(key: ApiKey, code: ErrorCode) -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    coordinator.refuse(key, code, code)
    brokers.append(b"a")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"])
            await values(consumer, 1)
            await passed(7)
            await consumer.poll()
            await consumer.group.commit()

    brokers.run(story)
    assert coordinator.committed == {T0: (1, 0)}


def test_killed_coordinator_is_looked_up_again_and_nothing_is_lost() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")
    lost: list[TopicPartition] = []

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"], on_lost=lost.extend)
            await values(consumer, 1)
            brokers.kill(2)
            coordinator.node = 3
            await passed(5)
            brokers.append(b"b")
            await values(consumer, 1)
            await consumer.group.commit()

    brokers.run(story)
    assert coordinator.committed == {T0: (2, 0)}
    assert lost == []
    assert {node for node, _ in brokers.requests(HeartbeatRequest)} >= {3}


def test_member_that_was_put_out_is_told_and_joins_anew() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    events: list[str] = []

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers, enable_auto_commit="false"), runtime) as consumer:
            consumer.group.subscribe(
                ["t"], on_assigned=lambda _: events.append("assigned"), on_lost=lambda _: events.append("lost")
            )
            while not events:
                await consumer.poll(timeout_ms=100)
            coordinator.refuse(ApiKey.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
            while len(events) < 3:
                await consumer.poll(timeout_ms=100)

    brokers.run(story)
    assert events == ["assigned", "lost", "assigned"]


def test_member_that_was_put_out_keeps_its_name_for_what_it_was_given() -> None:
    """In nobody's name its offsets would have been taken, though somebody else had its partitions."""
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers, enable_auto_commit="false"), runtime) as consumer:
            consumer.group.subscribe(["t"])
            assert await values(consumer, 1) == [b"a"]
            before = consumer.group.metadata()
            coordinator.refuse(ApiKey.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
            async with asyncio.timeout(60):
                while consumer.group.membership().generation > 0:
                    await passed(0.1)
            assert consumer.group.membership().member_id == ""
            assert consumer.group.metadata() == before
            brokers.append(b"b")
            assert await values(consumer, 2) == [b"a", b"b"]
            assert consumer.group.metadata() == consumer.group.membership()

    brokers.run(story)


def test_offsets_are_committed_before_partitions_are_given_up() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")
    seen: list[object] = []

    async def story(runtime: Runtime) -> None:
        async def on_revoked(partitions: list[TopicPartition]) -> None:
            seen.append(dict(coordinator.committed))
            assert [await consumer.position(each) for each in partitions] == [1]

        async with Consumer.connect(config(brokers, auto_commit_interval_ms="60000"), runtime) as consumer:
            consumer.group.subscribe(["t"], on_revoked=on_revoked)
            await values(consumer, 1)
            coordinator.assigned = ()
            coordinator.refuse(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS)
            while not seen:
                assert await consumer.poll(timeout_ms=100) == []
            brokers.append(b"b")
            assert await consumer.poll(timeout_ms=5_000) == []

    brokers.run(story)
    assert seen == [{T0: (1, 0)}]


def test_member_put_out_before_it_could_commit_is_told_that_it_lost_what_it_was_to_give_up() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")
    events: list[str] = []

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers, auto_commit_interval_ms="60000"), runtime) as consumer:
            consumer.group.subscribe(
                ["t"], on_revoked=lambda _: events.append("revoked"), on_lost=lambda _: events.append("lost")
            )
            await values(consumer, 1)
            loading = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 12
            coordinator.refuse(ApiKey.OFFSET_COMMIT, *loading, ErrorCode.ILLEGAL_GENERATION)
            coordinator.refuse(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
            while not events:
                assert await consumer.poll(timeout_ms=100) == []  # A commit under way holds no poll up.
            assert await values(consumer, 1) == [b"a"]

    brokers.run(story)
    assert events[0] == "lost"


def test_commit_of_a_member_that_was_put_out_is_refused_and_says_so() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers, enable_auto_commit="false"), runtime) as consumer:
            consumer.group.subscribe(["t"])
            await values(consumer, 1)
            coordinator.refuse(ApiKey.OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION)
            with pytest.raises(CommitFailed) as refused:
                await consumer.group.commit()
            assert refused.value.codes == {T0: ErrorCode.ILLEGAL_GENERATION}
            with pytest.raises(CommitFailed):  # It knows by itself now.
                await consumer.group.commit()

    brokers.run(story)
    assert len(brokers.requests(OffsetCommitRequest)) == 1


def test_refusal_that_lasts_is_raised_from_poll() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    coordinator.refuse(ApiKey.JOIN_GROUP, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"])
            for _ in range(2):
                with pytest.raises(GroupRefused, match="INCONSISTENT_GROUP_PROTOCOL"):
                    await consumer.poll(timeout_ms=10_000)
            consumer.group.subscribe(["t"])
            while not consumer.assignment:
                await consumer.poll(timeout_ms=100)

    brokers.run(story)


def test_heartbeats_go_on_while_the_program_works() -> None:
    brokers = ScriptedBrokers()
    ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"])
            await values(consumer, 1)
            await passed(31)

    brokers.run(story)
    assert len(brokers.requests(HeartbeatRequest)) >= 10


def test_program_that_does_not_poll_leaves_its_group_and_may_come_back() -> None:
    brokers = ScriptedBrokers()
    ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")
    lost: list[TopicPartition] = []

    async def story(runtime: Runtime) -> None:
        settings = config(brokers, max_poll_interval_ms="20000", enable_auto_commit="false")
        async with Consumer.connect(settings, runtime) as consumer:
            consumer.group.subscribe(["t"], on_lost=lost.extend)
            await values(consumer, 1)
            await passed(30)
            assert len(brokers.requests(LeaveGroupRequest)) == 1
            beats = len(brokers.requests(HeartbeatRequest))
            await passed(30)
            assert len(brokers.requests(HeartbeatRequest)) == beats
            assert await values(consumer, 1) == [b"a"]

    brokers.run(story)
    assert lost == [T0]


def test_static_member_does_not_leave() -> None:
    brokers = ScriptedBrokers()
    ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers, group_instance_id="one"), runtime) as consumer:
            consumer.group.subscribe(["t"])
            await values(consumer, 1)

    brokers.run(story)
    assert brokers.requests(LeaveGroupRequest) == []
    assert {request.group_instance_id for _, request in brokers.requests(OffsetCommitRequest)} == {"one"}


def test_unsubscribed_consumer_may_be_assigned_partitions_by_hand() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    brokers.append(b"a", b"b")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"])
            await values(consumer, 2)
            with pytest.raises(WrongUse):
                consumer.assign([T0])
            await consumer.group.unsubscribe()
            assert coordinator.committed == {T0: (2, 0)}
            assert (consumer.assignment, consumer.group.is_subscribed) == ([], False)
            brokers.append(b"c")
            consumer.assign([T0])
            assert await values(consumer, 1) == [b"c"]
            await consumer.group.commit({T0: Committed(1, 0, "mine")})
            assert coordinator.committed == {T0: (1, 0)}

    brokers.run(story)
    assert brokers.requests(OffsetCommitRequest)[-1][1].member_id == ""


def test_pattern_is_matched_by_the_member_itself() -> None:
    brokers = ScriptedBrokers()
    ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")

    async def story(runtime: Runtime) -> list[bytes]:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(pattern="[st]")
            return await values(consumer, 1)

    assert brokers.run(story) == [b"a"]


def test_seek_of_a_listener_counts_more_than_what_was_committed() -> None:
    brokers = ScriptedBrokers()
    ScriptedCoordinator(brokers, 2).committed[T0] = (1, 0)
    brokers.append(b"a", b"b", b"c")

    async def story(runtime: Runtime) -> list[bytes]:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"], on_assigned=lambda _: consumer.seek(T0, 2))
            return await values(consumer, 1)

    assert brokers.run(story) == [b"c"]


def test_listener_that_raises_is_heard_from_poll_and_the_group_goes_on() -> None:
    brokers = ScriptedBrokers()
    ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")

    def fail(partitions: list[TopicPartition]) -> None:
        raise LookupError(partitions)

    async def story(runtime: Runtime) -> list[bytes]:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"], on_assigned=fail)
            with pytest.raises(LookupError):
                await values(consumer, 1)
            return await values(consumer, 1)

    assert brokers.run(story) == [b"a"]


def test_closing_does_not_wait_for_a_coordinator_that_is_silent() -> None:
    brokers = ScriptedBrokers()
    ScriptedCoordinator(brokers, 2)
    brokers.append(b"a")

    async def story(runtime: Runtime) -> float:
        async with Consumer.connect(config(brokers), runtime) as consumer:
            consumer.group.subscribe(["t"])
            await values(consumer, 1)
            brokers.scripts[ApiKey.OFFSET_COMMIT] = lambda node, request: None
            brokers.scripts[ApiKey.LEAVE_GROUP] = lambda node, request: None
            before_ms = runtime.clock.monotonic_ms()
            await consumer.close(timeout_ms=2_000)
            return runtime.clock.monotonic_ms() - before_ms

    assert brokers.run(story) <= 2_100


def test_retries_of_a_commit_never_take_a_newer_one_back() -> None:
    brokers = ScriptedBrokers()
    coordinator = ScriptedCoordinator(brokers, 2)
    coordinator.refuse(ApiKey.OFFSET_COMMIT, *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3)
    results: list[object] = []

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(config(brokers, enable_auto_commit="false"), runtime) as consumer:
            for offset in (1, 2, 3):
                consumer.group.begin_commit(
                    {T0: Committed(offset)}, on_committed=lambda offsets, error: results.append((offsets, error))
                )
            while len(results) < 3:
                await passed(0.1)

    brokers.run(story)
    assert results == [({T0: Committed(offset)}, None) for offset in (1, 2, 3)]
    assert coordinator.committed == {T0: (3, -1)}


def test_group_needs_a_name() -> None:
    brokers = ScriptedBrokers()

    async def story(runtime: Runtime) -> None:
        settings = ConsumerConfig.from_properties({"bootstrap.servers": brokers.bootstrap})
        async with Consumer.connect(settings, runtime) as consumer:
            with pytest.raises(WrongUse, match=r"group\.id"):
                consumer.group.subscribe(["t"])
            with pytest.raises(WrongUse, match=r"group\.id"):
                await consumer.group.commit()

    brokers.run(story)
    assert not brokers.requests(JoinGroupRequest)
    assert not brokers.requests(OffsetFetchRequest)
