"""The options of the source, by the names Spark's own source for Kafka gave them; `columns` and `maxPartitions` are ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tidelog.client.config import ConsumerConfig
from tidelog.config import ValueType
from tidelog.config.kinds import BOOLEAN, Kind, integer, long, one_of, optional_text
from tidelog.config.settings import setting
from tidelog.model import TopicPartition
from tidelog.pipeline.options import OptionRefused, client_config, client_properties, optional, read_options
from tidelog.pipeline.source.bounds import ASSIGNED, EDGE_OR_PLACES, MOMENTS, Bound, Edge, Moment, Moments, Places

_READ_BY: Final = "pipeline.source"
_DURATION: Final = re.compile(r"([0-9]{1,12})\s*(us|ms|s|m|min|h|d)?")
_UNITS_MS: Final = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

_DEFAULTS: Final = {
    "isolation.level": "read_committed",
    # A broker that is silent for longer is asked again, on another connection; Kafka's clients wait for 30 s.
    "request.timeout.ms": "10000",
    "max.partition.fetch.bytes": "4194304",
    "client.id": "tidelog-spark-source",
}
_REFUSED: Final = {
    "auto.offset.reset": "say where to begin with startingOffsets, and with failOnDataLoss what to do about records that are gone",
    "enable.auto.commit": "the position of a query is in its checkpoint; nothing is committed for a group here",
    "key.deserializer": "keys are bytes: cast or decode the column key",
    "value.deserializer": "values are bytes: cast or decode the column value",
    "interceptor.classes": "there is no Java in this source that could be called",
}


def _parse_duration(text: str) -> int:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(text)
    return int(int(found[1]) * _UNITS_MS[found[2] or "ms"])


_DURATION_MS: Final[Kind[int]] = Kind(
    value_type=ValueType.STRING,
    accepted="a time such as 500ms, 30s, 15m or 2h",
    parse=_parse_duration,
    render=lambda value: f"{value}ms",
)
_NAMES: Final[Kind[tuple[str, ...]]] = Kind(
    value_type=ValueType.LIST,
    accepted="a comma-separated list of names",
    parse=lambda text: tuple(_nonempty(name.strip()) for name in text.split(",")),
    render=",".join,
)
_PATTERN: Final[Kind[re.Pattern[str]]] = Kind(
    value_type=ValueType.STRING,
    accepted="a regular expression that matches whole names of topics, in the syntax of Python's re, such as orders-.*",
    parse=lambda text: _compiled(text),
    render=lambda pattern: pattern.pattern,
)


def _nonempty(name: str) -> str:
    if not name:
        raise ValueError(name)
    return name


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(text) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """The options as they are written."""

    subscribe: tuple[str, ...] | None = setting(
        "subscribe", optional(_NAMES), "", "Topics, separated by commas.", read_by=_READ_BY
    )
    subscribe_pattern: re.Pattern[str] | None = setting(
        "subscribePattern", optional(_PATTERN), "", "Topics, by a regular expression.", read_by=_READ_BY
    )
    assign: tuple[TopicPartition, ...] | None = setting(
        "assign", optional(ASSIGNED), "", "Partitions, in JSON.", read_by=_READ_BY
    )
    starting_offsets: Edge | Places | None = setting(
        "startingOffsets", optional(EDGE_OR_PLACES), "", "Where a new query begins.", read_by=_READ_BY
    )
    ending_offsets: Edge | Places | None = setting(
        "endingOffsets", optional(EDGE_OR_PLACES), "", "Where a batch query ends.", read_by=_READ_BY
    )
    starting_timestamp: int | None = setting(
        "startingTimestamp", optional(long(0)), "", "The same, by a time for all partitions.", read_by=_READ_BY
    )
    ending_timestamp: int | None = setting(
        "endingTimestamp", optional(long(0)), "", "The same, by a time for all partitions.", read_by=_READ_BY
    )
    starting_offsets_by_timestamp: Moments | None = setting(
        "startingOffsetsByTimestamp", optional(MOMENTS), "", "The same, by a time for each partition.", read_by=_READ_BY
    )
    ending_offsets_by_timestamp: Moments | None = setting(
        "endingOffsetsByTimestamp", optional(MOMENTS), "", "The same, by a time for each partition.", read_by=_READ_BY
    )
    starting_offsets_by_timestamp_strategy: str = setting(
        "startingOffsetsByTimestampStrategy",
        one_of("error", "latest"),
        "error",
        "What to do about a partition without a record so young.",
        read_by=_READ_BY,
    )
    max_offsets_per_trigger: int | None = setting(
        "maxOffsetsPerTrigger", optional(long(1)), "", "Most offsets of one micro-batch.", read_by=_READ_BY
    )
    min_offsets_per_trigger: int | None = setting(
        "minOffsetsPerTrigger", optional(long(1)), "", "Offsets a micro-batch waits for.", read_by=_READ_BY
    )
    max_trigger_delay_ms: int = setting(
        "maxTriggerDelay", _DURATION_MS, "15m", "How long it waits for them at most.", read_by=_READ_BY
    )
    min_partitions: int | None = setting(
        "minPartitions", optional(integer(1)), "", "Fewest tasks of one read.", read_by=_READ_BY
    )
    max_partitions: int | None = setting(
        "maxPartitions", optional(integer(1)), "", "Most tasks of one read.", read_by=_READ_BY
    )
    max_records_per_partition: int | None = setting(
        "maxRecordsPerPartition", optional(long(1)), "", "Most offsets of one task.", read_by=_READ_BY
    )
    fail_on_data_loss: bool = setting(
        "failOnDataLoss", BOOLEAN, "true", "Whether records that are gone end the query.", read_by=_READ_BY
    )
    include_headers: bool = setting(
        "includeHeaders", BOOLEAN, "false", "Whether there is a column headers.", read_by=_READ_BY
    )
    columns: tuple[str, ...] | None = setting(
        "columns", optional(_NAMES), "", "The columns to read, where no schema says so.", read_by=_READ_BY
    )
    poll_timeout_ms: int = setting(
        "kafkaConsumer.pollTimeoutMs",
        integer(1),
        "60000",
        "How long a task goes without a record that is there, before it fails.",
        read_by=_READ_BY,
    )
    group_id_prefix: str | None = setting(
        "groupIdPrefix", optional_text("any text"), "", "Accepted.", unheeded="the source joins no group"
    )
    fetch_retries: int = setting(
        "fetchOffset.numRetries", integer(0), "3", "Accepted.", unheeded="kafka.default.api.timeout.ms bounds retries"
    )
    fetch_retry_interval_ms: int = setting(
        "fetchOffset.retryIntervalMs", integer(0), "10", "Accepted.", unheeded="kafka.retry.backoff.ms paces retries"
    )


@dataclass(frozen=True, slots=True)
class ByName:
    """These topics, all of which must exist."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ByPattern:
    """Whatever topics there are whose whole name matches."""

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class ByPartition:
    """These partitions and no others, all of which must exist."""

    partitions: tuple[TopicPartition, ...]


Subscription: TypeAlias = ByName | ByPattern | ByPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """Into how many tasks a read is divided."""

    tasks_min: int | None
    tasks_max: int | None
    offsets_max: int | None  # of one task


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What the options of a read say, with all defaults filled in."""

    client: ConsumerConfig
    subscription: Subscription
    starting: Bound
    ending: Bound
    is_latest_where_too_young: bool
    offsets_max: int | None  # of a micro-batch
    offsets_min: int | None
    delay_max_ms: int
    task_limits: TaskLimits
    fails_on_data_loss: bool
    read_timeout_ms: int

    @classmethod
    def of_batch(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options of `spark.read`: from the earliest to the latest record, where nothing else is said. Raises OptionRefused."""
        written = read_options(_Written, options)
        starting, ending = _starting(written, Edge.EARLIEST), _ending(written)
        if _mentions(starting, Edge.LATEST):
            raise OptionRefused("startingOffsets", "a batch query cannot begin at latest (-1): it would read nothing")
        if _mentions(ending, Edge.EARLIEST):
            raise OptionRefused("endingOffsets", "a batch query cannot end at earliest (-2): it would read nothing")
        return cls._from(written, options, starting=starting, ending=ending)

    @classmethod
    def of_stream(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options of `spark.readStream`: a new query begins at the latest record, where nothing else is said. Raises OptionRefused."""
        written = read_options(_Written, options)
        ending = _ending(written)
        if ending.where is not Edge.LATEST or written.ending_offsets is not None:
            raise OptionRefused(
                ending.option, "a streaming query has no end; use trigger(availableNow=True) to stop at what is there"
            )
        return cls._from(written, options, starting=_starting(written, Edge.LATEST), ending=ending)

    @classmethod
    def _from(cls, written: _Written, options: Mapping[str, str], *, starting: Bound, ending: Bound) -> SourceOptions:
        properties = client_properties(options, refused=_REFUSED)
        low, high = written.min_offsets_per_trigger, written.max_offsets_per_trigger
        if low is not None and high is not None and low > high:
            raise OptionRefused("minOffsetsPerTrigger", f"{low} is more than maxOffsetsPerTrigger, which is {high}")
        return cls(
            client=client_config(ConsumerConfig, {**_DEFAULTS, **properties}),
            subscription=_subscription(written),
            starting=starting,
            ending=ending,
            is_latest_where_too_young=written.starting_offsets_by_timestamp_strategy == "latest",
            offsets_max=high,
            offsets_min=low,
            delay_max_ms=written.max_trigger_delay_ms,
            task_limits=_task_limits(written),
            fails_on_data_loss=written.fail_on_data_loss,
            read_timeout_ms=written.poll_timeout_ms,
        )


def asked_columns(options: Mapping[str, str]) -> tuple[tuple[str, ...] | None, bool]:
    """What the options `columns` and `includeHeaders` say. Raises OptionRefused for any option that is wrong by itself."""
    written = read_options(_Written, options)
    _subscription(written)
    client_config(ConsumerConfig, {**_DEFAULTS, **client_properties(options, refused=_REFUSED)})
    return written.columns, written.include_headers


def _subscription(written: _Written) -> Subscription:
    given = {
        "subscribe": None if written.subscribe is None else ByName(tuple(sorted(set(written.subscribe)))),
        "subscribePattern": None if written.subscribe_pattern is None else ByPattern(written.subscribe_pattern),
        "assign": None if written.assign is None else ByPartition(written.assign),
    }
    chosen = [subscription for subscription in given.values() if subscription is not None]
    if len(chosen) != 1:
        names = [name for name, subscription in given.items() if subscription is not None]
        what = f"{' and '.join(names)} are set, but only one can be" if names else "nothing says which topics to read"
        raise OptionRefused("subscribe", f"{what}: set exactly one of subscribe, subscribePattern and assign")
    return chosen[0]


def _task_limits(written: _Written) -> TaskLimits:
    low, high = written.min_partitions, written.max_partitions
    if low is not None and high is not None and low > high:
        raise OptionRefused("minPartitions", f"{low} is more than maxPartitions, which is {high}")
    return TaskLimits(tasks_min=low, tasks_max=high, offsets_max=written.max_records_per_partition)


def _starting(written: _Written, otherwise: Edge) -> Bound:
    """As in Spark's own source, a time for all goes before times for each, and those before offsets."""
    if written.starting_timestamp is not None:
        return Bound(option="startingTimestamp", where=Moment(written.starting_timestamp))
    if written.starting_offsets_by_timestamp is not None:
        return Bound(option="startingOffsetsByTimestamp", where=written.starting_offsets_by_timestamp)
    return Bound(
        option="startingOffsets", where=otherwise if written.starting_offsets is None else written.starting_offsets
    )


def _ending(written: _Written) -> Bound:
    if written.ending_timestamp is not None:
        return Bound(option="endingTimestamp", where=Moment(written.ending_timestamp))
    if written.ending_offsets_by_timestamp is not None:
        return Bound(option="endingOffsetsByTimestamp", where=written.ending_offsets_by_timestamp)
    return Bound(
        option="endingOffsets", where=Edge.LATEST if written.ending_offsets is None else written.ending_offsets
    )


def _mentions(bound: Bound, edge: Edge) -> bool:
    match bound.where:
        case Edge():
            return bound.where is edge
        case Places(offsets):
            return edge in offsets.values()
        case _:
            return False
