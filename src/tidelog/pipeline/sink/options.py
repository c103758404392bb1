"""The options of the sink: how they are written, and what they mean for one write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import gettempdir
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from tidelog.client.config import IN_FLIGHT_MAX_IDEMPOTENT, ClientConfig, ConsumerConfig, ProducerConfig
from tidelog.config.kinds import one_of, optional_text
from tidelog.config.settings import setting, settings_of
from tidelog.pipeline.options import OptionRefused, client_config, client_properties, read_options
from tidelog.pipeline.sink.modes import MODES
from tidelog.runtime.real import real_runtime

_READ_BY: Final = "pipeline.sink"
_NOBODY: Final = "none"
_WITHOUT_GUARANTEE: Final = "at-least-once"
_STAGING: Final = "sink-staging"
_NAME_BYTES_MAX: Final = 200  # leaves room for what the modes put behind a sink id

_DEFAULTS: Final = {
    "client.id": "tidelog-spark-sink",
    # What tasks encode is sent as it is. Topics take batches of 1 MiB, if nothing else is configured.
    "batch.size": "524288",
    "linger.ms": "0",
    "buffer.memory": "67108864",
    "max.request.size": "8388608",
    # A transaction is open while a micro-batch is committed. What a dead driver leaves open is aborted by the next one, not by this.
    "transaction.timeout.ms": "300000",
    # A broker that is silent for longer is asked again, on another connection; Kafka's clients wait for 30 s.
    "request.timeout.ms": "15000",
    "socket.connection.setup.timeout.ms": "5000",
}
_REFUSED: Final = {
    "transactional.id": "the sink names its transactions by the option sink.id",
    "transaction.two.phase.commit.enable": "set the option commit.mode to 2pc instead",
    "key.serializer": "keys are bytes: cast or encode the column key",
    "value.serializer": "values are bytes: cast or encode the column value",
    "partitioner.class": "there is no Java in this sink that could be called: choose partitions with the column partition",
    "interceptor.classes": "there is no Java in this sink that could be called",
}
_IGNORED: Final = (
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.ignore.keys",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """The options as they are written."""

    topic: str | None = setting(
        "topic",
        optional_text("the name of a topic"),
        "",
        "Where all rows go, whatever their column topic says.",
        read_by=_READ_BY,
    )
    sink_id: str | None = setting(
        "sink.id",
        optional_text("a name that no other query uses"),
        "",
        "The name of this output for ever. By default it is made of the id of the query, which is in its checkpoint.",
        read_by=_READ_BY,
    )
    commit_mode: str = setting(
        "commit.mode",
        one_of(*MODES),
        "batch",
        "How rows become visible: exactly once, or at least once.",
        read_by=_READ_BY,
    )
    offsets_group: str | None = setting(
        "offsets.group",
        optional_text("the name of a group, or none"),
        "",
        "Under which group the position in the source topics is committed. By default the name of the query, or else the sink id.",
        read_by=_READ_BY,
    )
    staging_dir: str | None = setting(
        "staging.dir",
        optional_text("a directory that driver and executors share"),
        "",
        "Where tasks leave what the driver commits. By default a directory in the checkpoint.",
        read_by=_READ_BY,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """What the options of a write say, with all defaults filled in."""

    sink_id: str  # the name of this output: transactional id, and part of the name of all that is kept under it
    commit_mode: str
    topic: str | None  # None where every row names its own, in the column topic
    properties: Mapping[str, str]  # of producers, by Kafka's names, without the prefix kafka.
    offsets_group: str | None  # which group gets the source offsets; None: nobody
    checkpoint: Path | None  # None for a batch job
    staging: Path

    @classmethod
    def of_stream(cls, options: Mapping[str, str]) -> SinkSettings:
        """The options of `writeStream`. Raises OptionRefused."""
        written = read_options(_Written, options)
        given = {name.lower(): value for name, value in options.items()}
        checkpoint = local_path(given.get("checkpointlocation"), "checkpointLocation")
        if checkpoint is None:
            raise OptionRefused("checkpointLocation", "set it on the query itself: the sink keeps what it stages there")
        sink_id = written.sink_id or f"tidelog-{_query_id(checkpoint)}"
        return cls._from(
            written,
            options,
            sink_id=sink_id,
            group=given.get("queryname") or sink_id,
            checkpoint=checkpoint,
            staging=_own_part(written.staging_dir, sink_id) or checkpoint / _STAGING,
        )

    @classmethod
    def of_batch(cls, options: Mapping[str, str]) -> SinkSettings:
        """The options of `write`: a job of its own, with a name of its own unless one is given. Raises OptionRefused."""
        written = read_options(_Written, options)
        if written.offsets_group not in {None, _NOBODY}:
            raise OptionRefused("offsets.group", "a batch job has no position in a source: leave it out")
        root = local_path(written.staging_dir, "staging.dir") or Path(gettempdir()) / f"tidelog-{_STAGING}"
        job = real_runtime().randomness.uuid().hex
        sink_id = written.sink_id or f"tidelog-write-{job}"
        return cls._from(written, options, sink_id=sink_id, group=None, checkpoint=None, staging=root / f"job-{job}")

    @classmethod
    def _from(
        cls,
        written: _Written,
        options: Mapping[str, str],
        *,
        sink_id: str,
        group: str | None,
        checkpoint: Path | None,
        staging: Path,
    ) -> SinkSettings:
        if len(sink_id.encode()) > _NAME_BYTES_MAX:
            raise OptionRefused("sink.id", f"{sink_id!r} is longer than {_NAME_BYTES_MAX} bytes")
        wanted = group if written.offsets_group is None else written.offsets_group
        settings = cls(
            sink_id=sink_id,
            commit_mode=written.commit_mode,
            topic=written.topic,
            properties={**_DEFAULTS, **client_properties(options, refused=_REFUSED, ignored=_IGNORED)},
            offsets_group=None if wanted == _NOBODY else wanted,
            checkpoint=checkpoint,
            staging=staging,
        )
        if written.commit_mode != _WITHOUT_GUARANTEE:
            _check_guarantee(settings.properties)
        settings.client_config()
        settings.producer_config(transactional_id=None if written.commit_mode == _WITHOUT_GUARANTEE else sink_id)
        return settings

    def client_config(self) -> ConsumerConfig:
        """For clients that only ask."""
        names = {row.name for row in settings_of(ClientConfig).values()}
        return client_config(ConsumerConfig, {name: self.properties[name] for name in self.properties if name in names})

    def producer_config(self, *, transactional_id: str | None = None, is_two_phase: bool = False) -> ProducerConfig:
        """For producers: the user's properties, and ours where the guarantees of the mode hang on them. Raises OptionRefused."""
        ours = {} if transactional_id is None else {"transactional.id": transactional_id}
        if is_two_phase:
            ours["transaction.two.phase.commit.enable"] = "true"
        return client_config(ProducerConfig, {**self.properties, **ours})


def option_names() -> list[str]:
    """All options of the sink but those of clients, for documentation and tests."""
    return [settings_of(_Written)[field.name].name for field in fields(_Written)]


def _check_guarantee(properties: Mapping[str, str]) -> None:
    """What is written exactly once is written by producers that number what they send, wait for all replicas, and try again."""
    for name, (is_enough, accepted) in _GUARANTEE.items():
        given = properties.get(name)
        if given is not None and not is_enough(given.lower()):
            raise OptionRefused(
                f"kafka.{name}",
                f"{given!r} is not accepted, for writing exactly once takes {accepted}: leave it out, or set commit.mode to "
                f"{_WITHOUT_GUARANTEE}",
            )


def _number(text: str) -> int | None:
    """None for what is no number at all, which the client refuses in its own words."""
    try:
        return int(text)
    except ValueError:
        return None


_GUARANTEE: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "acks": (lambda text: text in {"all", "-1"}, "all"),
    "enable.idempotence": (lambda text: text == "true", "true"),
    "retries": (lambda text: _number(text) != 0, "1 or more"),
    "max.in.flight.requests.per.connection": (
        lambda text: (_number(text) or 0) <= IN_FLIGHT_MAX_IDEMPOTENT,
        f"{IN_FLIGHT_MAX_IDEMPOTENT} at most",
    ),
}
"""By setting: whether a value is good enough, and which ones are."""


def local_path(text: str | None, option: str) -> Path | None:
    """A directory that is mounted here, given as a path or as a URI of a file."""
    if not text:
        return None
    parts = urlsplit(text)
    if parts.scheme in {"", "file"} and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path) if parts.scheme else text).absolute()
    raise OptionRefused(
        option, f"{text!r} is not in a file system that is mounted: accepted is a path that driver and executors share"
    )


def _own_part(staging_dir: str | None, sink_id: str) -> Path | None:
    """The part of a staging directory, which may be that of many queries, that belongs to this one."""
    root = local_path(staging_dir, "staging.dir")
    return None if root is None else root / f"sink-{quote(sink_id, safe='')}"


def _query_id(checkpoint: Path) -> str:
    """The id that Spark gave the query when its checkpoint was made."""
    try:
        found = json.loads((checkpoint / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionRefused(
            "checkpointLocation", f"no id of the query can be read from {checkpoint / 'metadata'} ({error})"
        ) from None
    return str(found)
