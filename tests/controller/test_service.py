"""The controller's life on a registry: both twins, one story."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.controller.channels import RecordedChannels, unheard
from tidelog.config import BrokerConfig, Listener
from tidelog.controller import (
    ALL_BROKERS,
    ClusterImage,
    ConfigAlteration,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
    MalformedNode,
    NewTopic,
)
from tidelog.controller.service import BrokerIdTaken, ControllerService
from tidelog.model import ApiError, ErrorCode
from tidelog.registry import Registry
from tidelog.registry.sqlite import SqliteRegistry
from tidelog.simulation.clock import SimulatedClock
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.registry import SimulatedRegistryStore

T = TypeVar("T")

CONFIG = BrokerConfig.from_properties({"node.id": "1", "listeners": "PLAINTEXT://localhost:9092"})


class Site:
    """A registry that outlives the services started on it, and what the newest of them published."""

    def __init__(self, handle: Callable[[], Registry]) -> None:
        self._handle = handle
        self._runner = asyncio.Runner()
        self._services: list[ControllerService] = []
        self.images: list[ClusterImage] = []
        self.clock = SimulatedClock()

    def run(self, awaitable: Awaitable[T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(10):
                return await awaitable

        return self._runner.run(bounded())

    def service(self, config: BrokerConfig = CONFIG, registry: Registry | None = None) -> ControllerService:
        seed = f"service {len(self._services)}"
        service = ControllerService(
            config,
            registry or self._handle(),
            SimulatedRandomness(seed),
            self.clock,
            RecordedChannels(self.images),
            on_registered=unheard,
        )
        self._services.append(service)
        return service

    def started(self, config: BrokerConfig = CONFIG) -> ControllerService:
        service = self.service(config)
        self.run(service.start())
        return service

    def look(self) -> Registry:
        registry = self._handle()
        self.run(registry.open_session())
        return registry

    @property
    def image(self) -> ClusterImage:
        return self.images[-1]

    def close(self) -> None:
        for service in self._services:
            self.run(service.stop())
        self._runner.close()


@pytest.fixture(params=["sqlite", "simulated"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if request.param == "sqlite":
        path = str(tmp_path / "registry.sqlite")
        made = Site(lambda: SqliteRegistry(path))
    else:
        made = Site(SimulatedRegistryStore(SimulatedRandomness(3), latency_ms_max=0.0).handle)
    yield made
    made.close()


def test_first_start_makes_a_cluster_with_this_broker_as_controller(site: Site) -> None:
    site.started()
    assert (site.image.controller_id, site.image.controller_epoch) == (1, 1)
    assert len(site.image.cluster_id) == 22
    assert site.image.brokers[1].endpoints == {"PLAINTEXT": Listener("PLAINTEXT", "localhost", 9092)}
    assert site.image.topics == {}


def test_registry_tells_who_is_there(site: Site) -> None:
    site.started()
    registry = site.look()
    assert json.loads(site.run(registry.get("/controller")).data)["brokerid"] == 1
    assert site.run(registry.get("/controller_epoch")).data == b"1"
    assert site.run(registry.get("/brokers/ids/1")).is_ephemeral
    assert site.run(registry.get("/brokers/ids/1")).czxid == site.image.brokers[1].broker_epoch
    site.run(registry.close())


def test_cluster_id_is_made_once(site: Site) -> None:
    service = site.service()
    cluster_id = site.run(service.prepare())
    site.run(service.start())
    site.run(service.stop())
    assert site.run(site.service().prepare()) == cluster_id == site.image.cluster_id


def test_ports_that_were_picked_are_registered(site: Site) -> None:
    config = dataclasses.replace(CONFIG, listeners=(Listener("PLAINTEXT", "127.0.0.1", 0),))
    service = site.service(config)
    site.run(service.start(config.advertised([Listener("PLAINTEXT", "127.0.0.1", 31337)])))
    assert site.image.brokers[1].endpoints["PLAINTEXT"].port == 31337


def test_advertised_listener_replaces_the_bound_one() -> None:
    config = BrokerConfig.from_properties(
        {"listeners": "PLAINTEXT://0.0.0.0:0", "advertised.listeners": "PLAINTEXT://kafka.example:0"}
    )
    bound = [Listener("PLAINTEXT", "0.0.0.0", 31337)]  # noqa: S104
    assert config.advertised(bound) == (Listener("PLAINTEXT", "kafka.example", 31337),)


def test_created_topic_is_published_with_leaders_before_the_answer(site: Site) -> None:
    service = site.started()
    [result] = site.run(
        service.create_topics([NewTopic(name="t", num_partitions=3, configs={"segment.bytes": "1000"})])
    )
    topic = site.image.topics["t"]
    assert (result.error, result.topic_id, result.partition_count) == (None, topic.topic_id, 3)
    assert [state.leader for state in topic.partitions.values()] == [1, 1, 1]
    assert topic.log_config(CONFIG).segment_bytes == 1000


def test_validating_publishes_and_writes_nothing(site: Site) -> None:
    service = site.started()
    published = len(site.images)
    [result] = site.run(service.create_topics([NewTopic(name="t")], validate_only=True))
    assert (result.error, result.partition_count) == (None, 1)
    assert len(site.images) == published
    registry = site.look()
    assert site.run(registry.children("/brokers/topics")) == []
    site.run(registry.close())


def test_validating_finds_what_creating_would_find(site: Site) -> None:
    service = site.started()
    wanted = [NewTopic(name="a.b", num_partitions=4), NewTopic(name="a_b"), NewTopic(name="!")]
    good, colliding, bad = site.run(service.create_topics(wanted, validate_only=True))
    assert (good.error, good.partition_count, good.topic_id) == (None, 4, None)
    assert colliding.error is not None
    assert colliding.error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert bad.error is not None


def test_topics_of_one_request_collide_also_when_they_are_decided_apart(site: Site) -> None:
    service = site.started()
    wanted = [NewTopic(name=f"a.{number}") for number in range(25)] + [NewTopic(name="a_3"), NewTopic(name="a.4")]
    results = site.run(service.create_topics(wanted))
    codes = [None if result.error is None else result.error.code for result in results]
    assert codes[:25] == [None] * 25
    assert codes[25:] == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert len(site.image.topics) == 25


def test_request_for_too_many_partitions_is_refused_as_a_whole(site: Site) -> None:
    service = site.started(dataclasses.replace(CONFIG, partitions_per_request_max=10))
    results = site.run(service.create_topics([NewTopic(name="a", num_partitions=10), NewTopic(name="b")]))
    assert [result.error and result.error.code for result in results] == [ErrorCode.POLICY_VIOLATION] * 2
    assert site.image.topics == {}


def test_restart_is_an_election(site: Site) -> None:
    service = site.started()
    site.run(service.create_topics([NewTopic(name="t", num_partitions=2, configs={"retention.ms": "-1"})]))
    before = site.image
    site.run(service.stop())
    site.started()
    after = site.image
    assert after.controller_epoch == before.controller_epoch + 1
    assert after.brokers[1].broker_epoch > before.brokers[1].broker_epoch
    assert (after.topics["t"].topic_id, after.topics["t"].configs) == (
        before.topics["t"].topic_id,
        {"retention.ms": "-1"},
    )
    for index in range(2):
        old, new = before.topics["t"].partitions[index], after.topics["t"].partitions[index]
        assert new == dataclasses.replace(old, leader_epoch=1, partition_epoch=1)


def test_leader_epochs_grow_with_every_restart(site: Site) -> None:
    site.run(site.started().create_topics([NewTopic(name="t")]))
    epochs = [site.image.topics["t"].partitions[0].leader_epoch]
    for _ in range(3):
        site.run(site._services[-1].stop())  # noqa: SLF001
        site.started()
        epochs.append(site.image.topics["t"].partitions[0].leader_epoch)
    assert epochs == [0, 1, 2, 3]


def test_deleted_topic_leaves_nothing_behind_and_can_be_made_anew(site: Site) -> None:
    service = site.started()
    [created] = site.run(service.create_topics([NewTopic(name="t", num_partitions=3)]))
    [deleted] = site.run(service.delete_topics(["t"]))
    assert (deleted.error, deleted.topic_id, list(site.image.topics)) == (None, created.topic_id, [])
    registry = site.look()
    for path in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
        assert site.run(registry.children(path)) == []
    site.run(registry.close())
    [again] = site.run(service.create_topics([NewTopic(name="t")]))
    assert again.topic_id != created.topic_id
    assert site.image.topics["t"].partitions[0].leader_epoch == 0


def test_deleting_an_unknown_topic_is_told(site: Site) -> None:
    service = site.started()
    [result] = site.run(service.delete_topics(["t"]))
    assert result.error is not None
    assert result.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_of_two_callers_creating_one_topic_one_is_told_that_it_exists(site: Site) -> None:
    service = site.started()

    async def both() -> list[ErrorCode | None]:
        results = await asyncio.gather(*(service.create_topics([NewTopic(name="t")]) for _ in range(2)))
        return [result.error.code if result.error else None for [result] in results]

    assert site.run(both()) == [None, ErrorCode.TOPIC_ALREADY_EXISTS]


def test_producer_id_blocks_never_overlap_also_over_restarts(site: Site) -> None:
    service = site.started()
    first, second = site.run(service.allocate_producer_ids()), site.run(service.allocate_producer_ids())
    site.run(service.stop())
    third = site.run(site.started().allocate_producer_ids())
    assert [first, second, third] == [range(1000), range(1000, 2000), range(2000, 3000)]


def test_producer_ids_that_are_in_use_already_are_passed_over(site: Site) -> None:
    service = site.started()
    assert site.run(service.allocate_producer_ids(above=4711)) == range(4712, 5712)
    assert site.run(service.allocate_producer_ids(above=17)) == range(5712, 6712)


def test_concurrent_allocations_get_different_blocks(site: Site) -> None:
    service = site.started()

    async def several() -> list[range]:
        return list(await asyncio.gather(*(service.allocate_producer_ids() for _ in range(4))))

    assert sorted(block.start for block in site.run(several())) == [0, 1000, 2000, 3000]


def test_exhausted_producer_ids_are_told(site: Site) -> None:
    service = site.started()
    registry = site.look()
    last = b'{"version":1,"broker":1,"block_start":"0","block_end":"9223372036854775806"}'
    site.run(registry.set("/latest_producer_id_block", last))
    with pytest.raises(ApiError, match="all producer ids"):
        site.run(service.allocate_producer_ids())
    site.run(registry.close())


def test_generated_broker_ids_lie_above_the_reserved_ones_and_differ(site: Site) -> None:
    service = site.started()
    assert [site.run(service.generate_broker_id()), site.run(service.generate_broker_id())] == [1001, 1002]


def test_broker_id_of_a_live_broker_elsewhere_is_refused_at_once(site: Site) -> None:
    site.started()
    elsewhere = dataclasses.replace(CONFIG, listeners=(Listener("PLAINTEXT", "localhost", 9999),))
    with pytest.raises(BrokerIdTaken, match="broker id 1 is registered by another live broker"):
        site.started(elsewhere)


def test_broker_id_of_a_live_broker_at_our_place_is_refused_when_no_session_could_last_longer(site: Site) -> None:
    site.started()
    with pytest.raises(BrokerIdTaken, match="broker id 1 is registered by another live broker"):
        site.started(dataclasses.replace(CONFIG, registry_session_timeout_ms=10))


def test_second_broker_finds_the_controller_elsewhere(site: Site) -> None:
    first = site.started()
    second = site.started(dataclasses.replace(CONFIG, broker_id=2))
    assert [(one.is_active, one.controller_id) for one in (first, second)] == [(True, 1), (False, 1)]
    [result] = site.run(second.create_topics([NewTopic(name="t")]))
    assert result.error is not None
    assert result.error.code is ErrorCode.NOT_CONTROLLER


def test_controller_that_slept_through_an_election_changes_nothing(site: Site) -> None:
    service = site.started()
    usurper = site.look()
    site.run(usurper.set("/controller_epoch", b"9"))
    [result] = site.run(service.create_topics([NewTopic(name="t")]))
    assert result.error is not None
    assert result.error.code is ErrorCode.NOT_CONTROLLER
    assert site.run(usurper.children("/brokers/topics")) == []
    site.run(usurper.close())


def test_commands_before_the_start_find_no_controller(site: Site) -> None:
    [result] = site.run(site.service().create_topics([NewTopic(name="t")]))
    assert result.error is not None
    assert result.error.code is ErrorCode.NOT_CONTROLLER


def test_stopped_broker_is_no_longer_registered(site: Site) -> None:
    service = site.started()
    site.run(service.stop())
    registry = site.look()
    assert site.run(registry.children("/brokers/ids")) == []
    assert not site.run(registry.exists("/controller"))
    site.run(registry.close())


def test_malformed_topic_stops_the_start_with_its_path(site: Site) -> None:
    site.run(site.service().prepare())
    registry = site.look()
    site.run(registry.create("/brokers/topics/t", b"rubbish"))
    with pytest.raises(MalformedNode, match="/brokers/topics/t: the content is no JSON"):
        site.started()
    site.run(registry.close())


def test_topic_of_an_old_kafka_is_given_an_id_once(site: Site) -> None:
    site.run(site.service().prepare())
    registry = site.look()
    site.run(registry.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}'))
    service = site.started()
    topic_id = site.image.topics["t"].topic_id
    assert site.image.topics["t"].partitions[0].leader == 1
    site.run(service.stop())
    site.started()
    assert site.image.topics["t"].topic_id == topic_id
    site.run(registry.close())


def test_settings_of_no_topic_do_not_stand_in_the_way_of_a_new_one(site: Site) -> None:
    site.run(site.service().prepare())
    registry = site.look()
    site.run(registry.create("/config/topics/t", b'{"version":1,"config":{"retention.ms":"1"}}'))
    service = site.started()
    [result] = site.run(service.create_topics([NewTopic(name="t")]))
    assert result.error is None
    assert site.image.topics["t"].configs == {}
    site.run(registry.close())


@pytest.mark.slow
def test_large_topic_is_made_loaded_and_deleted(site: Site) -> None:
    service = site.started()
    site.run(service.create_topics([NewTopic(name="t", num_partitions=450)]))
    site.run(service.stop())
    service = site.started()
    assert {state.leader_epoch for state in site.image.topics["t"].partitions.values()} == {1}
    [result] = site.run(service.delete_topics(["t"]))
    assert result.error is None


def set_retention(value: str) -> ConfigAlteration:
    change = ConfigChange(name="log.retention.ms", operation=ConfigOperation.SET, value=value)
    return ConfigAlteration(entity=ConfigEntity.BROKER, name=ALL_BROKERS, changes=(change,))


def test_notifications_of_changed_settings_go_after_a_quarter_of_an_hour(site: Site) -> None:
    service, registry = site.started(), site.look()
    for value, count in (("1", 1), ("2", 2)):
        assert site.run(service.alter_configs([set_retention(value)])) == [None]
        assert len(site.run(registry.children("/config/changes"))) == count
    site.clock.advance_ms(16 * 60_000)
    assert site.run(service.alter_configs([set_retention("3")])) == [None]
    assert site.run(registry.children("/config/changes")) == ["config_change_0000000002"]


def test_altered_settings_of_brokers_are_loaded_again(site: Site) -> None:
    service = site.started()
    site.run(service.alter_configs([set_retention("5")]))
    site.run(service.stop())
    site.started()
    assert site.image.broker_configs == {ALL_BROKERS: {"log.retention.ms": "5"}}


def test_altered_settings_that_cannot_be_read_are_refused_with_their_path(site: Site) -> None:
    site.run(site.started().stop())
    registry = site.look()
    content = b'{"version":1,"config":{"log.retention.ms":"soon","some.plugin.setting":"x"}}'
    site.run(registry.create("/config/brokers/1", content))
    with pytest.raises(MalformedNode, match=r"/config/brokers/1.*log\.retention\.ms"):
        site.started()
