"""`tidelog up --brokers N` plans before it forks."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tidelog.cli.cluster_plan import at_address, cluster_plans
from tidelog.cli.failure import WrongUsage
from tidelog.cli.plan import Plan
from tidelog.cli.up import add_arguments
from tidelog.config import BrokerConfig


def plans(*arguments: str) -> list[Plan]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return cluster_plans(parser.parse_args(["--brokers", "3", *arguments]))


def config(plan: Plan) -> BrokerConfig:
    return BrokerConfig.from_properties(plan.properties)


def test_each_broker_has_its_own_number_port_directory_and_log_and_all_share_a_registry(tmp_path: Path) -> None:
    made = plans("--data", str(tmp_path), "--port", "7000")
    configs = list(map(config, made))
    assert [each.broker_id for each in configs] == [1, 2, 3]
    assert [str(each.listeners[0]) for each in configs] == [
        f"PLAINTEXT://127.0.0.1:{port}" for port in (7000, 7001, 7002)
    ]
    assert [each.log_dirs for each in configs] == [(str(tmp_path / f"broker-{number}"),) for number in (1, 2, 3)]
    assert {each.registry_path for each in configs} == {str(tmp_path / "registry.sqlite")}
    assert [plan.log_file for plan in made] == [tmp_path / "logs" / f"broker-{number}.log" for number in (1, 2, 3)]
    assert [plan.warns_of_settings for plan in made] == [True, False, False]


def test_three_brokers_keep_three_replicas_of_which_two_must_be_in_sync() -> None:
    first = config(plans()[0])
    assert (first.default_replication_factor, first.min_insync_replicas) == (3, 2)


@pytest.mark.parametrize(("count", "replicas", "in_sync"), [("2", 2, 2), ("3", 3, 2), ("5", 3, 2)])
def test_groups_are_kept_by_as_many_brokers_as_there_are_and_begin_at_once(
    count: str, replicas: int, in_sync: int
) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    first = config(cluster_plans(parser.parse_args(["--brokers", count]))[0])
    assert (first.offsets_topic_replication_factor, first.offsets_topic_min_insync_replicas) == (replicas, in_sync)
    assert (first.transaction_topic_replication_factor, first.transaction_topic_min_insync_replicas) == (
        replicas,
        in_sync,
    )
    assert first.group_initial_rebalance_delay_ms == 0


def test_settings_win_over_that(tmp_path: Path) -> None:
    file = tmp_path / "shared.properties"
    file.write_text("default.replication.factor=2\nnum.partitions=6\n")
    first = config(plans("--config", str(file), "-X", "min.insync.replicas=1")[0])
    assert (first.default_replication_factor, first.min_insync_replicas, first.num_partitions) == (2, 1, 6)


def test_two_brokers_keep_two_replicas_and_serve_on_with_one() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    first = config(cluster_plans(parser.parse_args(["--brokers", "2"]))[0])
    assert (first.default_replication_factor, first.min_insync_replicas) == (2, 1)


def test_port_0_is_free_ports_that_a_broker_keeps_when_it_is_started_again() -> None:
    second = plans("--port", "0")[1]
    assert config(second).listeners[0].port == 0
    assert config(at_address(second, "127.0.0.1:4711")).listeners[0].port == 4711
    assert at_address(second, None) is second


def test_zookeeper_is_where_the_option_says() -> None:
    made = plans("--registry", "zookeeper://a:1,b:2/x")
    assert {config(each).zookeeper_connect for each in made} == {"a:1,b:2/x"}


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        (["-X", "node.id=7"], "node.id cannot be the same for 3 brokers"),
        (["-X", "log.dirs=/x"], "--data"),
        (["-X", "listeners=PLAINTEXT://:1"], "--host and --port"),
        (["--port", "65534"], "there are not 3 ports"),
        (["--log-file", "x.log"], "each broker keeps a log of its own"),
    ],
)
def test_what_cannot_hold_for_several_brokers_is_refused(words: list[str], saying: str) -> None:
    with pytest.raises(WrongUsage, match=saying):
        plans(*words)
