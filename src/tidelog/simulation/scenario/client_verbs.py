"""Verbs of clients and of time: producing, consuming, waiting, looking."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from tidelog.model import TopicPartition
from tidelog.simulation.scenario.arguments import Arguments, milliseconds
from tidelog.simulation.scenario.stage import WAIT_MS, Stage
from tidelog.simulation.scenario.verbs import needs, verb

_FACT: Final = re.compile(r"(leader|isr|epoch|controller)(?:\((\S+)\))?")
_ACKS: Final = ("all", "1", "0")


@verb(
    "producer NAME [acks=all|1|0] [idempotent=yes] [retries=N] [in-flight=N] [timeout=TIME] [SETTING=VALUE...]",
    "Open a producer that stays: its records keep their order, and its id and sequence numbers go on from one `produce` to the next.",
)
def _producer(stage: Stage, arguments: Arguments) -> Sequence[str]:
    settings = _producer_settings(arguments)
    name = arguments.word("a name")
    arguments.finish()
    stage.clients.open_producer(name, settings)
    return ()


@verb(
    "produce TOPIC VALUE... [by PRODUCER] [acks=all|1|0] [idempotent=yes] [retries=N] [timeout=TIME] [async as NAME]",
    "Send records at once, and wait for what the producer is told of each: `> m1 acknowledged at offset 1`, `> m1 failed: REASON`, or "
    "with acks=0 `> m1 sent`. With `async` nobody waits until `wait NAME`. Without `by` it is a new producer, without idempotence and with "
    "acks=all, that gives up after 30 s.",
)
def _produce(stage: Stage, arguments: Arguments) -> Sequence[str]:
    by, name = arguments.after("by"), _async_name(arguments)
    partition = stage.topic_partition(arguments.word("a topic"))
    settings = _producer_settings(arguments)
    values = arguments.rest("a value")
    arguments.finish()
    needs(by is None or stage.clients.has_producer(by), f"there is no producer {by}")
    work = stage.clients.produce(partition, values, settings, by=by)
    if name is None:
        return stage.clients.run(work)
    stage.clients.begin(name, work)
    return ()


@verb(
    "consume TOPIC [from=OFFSET] [committed=yes] [async as NAME]",
    "Read from the leader, from offset 0 or another, to the end a consumer can see, the high watermark: `> consumed m0 m1` or `> consumed "
    "nothing`. With committed=yes only what was committed, to the last stable offset. With `async` the consumer waits until there is at "
    "least one record.",
)
def _consume(stage: Stage, arguments: Arguments) -> Sequence[str]:
    name = _async_name(arguments)
    partition = stage.topic_partition(arguments.word("a topic"))
    start = arguments.option("from") or "0"
    if not start.isdecimal():
        raise arguments.wrong(f"from is an offset, not {start}")
    isolation = "read_committed" if arguments.yes("committed", default=False) else "read_uncommitted"
    arguments.finish()
    work = stage.clients.consume(partition, int(start), isolation=isolation, waits=name is not None)
    if name is None:
        return stage.clients.run(work)
    stage.clients.begin(name, work)
    return ()


@verb(
    "wait NAME | wait FACT = VALUE | wait BROKER gone|ready | wait whole [within=TIME]",
    "Let time pass, 60 s at most, until what was begun as NAME has ended, and say how: `> p1: m1 acknowledged at offset 1`. Or until the "
    "registry says so: `leader = B` (or nobody), `isr = A,B`, `epoch = 2`, each of another topic as `isr(u)`, or `controller = C`. Or until "
    "a broker is gone from the registry, or serves. Or until all replicas are in sync and equal.",
)
def _wait(stage: Stage, arguments: Arguments) -> Sequence[str]:
    within_ms = arguments.duration_ms("within", WAIT_MS)
    subject = arguments.word("what to wait for")
    fact = _FACT.fullmatch(subject)
    if fact is not None:
        arguments.literal("=")
        value = arguments.word("a value")
        topic = fact[2]
        arguments.finish()
        stage.until(lambda: _told(stage, fact[1], topic) == _normal(value), f"{subject} = {value}", within_ms=within_ms)
    elif subject == "whole":
        stage.until(lambda: _is_whole(stage), "all replicas are in sync and equal", within_ms=within_ms)
    elif subject in stage.names:
        state = arguments.one_of("gone or ready", ("gone", "ready"))
        stage.until(_standing(stage, subject, state), f"{subject} is {state}", within_ms=within_ms)
    else:
        needs(stage.clients.is_known(subject), f"nothing was begun as {subject}")
        stage.until(lambda: stage.clients.is_done(subject), f"{subject} has ended", within_ms=within_ms)
        return [f"{subject}: {line}" for line in stage.clients.outcome(subject)]
    return ()


@verb("let TIME pass", "Let time pass: 500ms, 3s, 1min.")
def _let(stage: Stage, arguments: Arguments) -> Sequence[str]:
    duration_ms = milliseconds(arguments.word("a time"))
    arguments.literal("pass")
    arguments.finish()
    stage.cluster.world.run_for_ms(duration_ms)
    return ()


@verb(
    "check acknowledged | check equal | check waiting NAME",
    "Fail unless every record that was acknowledged lies at its offset on every replica that runs; unless all replicas that run hold the "
    "same records; or unless what was begun as NAME still waits.",
)
def _check(stage: Stage, arguments: Arguments) -> Sequence[str]:
    what = arguments.one_of("what to check", ("acknowledged", "equal", "waiting"))
    if what == "waiting":
        name = arguments.word("a name")
        needs(stage.clients.is_known(name), f"nothing was begun as {name}")
        needs(not stage.clients.is_done(name), f"{name} has ended")
        return ()
    for topic in stage.topics:
        partition = stage.topic_partition(topic)
        (_check_acknowledged if what == "acknowledged" else _check_equal)(stage, partition)
    return ()


def _check_acknowledged(stage: Stage, partition: TopicPartition) -> None:
    for broker_id, found in _running(stage, partition).items():
        missing = list(stage.clients.acknowledged.missing(partition, found))
        needs(not missing, f"{stage.name(broker_id)} broke a promise: {'; '.join(missing)}")


def _check_equal(stage: Stage, partition: TopicPartition) -> None:
    held = _running(stage, partition)
    first = next(iter(held.values()), {})
    different = [stage.name(broker_id) for broker_id, found in held.items() if found != first]
    needs(not different, f"the records of {partition.topic} differ on {', '.join(different)}")


def _running(stage: Stage, partition: TopicPartition) -> dict[int, dict[int, bytes]]:
    found = {each: stage.records(each, partition) for each in sorted(stage.cluster.state(partition).assignment)}
    return {broker_id: records for broker_id, records in found.items() if records is not None}


def _told(stage: Stage, fact: str, topic: str | None) -> str:
    if fact == "controller":
        controller = stage.cluster.controller
        return "nobody" if controller is None else stage.name(controller.broker_id)
    state = stage.cluster.state(stage.topic_partition(topic))
    if fact == "leader":
        return stage.name(state.leader)
    return str(state.leader_epoch) if fact == "epoch" else ",".join(sorted(map(stage.name, state.isr)))


def _normal(value: str) -> str:
    return ",".join(sorted(value.split(",")))


def _standing(stage: Stage, name: str, state: str) -> Callable[[], bool]:
    if state == "ready":
        return lambda: stage.broker(name).is_ready
    return lambda: not stage.is_registered(stage.broker_id(name))


def _is_whole(stage: Stage) -> bool:
    snapshot = stage.cluster.snapshot()
    for topic in stage.topics:
        partition = stage.topic_partition(topic)
        state, views = snapshot.states[partition], snapshot.replicas.get(partition, ())
        ends = {(view.leader_epoch, view.log_end_offset, view.high_watermark) for view in views}
        if sorted(state.isr) != sorted(state.assignment) or len(views) != len(state.assignment) or len(ends) != 1:
            return False
        if views[0].high_watermark != views[0].log_end_offset or sum(view.is_leader for view in views) != 1:
            return False
    return True


def _async_name(arguments: Arguments) -> str | None:
    is_async, name = arguments.has("async"), arguments.after("as")
    if is_async != (name is not None):
        raise arguments.wrong("`async` and `as NAME` go together")
    return name


def _producer_settings(arguments: Arguments) -> dict[str, str]:
    settings = arguments.settings()
    acks = arguments.option("acks") or "all"
    if acks not in _ACKS:
        raise arguments.wrong(f"acks is {', '.join(_ACKS)}, not {acks}")
    settings["acks"] = acks
    settings["enable.idempotence"] = str(arguments.yes("idempotent", default=False)).lower()
    timeout_ms = arguments.duration_ms("timeout", 30_000)
    settings["delivery.timeout.ms"] = f"{timeout_ms:.0f}"
    settings.setdefault("request.timeout.ms", f"{timeout_ms:.0f}")
    for option, setting in (("retries", "retries"), ("in-flight", "max.in.flight.requests.per.connection")):
        value = arguments.option(option)
        if value is not None:
            settings[setting] = value
    return settings
