"""The registry is lost after every single write of what several brokers do; the next controller makes whole what is there (C07, R19)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.controller.clusters import T0
from tests.controller.members import Member, Members, pause, play
from tidelog.controller import (
    ClusterImage,
    ConfigAlteration,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
    IsrChange,
    NewTopic,
    PartitionState,
)
from tidelog.model import ApiError, TopicPartition
from tidelog.simulation.randomness import SimulatedRandomness

MANY = 450  # three slices
Story = Callable[[Members, Member], Coroutine[Any, Any, None]]


async def make(members: Members, *, count: int = MANY, assignment: tuple[int, ...] = (2, 3)) -> Member:
    one, _, _ = await members.three()
    assignments = dict.fromkeys(range(count), assignment)
    configs = {"min.insync.replicas": "2"}
    [result] = await one.service.create_topics([NewTopic(name="t", assignments=assignments, configs=configs)])
    assert result.error is None
    return one


async def cut_and_replace(
    members: Members, story: Story, *, writes: int, next_write_happens: bool, count: int = 3
) -> tuple[ClusterImage, ClusterImage]:
    """Play the story with the registry lost after some writes and the controller dying then; the images before and under its heir."""
    one = await make(members, count=count)
    before = members.image
    members.store.cut_after_writes(writes, next_write_happens=next_write_happens)
    await story(members, one)
    one.kill()
    members.store.heal()
    await members.until(lambda: members.controller is not one and len(members.controller.channels.images) > 0)
    heir = members.controller
    await members.until(lambda: 1 not in members.image.brokers)
    await check_agreement(members, heir)
    return before, members.image


async def check_agreement(members: Members, heir: Member) -> None:
    """What the controller believes is what the registry holds, and no partition is without what it needs."""
    looking = members.store.handle("looking")
    await looking.open_session()
    assert heir.service.is_active
    for name, topic in members.image.topics.items():
        for index, state in topic.partitions.items():
            node = await looking.get(f"/brokers/topics/{name}/partitions/{index}/state")
            assert node.version == state.partition_epoch
            assert state.isr
            assert set(state.isr) <= set(state.assignment)
            assert not set(state.isr) & set(state.eligible)
    await looking.close()


async def move(_: Members, one: Member) -> None:
    try:
        await one.service.alter_reassignments({TopicPartition("t", index): (1, 3) for index in range(3)})
    except ApiError:
        return


@pytest.mark.parametrize("next_write_happens", [False, True])
@pytest.mark.parametrize("writes", range(2))
def test_move_cut_after_any_write_has_begun_or_never_was(*, writes: int, next_write_happens: bool) -> None:
    async def story(members: Members) -> None:
        _, after = await cut_and_replace(members, move, writes=writes, next_write_happens=next_write_happens)
        has_begun = writes + next_write_happens > 0
        for state in after.topics["t"].partitions.values():
            assert state.is_reassigned == has_begun
            assert state.leader == 2
            assert state.assignment == ((1, 3, 2) if has_begun else (2, 3))
        heir = members.controller
        assert len(heir.service.list_reassignments()) == (3 if has_begun else 0)
        if has_begun:
            cancelled = await heir.service.alter_reassignments({TopicPartition("t", index): None for index in range(3)})
            assert set(cancelled.values()) == {None}
            assert {state.assignment for state in members.image.topics["t"].partitions.values()} == {(3, 2)}

    play(story)


async def arrive(members: Members, one: Member) -> None:
    """The new replica of a running move gets in sync, which completes it."""
    await propose_or_fail(members, one, 2, 3, 1)


async def propose_or_fail(members: Members, one: Member, *isr: int) -> None:
    state, brokers = members.state(), members.image.brokers
    change = IsrChange(
        topic="t",
        index=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=tuple((broker, brokers[broker].broker_epoch) for broker in isr),
    )
    try:
        await one.service.alter_partition(state.leader, brokers[state.leader].broker_epoch, [change])
    except ApiError:
        return


@pytest.mark.parametrize("next_write_happens", [False, True])
@pytest.mark.parametrize("writes", range(3))
def test_completion_of_a_move_cut_after_any_write_is_made_whole(*, writes: int, next_write_happens: bool) -> None:
    async def moving(members: Members, one: Member) -> None:
        members.store.heal()
        assert await one.service.alter_reassignments({T0: (1, 3)}) == {T0: None}
        members.store.cut_after_writes(writes, next_write_happens=next_write_happens)
        await arrive(members, one)

    async def story(members: Members) -> None:
        _, after = await cut_and_replace(members, moving, writes=writes, next_write_happens=next_write_happens, count=1)
        state = after.topics["t"].partitions[0]
        # The first write brings the replica into the ISR, the second completes the move. Then broker 1 died.
        if writes + next_write_happens < 2:
            assert (state.assignment, state.leader, 1 in state.isr) == ((1, 3, 2), 2, False)
        else:
            assert (state.assignment, state.leader, state.isr, state.is_reassigned) == ((1, 3), 3, (3,), False)

    play(story)


async def lose_two(members: Members, _: Member) -> None:
    """The leader of everything dies, and the controller is at it when the registry goes."""
    victim = next(
        member for member in members.everybody if member.service.broker_epoch == members.image.brokers[2].broker_epoch
    )
    victim.kill()
    await pause(2)


@pytest.mark.parametrize("next_write_happens", [False, True])
@pytest.mark.parametrize("writes", range(4))
@pytest.mark.slow
def test_failover_cut_after_any_write_is_completed_by_the_next_controller(
    *, writes: int, next_write_happens: bool
) -> None:
    async def story(members: Members) -> None:
        before, after = await cut_and_replace(
            members, lose_two, writes=writes, next_write_happens=next_write_happens, count=MANY
        )
        for index, state in after.topics["t"].partitions.items():
            assert (state.leader, state.isr, state.eligible) == (3, (3,), (2,))
            assert state.leader_epoch == before.topics["t"].partitions[index].leader_epoch + 1

    play(story)


async def alter(_: Members, one: Member) -> None:
    change = ConfigChange(name="min.insync.replicas", operation=ConfigOperation.SET, value="1")
    alteration = ConfigAlteration(entity=ConfigEntity.TOPIC, name="t", changes=(change,))
    await one.service.alter_configs([alteration])


@pytest.mark.parametrize("next_write_happens", [False, True])
@pytest.mark.parametrize("writes", range(2))
def test_nobody_is_eligible_by_a_minimum_that_holds_no_more(*, writes: int, next_write_happens: bool) -> None:
    async def shrink_then_alter(members: Members, one: Member) -> None:
        members.store.heal()
        await propose_or_fail(members, one, 2)
        assert members.state().eligible == (3,)
        members.store.cut_after_writes(writes, next_write_happens=next_write_happens)
        await alter(members, one)

    async def story(members: Members) -> None:
        _, after = await cut_and_replace(
            members, shrink_then_alter, writes=writes, next_write_happens=next_write_happens, count=1
        )
        topic = after.topics["t"]
        if writes + next_write_happens:
            assert (topic.configs, topic.partitions[0].eligible) == ({"min.insync.replicas": "1"}, ())
        else:
            assert (topic.configs, topic.partitions[0].eligible) == ({"min.insync.replicas": "2"}, (3,))

    play(story)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_controllers_that_die_at_random_moments_leave_a_cluster_that_can_be_led_on(seed: int) -> None:
    """Brokers and controllers come and go while the registry is cut at random; in the end everything is led and agreed upon."""
    randomness = SimulatedRandomness(f"half written {seed}")

    async def story(members: Members) -> None:
        await make(members, count=40, assignment=(1, 2, 3))
        by_id = dict(zip((1, 2, 3), members.everybody, strict=True))
        epochs: dict[int, int] = {}
        for _ in range(8):
            victim = 1 + randomness.below(3)
            members.store.cut_after_writes(randomness.below(4), next_write_happens=randomness.below(2) == 0)
            by_id[victim].kill(lost_power=False)
            await pause(0.1 + randomness.fraction())
            members.store.heal()
            await members.until(lambda dead=victim: dead not in members.image.brokers)  # type: ignore[misc]
            by_id[victim] = await members.started(victim)
            await members.until(lambda: len(members.image.brokers) == 3)
            for index, state in members.image.topics["t"].partitions.items():
                assert isinstance(state, PartitionState)
                assert state.leader_epoch >= epochs.get(index, 0)
                assert state.has_leader
                epochs[index] = state.leader_epoch
            await check_agreement(members, members.controller)

    play(story)
