"""The `KAFKA_` rule: which setting a variable stands for, and which variables are none of our business."""

from __future__ import annotations

import pytest

from tidelog.config import BROKER_SETTING_NAMES, UnknownVariable, from_environment
from tidelog.config.environment import name_of, variable_of


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_ADVERTISED_LISTENERS", "advertised.listeners"),
        ("KAFKA_A__B_C", "a_b.c"),
        ("KAFKA_A___B", "a-b"),
    ],
)
def test_a_variable_stands_for_a_setting_and_back(variable: str, name: str) -> None:
    assert name_of(variable) == name
    assert variable_of(name) == variable


def test_every_setting_can_be_given_in_the_environment() -> None:
    assert all(name_of(variable_of(name)) == name for name in BROKER_SETTING_NAMES)


def test_only_variables_with_the_prefix_are_settings() -> None:
    environment = from_environment({"PATH": "/bin", "KAFKA_NODE_ID": "7", "kafka_log_dirs": "/x"}, BROKER_SETTING_NAMES)
    assert environment.properties == {"node.id": "7"}


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_PORT",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_HOME",
        "KAFKA_PORT",
        "KAFKA_SERVICE_HOST",
        "KAFKA_SERVICE_PORT",
        "KAFKA_PORT_9092_TCP",
        "KAFKA_PORT_9092_TCP_ADDR",
    ],
)
def test_variables_made_for_others_are_passed_over_with_a_reason(variable: str) -> None:
    environment = from_environment({variable: "x"}, BROKER_SETTING_NAMES)
    assert environment.properties == {}
    assert environment.passed_over[variable]


def test_a_misspelt_variable_is_refused_with_the_right_one() -> None:
    with pytest.raises(UnknownVariable) as refused:
        from_environment({"KAFKA_NUM_PARTITION": "3"}, BROKER_SETTING_NAMES)
    assert str(refused.value) == (
        "Unknown environment variable KAFKA_NUM_PARTITION: there is no configuration 'num.partition' "
        "(did you mean KAFKA_NUM_PARTITIONS?)"
    )
