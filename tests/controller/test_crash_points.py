"""The registry is lost after every single write of a story; whatever is there then, the next start makes whole (fault C07)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine

import pytest

from tests.controller.channels import RecordedChannels, unheard
from tidelog.config import BrokerConfig
from tidelog.controller import (
    ClusterImage,
    ConfigAlteration,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
    MorePartitions,
    NewTopic,
    TopicResult,
)
from tidelog.controller.service import ControllerService
from tidelog.model import ApiError, ErrorCode
from tidelog.registry import Node, RegistryUnavailable
from tidelog.simulation.clock import SimulatedClock
from tidelog.simulation.loop import SimulatedLoop
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.registry import SimulatedRegistry, SimulatedRegistryStore

CONFIG = BrokerConfig.from_properties({"node.id": "1", "listeners": "PLAINTEXT://localhost:9092"})
PARTITIONS = 401  # made in three writes


def play(story: Coroutine[object, object, None]) -> None:
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(story)


def a_store() -> SimulatedRegistryStore:
    return SimulatedRegistryStore(SimulatedRandomness(1))


def on(registry: SimulatedRegistry, images: list[ClusterImage] | None = None) -> ControllerService:
    channels = RecordedChannels(images)
    return ControllerService(
        CONFIG, registry, SimulatedRandomness("s"), SimulatedClock(), channels, on_registered=unheard
    )


async def create(service: ControllerService) -> list[TopicResult]:
    return await service.create_topics([NewTopic(name="t", num_partitions=PARTITIONS, configs={"retention.ms": "7"})])


async def delete(service: ControllerService) -> list[TopicResult]:
    return await service.delete_topics(["t"])


async def restart(store: SimulatedRegistryStore) -> tuple[ClusterImage, ControllerService]:
    images: list[ClusterImage] = []
    service = on(store.handle(), images)
    await service.start()
    return images[-1], service


async def paths_of_topics(store: SimulatedRegistryStore) -> dict[str, Node]:
    """Every node below topics, settings and marks."""
    registry = store.handle()
    await registry.open_session()
    found: dict[str, Node] = {}
    pending = ["/brokers/topics", "/config/topics", "/admin/delete_topics"]
    while pending:
        path = pending.pop()
        for name in await registry.children(path):
            found[f"{path}/{name}"] = await registry.get(f"{path}/{name}")
            pending.append(f"{path}/{name}")
    await registry.close()
    return found


async def check_whole(store: SimulatedRegistryStore, image: ClusterImage) -> None:
    """The topic is there with everything, or not at all; image and registry agree."""
    found = await paths_of_topics(store)
    assert not [path for path in found if path.startswith("/admin/delete_topics/")]
    if "t" not in image.topics:
        assert found == {}
        return
    topic = image.topics["t"]
    assert (len(topic.partitions), topic.configs) == (PARTITIONS, {"retention.ms": "7"})
    assert len(found) == 3 + 2 * PARTITIONS
    for index, state in topic.partitions.items():
        assert state.leader == 1
        assert found[f"/brokers/topics/t/partitions/{index}/state"].version == state.partition_epoch


async def cut(
    story: Callable[[ControllerService], Awaitable[list[TopicResult]]],
    *,
    writes: int,
    next_write_happens: bool,
    prepared: bool,
) -> tuple[SimulatedRegistryStore, TopicResult]:
    """Play the story with the registry lost after some writes, and the process dying then."""
    store = a_store()
    registry = store.handle()
    service = on(registry)
    await service.start()
    if prepared:
        await create(service)
    store.cut_after_writes(writes, next_write_happens=next_write_happens)
    [result] = await story(service)
    registry.crash()
    store.heal()
    return store, result


@pytest.mark.parametrize("next_write_happens", [False, True])
@pytest.mark.parametrize("writes", range(4))
def test_creation_cut_after_any_write_is_completed_or_never_was(*, writes: int, next_write_happens: bool) -> None:
    async def story() -> None:
        store, result = await cut(create, writes=writes, next_write_happens=next_write_happens, prepared=False)
        assert (result.error is None) == (writes == 3)
        image, _ = await restart(store)
        assert ("t" in image.topics) == (writes > 0 or next_write_happens)
        await check_whole(store, image)

    play(story())


@pytest.mark.parametrize("next_write_happens", [False, True])
@pytest.mark.parametrize("writes", range(6))
def test_deletion_cut_after_any_write_is_completed_or_never_was(*, writes: int, next_write_happens: bool) -> None:
    async def story() -> None:
        store, result = await cut(delete, writes=writes, next_write_happens=next_write_happens, prepared=True)
        assert (result.error is None) == (writes > 0)
        image, _ = await restart(store)
        assert ("t" in image.topics) == (writes == 0 and not next_write_happens)
        await check_whole(store, image)

    play(story())


GROWN = 2 * PARTITIONS


async def grow(service: ControllerService) -> list[TopicResult]:
    [error] = await service.create_partitions([MorePartitions(name="t", count=GROWN)])
    return [TopicResult(name="t", error=error)]


@pytest.mark.parametrize("next_write_happens", [False, True])
@pytest.mark.parametrize("writes", range(4))
def test_growth_cut_after_any_write_is_completed_or_never_was(*, writes: int, next_write_happens: bool) -> None:
    async def story() -> None:
        store, result = await cut(grow, writes=writes, next_write_happens=next_write_happens, prepared=True)
        assert (result.error is None) == (writes == 3)
        image, _ = await restart(store)
        partitions = image.topics["t"].partitions
        assert len(partitions) == (GROWN if writes > 0 or next_write_happens else PARTITIONS)
        assert {state.leader for state in partitions.values()} == {1}
        found = await paths_of_topics(store)
        assert len(found) == 3 + 2 * len(partitions)

    play(story())


async def alter(service: ControllerService) -> list[TopicResult]:
    changes = (ConfigChange(name="retention.ms", operation=ConfigOperation.SET, value="9"),)
    resources = ((ConfigEntity.TOPIC, "t"), (ConfigEntity.BROKER, "1"))
    broker_changes = (ConfigChange(name="log.retention.ms", operation=ConfigOperation.SET, value="9"),)
    errors = await service.alter_configs(
        [
            ConfigAlteration(entity=entity, name=name, changes=changes if name == "t" else broker_changes)
            for entity, name in resources
        ]
    )
    return [TopicResult(name="t", error=next((error for error in errors if error is not None), None))]


@pytest.mark.parametrize("next_write_happens", [False, True])
@pytest.mark.parametrize("writes", range(3))
def test_alteration_cut_after_any_write_holds_for_whole_resources(*, writes: int, next_write_happens: bool) -> None:
    async def story() -> None:
        store, result = await cut(alter, writes=writes, next_write_happens=next_write_happens, prepared=True)
        assert (result.error is None) == (writes == 2)
        image, _ = await restart(store)
        done = min(2, writes + next_write_happens)
        assert image.topics["t"].configs == {"retention.ms": "9" if done >= 1 else "7"}
        assert image.broker_configs == ({"1": {"log.retention.ms": "9"}} if done == 2 else {})
        registry = store.handle()
        await registry.open_session()
        assert len(await registry.children("/config/changes")) == done

    play(story())


@pytest.mark.parametrize("next_write_happens", [False, True])
def test_start_cut_after_any_write_is_completed_by_the_next(*, next_write_happens: bool) -> None:
    async def story() -> None:
        for writes in range(10):
            store = a_store()
            registry = store.handle()
            store.cut_after_writes(writes, next_write_happens=next_write_happens)
            try:
                await on(registry).start()
            except RegistryUnavailable:
                pass
            else:
                assert writes >= 4  # layout, registration, controller epoch, election
                return
            registry.crash()
            store.heal()
            image, service = await restart(store)
            assert image.controller_epoch <= 2
            assert (await create(service))[0].error is None
        pytest.fail("the start never ended")

    play(story())


@pytest.mark.slow
def test_restart_cut_between_elections_never_takes_a_leader_epoch_back() -> None:
    async def story() -> None:
        store = a_store()
        _, service = await restart(store)
        await create(service)
        await service.stop()
        image, service = await restart(store)
        await service.stop()
        for writes in range(6):
            registry = store.handle()
            store.cut_after_writes(writes)
            with contextlib.suppress(RegistryUnavailable):  # the last cut comes after the start
                await on(registry).start()
            registry.crash()
            store.heal()
            before, (image, service) = image, await restart(store)
            for index, state in image.topics["t"].partitions.items():
                assert state.leader_epoch > before.topics["t"].partitions[index].leader_epoch
            await check_whole(store, image)
            await service.stop()

    play(story())


@pytest.mark.parametrize("writes", range(3))
def test_process_that_lives_on_completes_a_half_made_topic_with_its_next_command(writes: int) -> None:
    async def story() -> None:
        store = a_store()
        images: list[ClusterImage] = []
        service = on(store.handle(), images)
        await service.start()
        store.cut_after_writes(writes)
        [result] = await create(service)
        assert result.error is not None
        assert result.error.code is ErrorCode.REQUEST_TIMED_OUT
        store.heal()
        [other] = await service.create_topics([NewTopic(name="u")])
        assert other.error is None
        assert sorted(images[-1].topics) == (["t", "u"] if writes else ["u"])
        await service.delete_topics(["u"])
        await check_whole(store, images[-1])

    play(story())


@pytest.mark.parametrize("patience_ms", [1, 2, 3, 4, 5])
def test_caller_that_goes_away_leaves_a_controller_that_knows_what_is_there(patience_ms: int) -> None:
    async def story() -> None:
        store = a_store()
        images: list[ClusterImage] = []
        service = on(store.handle(), images)
        await service.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_ms / 1000):
                await create(service)
        await service.create_topics([NewTopic(name="u")])
        found = await paths_of_topics(store)
        assert ("t" in images[-1].topics) == ("/brokers/topics/t" in found)
        await service.delete_topics(["u"])
        await check_whole(store, images[-1])

    play(story())


@pytest.mark.parametrize(
    ("story_of", "expected"),
    [(create, {"t": PARTITIONS}), (grow, {"t": GROWN}), (alter, {"t": PARTITIONS}), (delete, {})],
)
def test_command_whose_caller_goes_away_is_carried_to_its_end(
    story_of: Callable[[ControllerService], Awaitable[list[TopicResult]]], expected: dict[str, int]
) -> None:
    async def story() -> None:
        store = a_store()
        images: list[ClusterImage] = []
        service = on(store.handle(), images)
        await service.start()
        if story_of is not create:
            await create(service)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.0001):
                await story_of(service)
        await service.stop()  # in its turn, so after what has begun
        image, _ = await restart(store)
        assert {name: len(topic.partitions) for name, topic in image.topics.items()} == expected
        assert (image.broker_configs != {}) == (story_of is alter)

    play(story())


def test_start_that_failed_can_be_tried_again_in_the_same_session() -> None:
    async def story() -> None:
        for writes in range(4):
            store = a_store()
            images: list[ClusterImage] = []
            service = on(store.handle(), images)
            store.cut_after_writes(writes, next_write_happens=True)
            with pytest.raises(RegistryUnavailable):
                await service.start()
            store.heal()
            await service.start()
            assert (images[-1].controller_id, images[-1].controller_epoch, list(images[-1].brokers)) == (1, 1, [1])

    play(story())


def test_producer_ids_are_not_to_be_had_while_the_registry_is_away() -> None:
    async def story() -> None:
        store = a_store()
        service = on(store.handle())
        await service.start()
        store.is_available = False
        with pytest.raises(ApiError) as refused:
            await service.allocate_producer_ids()
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        store.heal()
        assert await service.allocate_producer_ids() == range(1000)

    play(story())


def test_block_whose_answer_was_lost_is_not_handed_out_again() -> None:
    async def story() -> None:
        store = a_store()
        service = on(store.handle())
        await service.start()
        store.cut_after_writes(0, next_write_happens=True)
        with pytest.raises(ApiError):
            await service.allocate_producer_ids()
        store.heal()
        assert await service.allocate_producer_ids() == range(1000, 2000)

    play(story())
