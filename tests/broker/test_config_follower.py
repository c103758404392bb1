"""How settings reach a broker: through the registry, by notifications that may be missed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from tests.broker.control_rig import OTHER_ID, T0, TOPIC_ID, ControlledBroker, ControlRig, role, told
from tidelog.controller import layout
from tidelog.model import ApiError, ErrorCode
from tidelog.registry import Create, NodeExists, Registry, Set


async def alter(registry: Registry, path: str, configs: Mapping[str, str], *, is_told: bool = True) -> None:
    """Write settings as a controller does, with a notification."""
    content = layout.encode_configs(configs)
    try:
        await registry.multi([Create(path, content)])
    except NodeExists:
        await registry.multi([Set(path, content)])
    if is_told:
        await registry.multi([Create(layout.CHANGE_NOTIFICATION, layout.encode_change(path, 1), sequential=True)])


async def passed(duration_s: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(duration_s)  # noqa: TID251  # on the simulated loop


TOPIC_PATH = layout.topic_config_path("t")


def test_log_begins_with_the_settings_of_its_topic_and_follows_them() -> None:
    async def story(broker: ControlledBroker) -> None:
        await alter(broker.registry, TOPIC_PATH, {"max.message.bytes": "1000"})
        await broker.lead(role())
        await broker.update({T0: told()})
        assert broker.replicas.partition(T0).log.config.max_message_bytes == 1000
        await alter(broker.registry, TOPIC_PATH, {"max.message.bytes": "2000"})
        await passed(1)
        assert broker.replicas.partition(T0).log.config.max_message_bytes == 2000
        topic = broker.metadata.topic("t")
        assert topic is not None
        assert topic.configs == {"max.message.bytes": "2000"}

    ControlRig().tell(story)


def test_topic_made_anew_does_not_inherit_the_settings_of_its_namesake() -> None:
    async def story(broker: ControlledBroker) -> None:
        await alter(broker.registry, TOPIC_PATH, {"max.message.bytes": "1000"})
        await broker.lead(role())
        await broker.registry.delete(TOPIC_PATH)
        await broker.stop(T0)
        await broker.lead(role(), topic_id=OTHER_ID)
        assert broker.replicas.partition(T0).log.config.max_message_bytes != 1000

    ControlRig().tell(story)


def test_settings_of_brokers_reach_open_logs() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role())
        await alter(broker.registry, layout.broker_config_path("<default>"), {"message.max.bytes": "3000"})
        await passed(1)
        assert broker.live_config.current.message_max_bytes == 3000
        assert broker.replicas.partition(T0).log.config.max_message_bytes == 3000
        await alter(broker.registry, layout.broker_config_path("2"), {"message.max.bytes": "4000"})
        await passed(1)
        assert broker.live_config.current.message_max_bytes == 3000, "another broker's"

    ControlRig().tell(story)


def test_c04_change_whose_notification_was_missed_is_found() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role())
        await alter(broker.registry, TOPIC_PATH, {"max.message.bytes": "1000"}, is_told=False)
        await passed(61)
        assert broker.replicas.partition(T0).log.config.max_message_bytes == 1000

    ControlRig().tell(story)


def test_c02_settings_altered_while_the_session_was_over_are_read_with_the_next_one() -> None:
    rig = ControlRig()

    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role())
        rig.store.expire_node("broker-1")
        await passed(1)
        await broker.registry.open_session()
        await alter(broker.registry, TOPIC_PATH, {"max.message.bytes": "1000"})
        broker.configs.on_session()
        await passed(2)
        assert broker.replicas.partition(T0).log.config.max_message_bytes == 1000
        await alter(broker.registry, TOPIC_PATH, {"max.message.bytes": "2000"})
        await passed(1)
        assert broker.replicas.partition(T0).log.config.max_message_bytes == 2000, "watched again"

    rig.tell(story)


def test_unknown_topic_is_not_led_under_settings_that_cannot_be_read() -> None:
    rig = ControlRig()

    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role())
        rig.store.is_available = False
        assert await broker.lead(role(), topic="u", topic_id=OTHER_ID) is ErrorCode.REQUEST_TIMED_OUT
        assert await broker.lead(role(leader_epoch=1)) is ErrorCode.NONE, "what is known needs no registry"
        with pytest.raises(ApiError):
            await broker.configs.learn([("u", OTHER_ID)])
        assert await broker.update({T0: told()}, topic_id=TOPIC_ID) is ErrorCode.NONE
        rig.store.heal()
        assert await broker.lead(role(), topic="u", topic_id=OTHER_ID) is ErrorCode.NONE

    rig.tell(story)


def test_settings_that_make_no_sense_leave_the_topic_with_the_defaults() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.registry.create(TOPIC_PATH, b"no json")
        await broker.lead(role())
        await alter(broker.registry, TOPIC_PATH, {"max.message.bytes": "many"})
        await passed(1)
        assert broker.replicas.partition(T0).is_leader

    ControlRig().tell(story)
