"""The brokers of `tidelog up --brokers N`: what each of them is going to do."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Final

from tidelog.cli.failure import WrongUsage
from tidelog.cli.plan import STDERR, Given, Plan, given_settings
from tidelog.cli.up import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    HOST_ADVICE,
    METRICS_ANYWHERE,
    PORT_ADVICE,
    bracketed,
    coordinator_defaults,
    data_of,
)
from tidelog.config.listeners import HTTP_LISTENERS
from tidelog.storage.names import LOCK

REPLICATION_FACTOR_MAX: Final = 3
MIN_ISR_OF_THREE: Final = 2
_PORT_MAX: Final = 65_535
OF_ONE_BROKER: Final = {
    "node.id": "brokers are numbered from 1",
    "broker.id": "brokers are numbered from 1",
    "log.dirs": "--data says where all of them keep theirs",
    "log.dir": "--data says where all of them keep theirs",
    "listeners": "--host and --port say where they listen",
    "advertised.listeners": "--host and --port say where they listen",
}


def cluster_plans(options: argparse.Namespace) -> list[Plan]:
    """One plan per broker, in the order of their ids. Raises WrongUsage."""
    if options.log_file not in {None, STDERR}:
        raise WrongUsage(
            "--log-file: each broker keeps a log of its own, DIR/logs/broker-N.log; only - is possible here"
        )
    given = given_settings(options.config)
    shared = {**cluster_defaults(options.brokers), **given.properties, **_registry(options), **dict(options.properties)}
    for name in sorted(set(OF_ONE_BROKER) & set(shared)):
        raise WrongUsage(f"{name} cannot be the same for {options.brokers} brokers; {OF_ONE_BROKER[name]}")
    first_port = DEFAULT_PORT if options.port is None else options.port
    if first_port and first_port + options.brokers - 1 > _PORT_MAX:
        raise WrongUsage(f"--port {first_port}: there are not {options.brokers} ports from there on")
    return [_plan(options, given, shared, broker_id) for broker_id in range(1, options.brokers + 1)]


def cluster_defaults(broker_count: int) -> dict[str, str]:
    """What people expect of a cluster: a broker may die, and nothing is lost or stands still."""
    replication_factor = min(broker_count, REPLICATION_FACTOR_MAX)
    defaults = {"default.replication.factor": str(replication_factor), **coordinator_defaults(broker_count)}
    if replication_factor == REPLICATION_FACTOR_MAX:
        defaults["min.insync.replicas"] = str(MIN_ISR_OF_THREE)
    return defaults


def _registry(options: argparse.Namespace) -> dict[str, str]:
    return {} if options.registry is None else {"zookeeper.connect": options.registry}


def _plan(options: argparse.Namespace, given: Given, shared: dict[str, str], broker_id: int) -> Plan:
    data = data_of(options)
    host = DEFAULT_HOST if options.host is None else options.host
    first_port = DEFAULT_PORT if options.port is None else options.port
    port = first_port + broker_id - 1 if first_port else 0
    own = {
        "node.id": str(broker_id),
        "log.dirs": str(data / f"broker-{broker_id}"),
        "listeners": _listener(host, port),
    }
    log_file = data / "logs" / f"broker-{broker_id}.log"
    return Plan(
        properties={
            "tidelog.registry.path": str(data / "registry.sqlite"),
            **shared,
            **own,
            "metrics.listeners": _metrics_listeners(shared.get("metrics.listeners", METRICS_ANYWHERE), broker_id),
        },
        passed_over=given.passed_over if broker_id == 1 else {},
        log_file=None if options.log_file == STDERR else log_file,
        log_format=options.log_format,
        port_advice=PORT_ADVICE,
        host_advice=HOST_ADVICE,
        warns_of_settings=broker_id == 1,
    )


def at_address(plan: Plan, address: str | None) -> Plan:
    """The plan of a broker that has been started before and shall have its address again, also if it was a free port."""
    if address is None:
        return plan
    before, _, _ = plan.properties["listeners"].rpartition(":")
    return dataclasses.replace(
        plan, properties={**plan.properties, "listeners": f"{before}:{address.rpartition(':')[2]}"}
    )


def _listener(host: str, port: int) -> str:
    return f"PLAINTEXT://{bracketed(host)}:{port}"


def _metrics_listeners(first: str, broker_id: int) -> str:
    """Where a broker shows its metrics, given where the first one does: a port of one's own each, in a row if it was chosen."""
    try:
        listeners = HTTP_LISTENERS.parse(first)
    except ValueError:
        return first  # The broker will say what is wrong with it.
    return HTTP_LISTENERS.render(
        tuple(dataclasses.replace(each, port=each.port + broker_id - 1 if each.port else 0) for each in listeners)
    )


def lock_files(plan: Plan) -> list[Path]:
    """The files a running broker holds locked."""
    return [Path(directory.strip()) / LOCK for directory in plan.data.split(",")]
