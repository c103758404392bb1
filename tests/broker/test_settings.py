"""Settings of topics and brokers, and more partitions, against running brokers: what is shown, what holds at once, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.test_fetch_behaviour import fetch, only
from tests.broker.test_versions import produced
from tests.compatibility.processes import TidelogProcess
from tidelog.model import ErrorCode
from tidelog.wire.messages import alter_configs
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

pytestmark = pytest.mark.slow
TOPIC, BROKER, LOGGER = 2, 4, 8


def described(conversation: Conversation, kind: int, name: str, *keys: str) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True, include_documentation=True)
    (result,) = conversation.ask(request, 4).results
    return result


def shown(conversation: Conversation, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (setting,) = described(conversation, kind, name, key).configs
    return setting


def wanted(kind: int, name: str, *changes: tuple[str, int, str | None]) -> AlterConfigsResource:
    rows = tuple(
        AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes
    )
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)


def altered(
    conversation: Conversation, *resources: AlterConfigsResource, validate_only: bool = False
) -> list[ErrorCode]:
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    return [row.error_code for row in conversation.ask(request, 1).responses]


def test_settings_that_are_altered_hold_for_the_next_request(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "s-now")
        assert altered(conversation, wanted(TOPIC, "s-now", ("max.message.bytes", 0, "10"))) == [ErrorCode.NONE]
        (answer,) = conversation.ask(produced(conversation, 12, "s-now"), 12).responses
        assert answer.partition_responses[0].error_code is ErrorCode.MESSAGE_TOO_LARGE
        assert altered(conversation, wanted(TOPIC, "s-now", ("max.message.bytes", 1, None))) == [ErrorCode.NONE]
        (answer,) = conversation.ask(produced(conversation, 12, "s-now"), 12).responses
        assert answer.partition_responses[0].error_code is ErrorCode.NONE


def test_settings_of_all_brokers_hold_for_topics_that_have_none_of_their_own(tmp_path: Path) -> None:
    too_large, fits = ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE
    with TidelogProcess(tmp_path) as broker, Conversation(broker.bootstrap) as conversation:
        topic_id_of(conversation, "t")
        topic_id_of(conversation, "own")
        altered(conversation, wanted(TOPIC, "own", ("max.message.bytes", 0, "100000")))
        assert altered(conversation, wanted(BROKER, "", ("message.max.bytes", 0, "10"))) == [ErrorCode.NONE]
        for topic, code in (("t", too_large), ("own", fits)):
            (answer,) = conversation.ask(produced(conversation, 12, topic), 12).responses
            assert answer.partition_responses[0].error_code is code
        assert altered(conversation, wanted(BROKER, "1", ("message.max.bytes", 0, "5000"))) == [ErrorCode.NONE]
        broker.kill()
    with TidelogProcess(tmp_path) as broker, Conversation(broker.bootstrap) as conversation:
        setting = shown(conversation, TOPIC, "t", "max.message.bytes")
        assert [(row.name, row.value, row.source) for row in setting.synonyms] == [
            ("message.max.bytes", "5000", 2),
            ("message.max.bytes", "10", 3),
            ("message.max.bytes", "1048588", 5),
        ]
        assert (setting.value, setting.config_source) == ("5000", 2)
        (answer,) = conversation.ask(produced(conversation, 12, "t"), 12).responses
        assert answer.partition_responses[0].error_code is fits


def test_one_resource_that_is_refused_leaves_the_others(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "s-mixed")
        codes = altered(
            conversation,
            wanted(TOPIC, "s-mixed", ("flush.ms", 0, "5"), ("retention.ms", 0, "6")),
            wanted(TOPIC, "s-nobody", ("flush.ms", 0, "5")),
            wanted(BROKER, "1", ("node.id", 0, "5")),
            wanted(BROKER, "2", ("log.retention.ms", 0, "5")),
            wanted(BROKER, "one", ("log.retention.ms", 0, "5")),
            wanted(LOGGER, "1", ("root", 0, "DEBUG")),
            wanted(77, "x", ("a", 0, "b")),
        )
        refused = ErrorCode.INVALID_REQUEST
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, *[refused] * 5]
        assert shown(conversation, TOPIC, "s-mixed", "flush.ms").value == "5"


def test_a_resource_named_twice_and_an_unknown_operation_are_refused(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "s-twice")
        twice = wanted(TOPIC, "s-twice", ("flush.ms", 0, "5"))
        assert altered(conversation, twice, twice) == [ErrorCode.INVALID_REQUEST] * 2
        assert altered(conversation, wanted(TOPIC, "s-twice", ("flush.ms", 4, "5"))) == [ErrorCode.INVALID_REQUEST]
        assert shown(conversation, TOPIC, "s-twice", "flush.ms").config_source != 1


def test_what_is_only_validated_changes_nothing(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "s-valid")
        change = wanted(TOPIC, "s-valid", ("flush.ms", 0, "5"))
        assert altered(conversation, change, validate_only=True) == [ErrorCode.NONE]
        wrong = wanted(TOPIC, "s-valid", ("flush.ms", 0, "soon"))
        assert altered(conversation, wrong, validate_only=True) == [ErrorCode.INVALID_CONFIG]
        assert shown(conversation, TOPIC, "s-valid", "flush.ms").config_source != 1


def test_alter_configs_replaces_what_a_topic_has(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "s-replace")
        altered(conversation, wanted(TOPIC, "s-replace", ("flush.ms", 0, "5")))
        for value, code in (("7", ErrorCode.NONE), (None, ErrorCode.INVALID_REQUEST), ("x", ErrorCode.INVALID_CONFIG)):
            row = alter_configs.AlterableConfig(name="retention.ms", value=value)
            resource = alter_configs.AlterConfigsResource(
                resource_type=TOPIC, resource_name="s-replace", configs=(row,)
            )
            (answer,) = conversation.ask(alter_configs.AlterConfigsRequest(resources=(resource,)), 2).responses
            assert answer.error_code is code
        own = [row.name for row in described(conversation, TOPIC, "s-replace").configs if row.config_source == 1]
        assert own == ["retention.ms"]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "s-nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (77, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_have_no_settings_have_a_reason(
    tidelog: TidelogProcess, kind: int, name: str, code: ErrorCode
) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        result = described(conversation, kind, name)
        assert (result.error_code, result.configs, result.resource_name) == (code, (), name)


def test_only_settings_asked_for_are_shown_and_names_that_do_not_exist_are_left_out(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "s-some")
        result = described(conversation, TOPIC, "s-some", "flush.ms", "no.such.setting")
        assert [(row.name, row.config_type, row.is_sensitive) for row in result.configs] == [("flush.ms", 5, False)]
        assert described(conversation, TOPIC, "s-some", "no.such.setting").configs == ()
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="s-some", configuration_keys=())
        (plain,) = conversation.ask(DescribeConfigsRequest(resources=(resource,)), 4).results
        assert len(plain.configs) > 20
        assert {(row.synonyms, row.documentation) for row in plain.configs} == {((), None)}


def test_broker_settings_say_whether_they_can_be_altered(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        settings = {row.name: row for row in described(conversation, BROKER, "1").configs}
        assert (settings["node.id"].value, settings["node.id"].config_source) == ("1", 4)
        assert [settings[name].read_only for name in ("node.id", "listeners", "log.retention.ms")] == [
            True,
            True,
            False,
        ]
        assert settings["log.dirs"].value == str(tidelog.log_dir)


def test_new_partitions_take_records_at_once(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "grow")
        conversation.ask(produced(conversation, 12, "grow"), 12)
        asked = CreatePartitionsTopic(name="grow", count=3)
        (result,) = conversation.ask(CreatePartitionsRequest(topics=(asked,)), 3).results
        assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
        answered = conversation.ask(fetch("grow", 0, 0, 0), 12).responses[0].partitions
        assert [(row.error_code, row.high_watermark) for row in answered] == [
            (ErrorCode.NONE, 1),
            (ErrorCode.NONE, 0),
            (ErrorCode.NONE, 0),
        ]
        assert only(conversation.ask(fetch("grow", 0), 12)).high_watermark == 1


def test_growth_is_refused_with_its_reason_and_only_validated_growth_changes_nothing(tidelog: TidelogProcess) -> None:
    def grown(*topics: CreatePartitionsTopic, validate_only: bool = False) -> list[tuple[str, ErrorCode]]:
        request = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
        return [(row.name, row.error_code) for row in conversation.ask(request, 3).results]

    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "g-no")
        by_hand = CreatePartitionsAssignment(broker_ids=(9,))
        assert grown(CreatePartitionsTopic(name="g-no", count=5), validate_only=True) == [("g-no", ErrorCode.NONE)]
        assert grown(CreatePartitionsTopic(name="g-no", count=1)) == [("g-no", ErrorCode.INVALID_PARTITIONS)]
        assert grown(CreatePartitionsTopic(name="g-no", count=2, assignments=(by_hand,))) == [
            ("g-no", ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        ]
        twice = CreatePartitionsTopic(name="g-no", count=2)
        unknown = CreatePartitionsTopic(name="g-nobody", count=2)
        assert grown(twice, unknown, twice) == [
            ("g-nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("g-no", ErrorCode.INVALID_REQUEST),
        ]
        internal = CreatePartitionsTopic(name="__consumer_offsets", count=100)
        assert grown(internal, internal) == [("__consumer_offsets", ErrorCode.INVALID_REQUEST)]
        assert grown(internal) == [("__consumer_offsets", ErrorCode.INVALID_REQUEST)]
        request = MetadataRequest(topics=(MetadataRequestTopic(name="g-no", topic_id=None),))
        assert len(conversation.ask(request, 12).topics[0].partitions) == 1
