"""More partitions and other settings: what the controller decides, by literal values."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from tests.controller.clusters import T0, broker, controller, state, topic
from tidelog.controller import (
    ALL_BROKERS,
    AlterConfigs,
    ConfigAlteration,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
    Controller,
    CreatePartitions,
    CreateTopics,
    Decision,
    ForgetMinimums,
    MorePartitions,
    NewTopic,
    Reconsider,
    SeeBrokers,
    layout,
)
from tidelog.controller.altering import with_doubted_minimums
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.registry import Create, Node, Set

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def grown(deciding: Controller, *topics: MorePartitions) -> Decision:
    return deciding.decide(CreatePartitions(topics=topics))


def codes(errors: Iterable[ApiError | None]) -> list[ErrorCode | None]:
    return [None if error is None else error.code for error in errors]


def test_new_partitions_go_on_where_the_placement_of_the_topic_stopped() -> None:
    deciding = controller(topic("t", state((2, 3)), state((3, 1))), brokers=3)
    decision = grown(deciding, MorePartitions(name="t", count=6))
    partitions = decision.image.topics["t"].partitions
    assert [partitions[index].assignment for index in range(6)] == [(2, 3), (3, 1), (1, 3), (2, 3), (3, 1), (1, 2)]
    assert (partitions[5].leader, partitions[5].leader_epoch, partitions[5].isr) == (1, 0, (1, 2))
    assert partitions[0] == deciding.image.topics["t"].partitions[0]


def test_growth_is_one_write_that_says_everything() -> None:
    deciding = controller(topic("t", state((1,))), brokers=1)
    [write] = grown(deciding, MorePartitions(name="t", count=2)).writes
    assert [(type(one), one.path) for one in write] == [
        (Set, "/brokers/topics/t"),
        (Create, "/brokers/topics/t/partitions/1"),
        (Create, "/brokers/topics/t/partitions/1/state"),
    ]
    assert isinstance(write[0], Set)
    assert json.loads(write[0].data)["partitions"] == {"0": [1], "1": [1]}


def test_large_growth_is_written_in_bounded_pieces_of_which_the_first_says_what_it_is() -> None:
    writes = list(grown(controller(topic("t", state((1,)))), MorePartitions(name="t", count=452)).writes)
    assert [len(write) for write in writes] == [401, 400, 102]
    assert writes[0][0].path == "/brokers/topics/t"


def test_new_partitions_can_be_placed_by_hand() -> None:
    deciding = controller(topic("t", state((1, 2))), brokers=3)
    decision = grown(deciding, MorePartitions(name="t", count=3, assignments=((3, 1), (2, 3))))
    partitions = decision.image.topics["t"].partitions
    assert [partitions[index].assignment for index in (1, 2)] == [(3, 1), (2, 3)]


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (MorePartitions(name="t", count=2), ErrorCode.INVALID_PARTITIONS, "already has 2 partition"),
        (MorePartitions(name="t", count=1), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (MorePartitions(name="t", count=-1), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (MorePartitions(name="no", count=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
        (MorePartitions(name="t", count=10_001), ErrorCode.POLICY_VIOLATION, "tidelog.topic.partitions.max"),
        (MorePartitions(name="t", count=3, assignments=()), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "only 0 assignment"),
        (
            MorePartitions(name="t", count=3, assignments=((),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "an empty replica",
        ),
        (MorePartitions(name="t", count=3, assignments=((1, 9),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9"),
        (
            MorePartitions(name="t", count=3, assignments=((1, 1),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "more than once",
        ),
        (
            MorePartitions(name="t", count=3, assignments=((1,),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "not consistent",
        ),
    ],
)
def test_growth_that_cannot_be_is_refused(wanted: MorePartitions, code: ErrorCode, message: str) -> None:
    deciding = controller(topic("t", state((1, 2)), state((2, 1))), brokers=2)
    decision = grown(deciding, wanted)
    (error,) = decision.errors
    assert error is not None
    assert (error.code, message in (error.message or "")) == (code, True)
    assert (list(decision.writes), decision.image) == ([], deciding.image)


def test_growth_with_too_few_live_brokers_is_refused() -> None:
    deciding = controller(topic("t", state((1, 2, 3))), brokers=2)
    assert codes(grown(deciding, MorePartitions(name="t", count=2)).errors) == [ErrorCode.INVALID_REPLICATION_FACTOR]


def test_one_request_adds_a_bounded_number_of_partitions() -> None:
    deciding = controller(topic("a", state((1,))), topic("b", state((1,))), tidelog_request_partitions_max="5")
    decision = grown(deciding, MorePartitions(name="a", count=5), MorePartitions(name="b", count=3))
    assert codes(decision.errors) == [None, ErrorCode.POLICY_VIOLATION]
    assert [len(decision.image.topics[name].partitions) for name in "ab"] == [5, 1]


def altering(
    name: str, *changes: ConfigChange, entity: ConfigEntity = ConfigEntity.TOPIC, replaces_all: bool = False
) -> AlterConfigs:
    alteration = ConfigAlteration(entity=entity, name=name, changes=changes, replaces_all=replaces_all)
    return AlterConfigs(alterations=[alteration])


def change(name: str, value: str | None, operation: ConfigOperation = SET) -> ConfigChange:
    return ConfigChange(name=name, operation=operation, value=value)


def test_altered_settings_are_written_with_a_notification_as_kafka_writes_it() -> None:
    deciding = controller(topic("t", state((1,)), configs={"retention.ms": "5"}))
    decision = deciding.decide(altering("t", change("flush.ms", "7")))
    [(setting, notification)] = decision.writes
    assert setting == Set("/config/topics/t", b'{"version":1,"config":{"flush.ms":"7","retention.ms":"5"}}')
    told = b'{"version":2,"entity_path":"topics/t","tidelog":{"min_isr_before":1}}'
    assert notification == Create("/config/changes/config_change_", told, sequential=True)
    assert decision.image.topics["t"].configs == {"retention.ms": "5", "flush.ms": "7"}


@pytest.mark.parametrize(
    ("changed", "configs"),
    [
        (change("retention.ms", "9"), {"retention.ms": "9"}),
        (change("retention.ms", None, DELETE), {}),
        (change("flush.ms", None, DELETE), {"retention.ms": "5"}),
        (change("cleanup.policy", "compact", APPEND), {"retention.ms": "5", "cleanup.policy": "delete,compact"}),
        (change("cleanup.policy", "delete", APPEND), {"retention.ms": "5", "cleanup.policy": "delete"}),
    ],
)
def test_operations_change_one_setting(changed: ConfigChange, configs: dict[str, str]) -> None:
    deciding = controller(topic("t", state((1,)), configs={"retention.ms": "5"}))
    decision = deciding.decide(altering("t", changed))
    assert (codes(decision.errors), decision.image.topics["t"].configs) == ([None], configs)


def test_what_is_taken_from_a_list_leaves_the_rest() -> None:
    deciding = controller(topic("t", state((1,)), configs={"cleanup.policy": "compact,delete"}))
    decision = deciding.decide(altering("t", change("cleanup.policy", "compact", SUBTRACT)))
    assert decision.image.topics["t"].configs == {"cleanup.policy": "delete"}


def test_replacing_all_forgets_what_is_not_named() -> None:
    deciding = controller(topic("t", state((1,)), configs={"retention.ms": "5", "flush.ms": "1"}))
    decision = deciding.decide(altering("t", change("flush.ms", "2"), replaces_all=True))
    assert decision.image.topics["t"].configs == {"flush.ms": "2"}


def test_settings_that_are_as_wanted_already_are_not_written() -> None:
    deciding = controller(topic("t", state((1,)), configs={"retention.ms": "5"}))
    decision = deciding.decide(altering("t", change("retention.ms", "5")))
    assert (codes(decision.errors), list(decision.writes), decision.image) == ([None], [], deciding.image)


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        ("t", [change("retention.ms", "soon")], ErrorCode.INVALID_CONFIG),
        ("t", [change("retention.milliseconds", "1")], ErrorCode.INVALID_CONFIG),
        ("t", [change("no.such.setting", None, DELETE)], ErrorCode.INVALID_CONFIG),
        ("t", [change("retention.ms", "1", APPEND)], ErrorCode.INVALID_CONFIG),
        ("t", [change("cleanup.policy", "delete", SUBTRACT)], ErrorCode.INVALID_CONFIG),
        ("t", [change("cleanup.policy", "shred", APPEND)], ErrorCode.INVALID_CONFIG),
        ("t", [change("max.compaction.lag.ms", "1"), change("min.compaction.lag.ms", "2")], ErrorCode.INVALID_CONFIG),
        ("t", [change("retention.ms", None)], ErrorCode.INVALID_REQUEST),
        ("t", [change("retention.ms", "1"), change("retention.ms", "2")], ErrorCode.INVALID_REQUEST),
        ("", [change("retention.ms", "1")], ErrorCode.INVALID_REQUEST),
        ("no", [change("retention.ms", "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no/name", [change("retention.ms", "1")], ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_topic_settings_that_cannot_be_are_refused_as_a_whole(
    name: str, changes: list[ConfigChange], code: ErrorCode
) -> None:
    deciding = controller(topic("t", state((1,))))
    decision = deciding.decide(altering(name, change("flush.ms", "1"), *changes))
    assert codes(decision.errors) == [code]
    assert (list(decision.writes), decision.image) == ([], deciding.image)


def broker_change(name: str, *changes: ConfigChange) -> AlterConfigs:
    return altering(name, *changes, entity=ConfigEntity.BROKER)


def test_settings_of_brokers_lie_in_layers() -> None:
    deciding = controller(topic("t", state((1,))), node_id="1", log_retention_ms="3")
    for name, value in ((ALL_BROKERS, "4"), ("1", "5")):
        decision = deciding.decide(broker_change(name, change("log.retention.ms", value)))
        [(first, notification)] = decision.writes
        assert isinstance(first, Create)
        assert (first.path, json.loads(first.data)["config"]) == (
            f"/config/brokers/{name}",
            {"log.retention.ms": value},
        )
        assert isinstance(notification, Create)
        assert json.loads(notification.data)["entity_path"] == f"brokers/{name}"
        deciding.image = decision.image
        assert deciding.config.log_retention_ms == int(value)
    decision = deciding.decide(broker_change("1", change("log.retention.ms", None, DELETE)))
    [(setting, _)] = decision.writes
    assert setting == Set("/config/brokers/1", b'{"version":1,"config":{}}')
    deciding.image = decision.image
    assert deciding.config.log_retention_ms == 4


def test_what_was_altered_for_brokers_holds_for_the_next_decision() -> None:
    deciding = controller(node_id="1")
    deciding.image = deciding.decide(broker_change("", change("tidelog.topic.partitions.max", "2"))).image
    assert deciding.config.partitions_per_topic_max == 10_000  # "" is nobody; the handler says which entity is meant
    deciding.image = deciding.decide(broker_change(ALL_BROKERS, change("tidelog.topic.partitions.max", "2"))).image
    [result] = deciding.decide(CreateTopics(topics=[NewTopic(name="t", num_partitions=3)])).results
    assert result.error is not None
    assert result.error.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (change("node.id", "2"), ErrorCode.INVALID_REQUEST),
        (change("listeners", "PLAINTEXT://:1"), ErrorCode.INVALID_REQUEST),
        (change("log.retention.hours", "1"), ErrorCode.INVALID_REQUEST),
        (change("num.io.threads", "1"), ErrorCode.INVALID_REQUEST),
        (change("log.retention.ms", "soon"), ErrorCode.INVALID_REQUEST),
        (change("log.retention.millis", "1"), ErrorCode.INVALID_CONFIG),
        (change("log.retention.ms", "1", APPEND), ErrorCode.INVALID_CONFIG),
        (change("log.cleaner.min.compaction.lag.ms", "50"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_broker_settings_that_cannot_be_altered_are_refused(changed: ConfigChange, code: ErrorCode) -> None:
    deciding = controller(topic("t", state((1,)), configs={"max.compaction.lag.ms": "10"}), node_id="1")
    decision = deciding.decide(broker_change("1", changed))
    assert codes(decision.errors) == [code]
    assert (list(decision.writes), decision.image) == ([], deciding.image)


def altered(deciding: Controller, entity: ConfigEntity, name: str, **settings: str) -> Decision:
    changes = tuple(
        ConfigChange(name=setting.replace("_", "."), operation=SET, value=value) for setting, value in settings.items()
    )
    return deciding.decide(AlterConfigs(alterations=[ConfigAlteration(entity=entity, name=name, changes=changes)]))


def test_who_was_eligible_is_so_no_more_when_the_minimum_changes() -> None:
    shrunk = state((1, 2, 3), isr=(1,), eligible=(2,))
    deciding = controller(topic("t", shrunk, shrunk), topic("u", shrunk), brokers=3, min_insync_replicas="2")
    decision = altered(deciding, ConfigEntity.TOPIC, "t", min_insync_replicas="3")
    [write] = decision.writes
    assert [one.path for one in write] == [
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1/state",
        "/config/topics/t",
        "/config/changes/config_change_",
    ]
    after = decision.image.topics["t"].partitions[1]
    assert (after.eligible, after.leader_epoch, after.partition_epoch) == ((), 4, 8)
    assert decision.image.topics["u"] is deciding.image.topics["u"]


@pytest.mark.parametrize("entity", [ALL_BROKERS, "2"])
def test_minimum_of_brokers_concerns_all_topics_without_one_of_their_own(entity: str) -> None:
    shrunk = state((1, 2, 3), isr=(1,), eligible=(2,))
    own = topic("own", shrunk, configs={"min.insync.replicas": "2"})
    deciding = controller(topic("t", shrunk), own, brokers=3, min_insync_replicas="2")
    image = altered(deciding, ConfigEntity.BROKER, entity, min_insync_replicas="1").image
    assert [image.topics[name].partitions[0].eligible for name in ("t", "own")] == [(), (2,)]


def test_other_settings_leave_partitions_alone() -> None:
    shrunk = state((1, 2, 3), isr=(1,), eligible=(2,))
    deciding = controller(topic("t", shrunk), brokers=3, min_insync_replicas="2")
    decision = altered(deciding, ConfigEntity.TOPIC, "t", retention_ms="5")
    assert decision.image.topics["t"].partitions[0] is shrunk
    assert decision.reconsider == ()


def test_many_who_were_eligible_are_written_in_bounded_pieces_before_the_settings() -> None:
    shrunk = state((1, 2, 3), isr=(1,), eligible=(2,))
    deciding = controller(topic("t", *(shrunk for _ in range(450))), brokers=3, min_insync_replicas="2")
    writes = list(altered(deciding, ConfigEntity.TOPIC, "t", min_insync_replicas="1").writes)
    assert [len(write) for write in writes] == [200, 200, 52]
    assert [one.path for one in writes[-1][-2:]] == ["/config/topics/t", "/config/changes/config_change_"]


@pytest.mark.parametrize(
    ("entity", "name"), [(ConfigEntity.TOPIC, "t"), (ConfigEntity.BROKER, ALL_BROKERS), (ConfigEntity.BROKER, "1")]
)
def test_partitions_without_a_leader_are_looked_at_when_unclean_elections_are_allowed(
    entity: ConfigEntity, name: str
) -> None:
    orphaned = state((9, 1), leader=-1, isr=(9,))
    deciding = controller(topic("t", state((1,)), orphaned), brokers=1, node_id="1")
    decision = altered(deciding, entity, name, unclean_leader_election_enable="true")
    assert decision.reconsider == (TopicPartition("t", 1),)


def test_raised_minimum_makes_nobody_eligible_until_every_leader_has_heard_of_it() -> None:
    """A leader that still counts with 1 commits alone, so that whoever leaves its ISR does not know all."""
    deciding = controller(topic("t", state((1, 2)), configs={"min.insync.replicas": "1"}), brokers=2)
    deciding.image = altered(deciding, ConfigEntity.TOPIC, "t", min_insync_replicas="2").image
    assert deciding.image.former_minimums == {"t": 1}
    deciding.image = deciding.decide(SeeBrokers(brokers={1: broker(1)})).image
    early = deciding.decide(Reconsider(partitions=[T0])).image.topics["t"].partitions[0]
    assert (early.isr, early.eligible) == ((1,), ())
    deciding.image = deciding.decide(ForgetMinimums()).image
    later = deciding.decide(Reconsider(partitions=[T0])).image.topics["t"].partitions[0]
    assert (later.isr, later.eligible) == ((1,), (2,))


def test_minimum_that_is_raised_twice_is_remembered_as_it_first_was() -> None:
    deciding = controller(topic("t", state((1, 2))), brokers=2)
    for value in ("2", "3", "1"):
        deciding.image = altered(deciding, ConfigEntity.TOPIC, "t", min_insync_replicas=value).image
    assert deciding.image.former_minimums == {"t": 1}


def test_raised_minimum_of_all_brokers_is_remembered_for_topics_that_heed_it() -> None:
    own = topic("own", state((1, 2)), configs={"min.insync.replicas": "2"})
    deciding = controller(topic("t", state((1, 2))), own, brokers=2)
    image = altered(deciding, ConfigEntity.BROKER, ALL_BROKERS, min_insync_replicas="2").image
    assert image.former_minimums == {"t": 1}


@pytest.mark.parametrize(
    ("told", "doubted"),
    [
        (layout.encode_change("/config/topics/t", 2), {"t": 2}),
        (b'{"version":2,"entity_path":"topics/t"}', {"t": 1}),
        (layout.encode_change("/config/topics/gone", 2), {}),
        (layout.encode_change("/config/brokers/1", 2), {"t": 2}),
        (b"in another language", {"t": 1, "own": 1}),
    ],
)
def test_controller_doubts_the_minimums_that_another_may_have_raised(told: bytes, doubted: dict[str, int]) -> None:
    own = topic("own", state((1, 2)), configs={"min.insync.replicas": "2"})
    image = controller(topic("t", state((1, 2))), own, brokers=2).image
    node = Node(data=told, version=0, czxid=1)
    assert with_doubted_minimums(image, {"/config/changes/config_change_1": node}).former_minimums == doubted


def test_lowest_of_several_doubted_minimums_counts() -> None:
    image = controller(topic("t", state((1, 2))), brokers=2).image
    told = {
        f"/config/changes/config_change_{minimum}": Node(
            data=layout.encode_change("/config/topics/t", minimum), version=0, czxid=1
        )
        for minimum in (3, 1, 2)
    }
    assert with_doubted_minimums(image, told).former_minimums == {"t": 1}


@pytest.mark.parametrize(
    ("entity", "name"), [(ConfigEntity.TOPIC, "t"), (ConfigEntity.BROKER, ALL_BROKERS), (ConfigEntity.BROKER, "1")]
)
def test_notification_of_a_change_tells_the_next_controller_the_minimum_before(entity: ConfigEntity, name: str) -> None:
    """Also one that was raised before that: leaders may have heard of neither."""
    own = topic("own", state((1, 2)), configs={"min.insync.replicas": "1"})
    deciding = controller(topic("t", state((1, 2))), own, brokers=2, min_insync_replicas="2")
    for raised in ("3", "4"):
        decision = altered(deciding, entity, name, min_insync_replicas=raised)
        told = list(decision.writes)[-1][-1]
        assert isinstance(told, Create)
        assert layout.minimum_before(told.path, Node(data=told.data, version=0, czxid=1)) == 2
        deciding.image = decision.image
