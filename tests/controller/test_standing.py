"""A broker that has forgotten something loses its standing, however many lives pass before a controller looks."""

from __future__ import annotations

import dataclasses

import pytest

from tests.controller.clusters import broker
from tests.controller.members import Member, Members, pause, play
from tidelog.config import BrokerConfig
from tidelog.controller import ClusterImage, NewTopic
from tidelog.controller.image import ALL_BROKERS
from tidelog.controller.leading import default_rules


async def forgetful_while_nobody_presides(members: Members) -> Member:
    """Broker 2 leads, loses power and comes back without all it knew, while the controller hears nothing of the registry."""
    one, two, _ = await members.three()
    [made] = await one.service.create_topics([NewTopic(name="t", assignments={0: (2, 1, 3)})])
    assert made.error is None
    session_id = two.registry.session_id
    two.kill(lost_power=True)
    members.store.cut("b1")
    assert session_id is not None
    members.store.expire(session_id)
    return await members.started(2, is_intact=False)


async def successor_has_decided(members: Members) -> None:
    members.store.heal("b1")
    await members.until(lambda: members.state().leader in (1, 3))


def test_life_after_a_forgetful_one_that_no_controller_saw_has_no_standing_either() -> None:
    async def story(members: Members) -> None:
        forgetful = await forgetful_while_nobody_presides(members)
        forgetful.kill()
        await pause(1)
        await members.started(2, is_intact=True)  # its directories are as the forgetful life left them
        await successor_has_decided(members)
        assert 2 not in members.state().isr

    play(story)


def test_forgetful_broker_whose_session_lapses_before_a_controller_saw_it_is_forgetful_still() -> None:
    async def story(members: Members) -> None:
        forgetful = await forgetful_while_nobody_presides(members)
        assert forgetful.registry.session_id is not None
        members.store.expire(forgetful.registry.session_id)
        await members.until(lambda: len(forgetful.epochs) == 2)
        await successor_has_decided(members)
        assert 2 not in members.state().isr

    play(story)


def test_once_heeded_a_loss_is_held_against_nobody() -> None:
    async def story(members: Members) -> None:
        _, two, _ = await members.three()
        await two.stop()
        two = await members.started(2, is_intact=False)
        await members.until(lambda: members.image.brokers[2].broker_epoch == two.epochs[0])
        await two.stop()
        await members.until(lambda: 2 not in members.image.brokers)
        three = members.everybody[2]
        await three.stop()
        await members.started(3)  # another start is heeded while broker 2 is away
        await members.until(lambda: 3 in members.image.brokers)
        await members.started(2)
        await members.until(lambda: 2 in members.image.brokers)
        assert members.image.brokers[2].is_intact

    play(story)


@pytest.mark.parametrize(
    ("altered", "minimum"),
    [
        ({}, 1),  # broker 2 was started with it
        ({ALL_BROKERS: "2"}, 2),
        ({ALL_BROKERS: "2", "1": "3"}, 2),
        ({ALL_BROKERS: "3", "2": "2"}, 2),
        ({"1": "2"}, 1),
    ],
)
def test_minimum_that_counts_is_the_least_any_leader_may_go_by(altered: dict[str, str], minimum: int) -> None:
    image = ClusterImage(
        brokers={
            1: broker(1),
            2: dataclasses.replace(broker(2), min_isr=1),
            3: dataclasses.replace(broker(3), min_isr=2),
        },
        broker_configs={name: {"min.insync.replicas": value} for name, value in altered.items()},
    )
    static = BrokerConfig.from_properties({"node.id": "1", "min.insync.replicas": "2"})
    assert default_rules(image, static).min_isr == minimum
