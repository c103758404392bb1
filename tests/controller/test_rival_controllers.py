"""Random cuts, pauses of sessions, kills and outages among three services: whatever each of them publishes, there is one history."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.controller.clusters import T0
from tests.controller.members import Member, Members, pause, play
from tidelog.controller import ElectionType, IsrChange, NewTopic, PartitionState
from tidelog.model import ApiError, TopicPartition
from tidelog.registry import NoNode, RegistryUnavailable
from tidelog.simulation.randomness import SimulatedRandomness

STEPS = 25
PARTITIONS = 4


class Havoc:
    """Things that happen to brokers 1, 2 and 3, and what their controllers are asked meanwhile."""

    def __init__(self, members: Members, seed: int) -> None:
        self.members = members
        self.randomness = SimulatedRandomness(f"havoc {seed}")
        self.living: dict[int, Member] = {}

    async def step(self) -> None:
        broker_id = 1 + self.randomness.below(3)
        match self.randomness.below(11):
            case 0:
                self.members.store.cut(f"b{broker_id}")
            case 1 | 2:
                self.members.store.heal()
            case 3:
                self.members.store.is_available = False
            case 4:
                await self.restart(broker_id)
            case 5:
                session_id = self.living[broker_id].registry.session_id
                if session_id is not None:
                    self.members.store.expire(session_id)
            case 6:
                self.members.store.cut_after_writes(self.randomness.below(3), next_write_happens=True)
            case 7:
                await asyncio.gather(self.depose(), self.ask(), self.ask())
            case _:
                await self.ask()
        await pause(self.randomness.fraction() * 4)

    async def restart(self, broker_id: int) -> None:
        self.members.store.heal()
        self.living[broker_id].kill(lost_power=self.randomness.below(2) == 0)
        self.living[broker_id] = await self.members.started(broker_id)

    async def depose(self) -> None:
        """An operator clears the office, of which its holder learns only later."""
        operator = self.members.store.handle("operator")
        with contextlib.suppress(RegistryUnavailable, NoNode):
            await operator.open_session()
            await operator.delete("/controller")
        await operator.close()

    async def ask(self) -> None:
        """Whoever believes to be the controller is asked something."""
        for member in list(self.living.values()):
            if member.service.is_active and member.channels.images:
                try:
                    await self.ask_one(member)
                except ApiError:
                    continue

    async def ask_one(self, member: Member) -> None:
        image = member.channels.images[-1]
        state = image.state_of(T0)
        match self.randomness.below(4):
            case 0:
                await member.service.create_topics([NewTopic(name=f"u{self.randomness.below(5)}")])
            case 1 if state is not None and state.leader in image.brokers:
                isr = [one for one in state.assignment if one == state.leader or self.randomness.below(2)]
                change = IsrChange(
                    topic="t",
                    index=0,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                    isr=tuple((one, image.brokers[one].broker_epoch) for one in isr if one in image.brokers),
                )
                epoch = image.brokers[state.leader].broker_epoch
                await member.service.alter_partition(state.leader, epoch, [change])
            case 2:
                await member.service.elect_leaders(ElectionType.PREFERRED, None, 100)
            case _:
                target = tuple(dict.fromkeys(1 + self.randomness.below(3) for _ in range(3)))
                await member.service.alter_reassignments({TopicPartition("t", self.randomness.below(4)): target})


def check_one_history(members: Members) -> None:
    """No two controllers share an epoch, no two leaders an epoch, and a version of a state is one state."""
    controllers: dict[int, int] = {}
    states: dict[tuple[object, int, int], PartitionState] = {}
    leaders: dict[tuple[object, int, int], int] = {}
    for member in members.everybody:
        for image in member.channels.images:
            assert controllers.setdefault(image.controller_epoch, image.controller_id) == image.controller_id
            for topic in image.topics.values():
                for index, state in topic.partitions.items():
                    version = (topic.topic_id, index, state.partition_epoch)
                    assert states.setdefault(version, state) == state
                    epoch = (topic.topic_id, index, state.leader_epoch)
                    assert leaders.setdefault(epoch, state.leader) == state.leader
                    assert state.isr


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_to_controllers_there_is_one_history(seed: int) -> None:
    async def story(members: Members) -> None:
        havoc = Havoc(members, seed)
        havoc.living = dict(zip((1, 2, 3), await members.three(), strict=True))
        assignments = {index: (1 + index % 3, 1 + (index + 1) % 3, 1 + (index + 2) % 3) for index in range(PARTITIONS)}
        await members.controller.service.create_topics([NewTopic(name="t", assignments=assignments)])
        for _ in range(STEPS):
            await havoc.step()
        members.store.heal()
        await members.until(lambda: list(members.image.brokers) == [1, 2, 3])
        await members.until(lambda: all(state.has_leader for state in members.image.topics["t"].partitions.values()))
        check_one_history(members)

    play(story)


@pytest.mark.proof
@pytest.mark.parametrize("block", range(20))
def test_whatever_happens_to_controllers_there_is_one_history_in_many_runs(block: int) -> None:
    for seed in range(1000 + block * 50, 1050 + block * 50):
        test_whatever_happens_to_controllers_there_is_one_history(seed)
