"""What a user of the client can set: the names, meanings and defaults of Kafka 4.x clients, parsed once into frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.client.backoff import Backoff
from tidelog.client.config_kinds import (
    ACKS,
    ADDRESSES,
    ASSIGNORS,
    CODEC,
    GROUP_PROTOCOL,
    ISOLATION,
    RESET,
    GroupProtocol,
    OffsetReset,
)
from tidelog.config import ConfigError
from tidelog.config.kinds import BOOLEAN, INT_MAX, LONG_MAX, integer, optional_text
from tidelog.config.settings import check_names, setting, settings_of
from tidelog.model import Acks, IsolationLevel
from tidelog.records.compression import Codec
from tidelog.runtime import Address

ConfigT = TypeVar("ConfigT", bound="ClientConfig")

IN_FLIGHT_MAX_IDEMPOTENT: Final = 5
"""The broker remembers this many batches per producer and partition; a retry of an older one could not be recognised (KIP-98)."""

TRANSACTION_VERSION_TWO: Final = 2
"""The protocol in which each transaction has an epoch of its own (KIP-890), as prepared ones must (KIP-939)."""

_READ_BY: Final = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What every client needs: where the cluster is, and how patient to be with it."""

    bootstrap_servers: tuple[Address, ...] = setting(
        "bootstrap.servers",
        ADDRESSES,
        "",
        "Brokers to ask first; the rest of the cluster is learned.",
        read_by=_READ_BY,
    )
    client_id: str | None = setting(
        "client.id",
        optional_text("any text"),
        "",
        "Name sent with every request, for the broker's logs and quotas.",
        read_by=_READ_BY,
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms", integer(1), "30000", "How long to wait for the answer to one request.", read_by=_READ_BY
    )
    default_api_timeout_ms: int = setting(
        "default.api.timeout.ms",
        integer(1),
        "60000",
        "How long a call may take in all, retries included.",
        read_by=_READ_BY,
    )
    metadata_max_age_ms: int = setting(
        "metadata.max.age.ms", integer(1), "300000", "Metadata older than this is asked for again.", read_by=_READ_BY
    )
    metadata_max_idle_ms: int = setting(
        "metadata.max.idle.ms", integer(5000), "300000", "Topics unused for this long are forgotten.", read_by=_READ_BY
    )
    retry_backoff_ms: int = setting(
        "retry.backoff.ms", integer(0), "100", "Wait before the first retry; doubles from there.", read_by=_READ_BY
    )
    retry_backoff_max_ms: int = setting(
        "retry.backoff.max.ms", integer(0), "1000", "Longest wait between retries.", read_by=_READ_BY
    )
    reconnect_backoff_ms: int = setting(
        "reconnect.backoff.ms", integer(0), "50", "Wait before connecting again; doubles from there.", read_by=_READ_BY
    )
    reconnect_backoff_max_ms: int = setting(
        "reconnect.backoff.max.ms", integer(0), "1000", "Longest wait between attempts to connect.", read_by=_READ_BY
    )
    socket_connection_setup_timeout_ms: int = setting(
        "socket.connection.setup.timeout.ms",
        integer(1),
        "10000",
        "How long a connection may take to open.",
        read_by=_READ_BY,
    )
    receive_message_max_bytes: int = setting(
        "receive.message.max.bytes",
        integer(1000),
        "104857600",
        "Largest answer a broker may send (librdkafka's name); a larger one closes the connection.",
        read_by=_READ_BY,
    )

    @classmethod
    def from_properties(cls: type[ConfigT], properties: Mapping[str, str]) -> ConfigT:
        """Read settings by their Kafka names; raises UnknownSetting or ConfigError."""
        table = settings_of(cls)
        names = sorted(row.name for row in table.values())
        check_names(properties, lambda name: name in names, names)
        values = {field: row.read(cls._completed(properties)) for field, row in table.items()}
        return cls(**values)  # type: ignore[arg-type]  # each row's kind gives its field's type: `setting` ties the two together

    @classmethod
    def _completed(cls, properties: Mapping[str, str]) -> Mapping[str, str]:
        """The properties with those defaults that depend on other settings."""
        return properties

    def __post_init__(self) -> None:
        if not self.bootstrap_servers:
            raise ConfigError("bootstrap.servers", "", ADDRESSES.accepted)

    @property
    def retry_backoff(self) -> Backoff:
        """Between attempts of a request."""
        return Backoff(initial_ms=self.retry_backoff_ms, max_ms=self.retry_backoff_max_ms)

    @property
    def reconnect_backoff(self) -> Backoff:
        """Between attempts to connect."""
        return Backoff(initial_ms=self.reconnect_backoff_ms, max_ms=self.reconnect_backoff_max_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """How records are gathered, sent and retried."""

    acks: Acks = setting("acks", ACKS, "all", "Who must hold a record before it counts as sent.", read_by=_READ_BY)
    enable_idempotence: bool = setting(
        "enable.idempotence",
        BOOLEAN,
        "true",
        "Number batches so that retries neither duplicate nor reorder.",
        read_by=_READ_BY,
    )
    compression_type: Codec = setting("compression.type", CODEC, "none", "Codec of the batches.", read_by=_READ_BY)
    batch_size: int = setting("batch.size", integer(0), "16384", "Bytes after which a batch is full.", read_by=_READ_BY)
    linger_ms: int = setting("linger.ms", integer(0), "5", "How long a batch waits for more records.", read_by=_READ_BY)
    buffer_memory: int = setting(
        "buffer.memory",
        integer(1, LONG_MAX),
        "33554432",
        "Bytes of records that may wait for delivery.",
        read_by=_READ_BY,
    )
    max_block_ms: int = setting(
        "max.block.ms", integer(0), "60000", "How long send may wait for metadata or buffer space.", read_by=_READ_BY
    )
    max_request_size: int = setting(
        "max.request.size", integer(1), "1048576", "Largest request, and so largest record.", read_by=_READ_BY
    )
    delivery_timeout_ms: int = setting(
        "delivery.timeout.ms", integer(1), "120000", "Time from send to success or failure.", read_by=_READ_BY
    )
    retries: int = setting("retries", integer(0), str(INT_MAX), "Attempts after the first.", read_by=_READ_BY)
    max_in_flight_requests_per_connection: int = setting(
        "max.in.flight.requests.per.connection", integer(1), "5", "Unanswered requests per broker.", read_by=_READ_BY
    )
    transactional_id: str | None = setting(
        "transactional.id",
        optional_text("any text"),
        "",
        "The name under which this producer writes transactions; whoever takes it next fences this one.",
        read_by=_READ_BY,
    )
    transaction_timeout_ms: int = setting(
        "transaction.timeout.ms",
        integer(1),
        "60000",
        "How long a transaction may stay open before its coordinator aborts it.",
        read_by=_READ_BY,
    )
    is_two_phase: bool = setting(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        "false",
        "Whether transactions never time out, because somebody else decides how they end (KIP-939).",
        read_by=_READ_BY,
    )
    transaction_version_max: int = setting(
        "tidelog.transaction.version.max",
        integer(1, 2),
        "2",
        "The newest transaction protocol to speak: 1 tells the coordinator of every partition first, as before KIP-890.",
        read_by=_READ_BY,
    )

    @classmethod
    def _completed(cls, properties: Mapping[str, str]) -> Mapping[str, str]:
        """As in Kafka, asking for less than acks=all, no retries or deeper pipelines quietly gives up the idempotence nobody asked for.

        Transactions do ask for it.
        """
        if "enable.idempotence" in properties or properties.get("transactional.id"):
            return properties
        plain = {field: row.read(properties) for field, row in settings_of(cls).items()}
        return {**properties, "enable.idempotence": "false"} if _idempotence_conflict(plain) else properties

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if self.enable_idempotence:
            conflict = _idempotence_conflict({name: getattr(self, name) for name in _IDEMPOTENCE_NEEDS})
            if conflict is not None:
                raise ConfigError("enable.idempotence", "true", f"true only with {conflict}")
        self._check_transactions()
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                "delivery.timeout.ms", str(self.delivery_timeout_ms), "at least linger.ms + request.timeout.ms"
            )

    def _check_transactions(self) -> None:
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError("transactional.id", self.transactional_id, "set only with enable.idempotence=true")
        if not self.is_two_phase:
            return
        if self.transactional_id is None:
            raise ConfigError("transaction.two.phase.commit.enable", "true", "true only with a transactional.id")
        if self.transaction_version_max < TRANSACTION_VERSION_TWO:
            raise ConfigError(
                "tidelog.transaction.version.max", str(self.transaction_version_max), "2 for a two-phase commit"
            )


_IDEMPOTENCE_NEEDS: Final = ("acks", "retries", "max_in_flight_requests_per_connection")


def _idempotence_conflict(values: Mapping[str, object]) -> str | None:
    acks, retries, in_flight = (values[name] for name in _IDEMPOTENCE_NEEDS)
    if acks is not Acks.ALL:
        return "acks=all"
    if retries == 0:
        return "retries above 0"
    if isinstance(in_flight, int) and in_flight > IN_FLIGHT_MAX_IDEMPOTENT:
        return f"max.in.flight.requests.per.connection of at most {IN_FLIGHT_MAX_IDEMPOTENT}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """How records are fetched and which of them are handed out."""

    auto_offset_reset: OffsetReset = setting(
        "auto.offset.reset", RESET, "latest", "Where to go without a valid position.", read_by=_READ_BY
    )
    isolation_level: IsolationLevel = setting(
        "isolation.level",
        ISOLATION,
        "read_uncommitted",
        "Whether records of undecided transactions are seen.",
        read_by=_READ_BY,
    )
    fetch_min_bytes: int = setting("fetch.min.bytes", integer(0), "1", "Bytes a broker waits for.", read_by=_READ_BY)
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        integer(0),
        "52428800",
        "Bytes of one fetch, and of what waits undelivered.",
        read_by=_READ_BY,
    )
    fetch_max_wait_ms: int = setting(
        "fetch.max.wait.ms", integer(0), "500", "How long a broker waits for fetch.min.bytes.", read_by=_READ_BY
    )
    max_partition_fetch_bytes: int = setting(
        "max.partition.fetch.bytes", integer(0), "1048576", "Bytes per partition of one fetch.", read_by=_READ_BY
    )
    max_poll_records: int = setting(
        "max.poll.records", integer(1), "500", "Records one poll returns.", read_by=_READ_BY
    )
    check_crcs: bool = setting("check.crcs", BOOLEAN, "true", "Verify the checksum of every batch.", read_by=_READ_BY)
    client_rack: str | None = setting(
        "client.rack",
        optional_text("any text"),
        "",
        "Where this consumer is; brokers may send it to an in-sync replica of the same rack (KIP-392).",
        read_by=_READ_BY,
    )
    allow_auto_create_topics: bool = setting(
        "allow.auto.create.topics", BOOLEAN, "true", "Whether asking for a topic may create it.", read_by=_READ_BY
    )
    group_id: str | None = setting(
        "group.id",
        optional_text("any text"),
        "",
        "The group to share topics with, whose committed offsets are read and written.",
        read_by=_READ_BY,
    )
    group_instance_id: str | None = setting(
        "group.instance.id",
        optional_text("any text"),
        "",
        "A name by which this member is known again after a restart (KIP-345).",
        read_by=_READ_BY,
    )
    group_protocol: GroupProtocol = setting(
        "group.protocol",
        GROUP_PROTOCOL,
        "classic",
        "Who assigns: one of the members, or the coordinator.",
        read_by=_READ_BY,
    )
    group_remote_assignor: str | None = setting(
        "group.remote.assignor",
        optional_text("any text"),
        "",
        "How the coordinator assigns (group.protocol=consumer); empty leaves it the choice.",
        read_by=_READ_BY,
    )
    partition_assignment_strategy: tuple[str, ...] = setting(
        "partition.assignment.strategy",
        ASSIGNORS,
        "range,cooperative-sticky",
        "How members assign (group.protocol=classic), the favourite first.",
        read_by=_READ_BY,
    )
    session_timeout_ms: int = setting(
        "session.timeout.ms",
        integer(1),
        "45000",
        "Without a heartbeat for so long a classic member is put out.",
        read_by=_READ_BY,
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms", integer(1), "3000", "Time between a classic member's heartbeats.", read_by=_READ_BY
    )
    max_poll_interval_ms: int = setting(
        "max.poll.interval.ms",
        integer(1),
        "300000",
        "A consumer that does not poll for so long leaves; rebalances wait so long for it.",
        read_by=_READ_BY,
    )
    enable_auto_commit: bool = setting(
        "enable.auto.commit",
        BOOLEAN,
        "true",
        "Whether positions are committed now and then, and before partitions are given up.",
        read_by=_READ_BY,
    )
    auto_commit_interval_ms: int = setting(
        "auto.commit.interval.ms", integer(0), "5000", "Time between commits of positions.", read_by=_READ_BY
    )
    exclude_internal_topics: bool = setting(
        "exclude.internal.topics",
        BOOLEAN,
        "true",
        "Whether a pattern leaves out the topics that brokers keep for themselves.",
        read_by=_READ_BY,
    )

    @classmethod
    def _completed(cls, properties: Mapping[str, str]) -> Mapping[str, str]:
        """As in Kafka, settings of the other group protocol are refused: they would have no effect."""
        uses_new = properties.get("group.protocol", "").lower() == GroupProtocol.CONSUMER.value
        for name in _OF_CLASSIC if uses_new else _OF_NEW:
            if properties.get(name):
                raise ConfigError(
                    name, properties[name], f"not set with group.protocol={properties.get('group.protocol', 'classic')}"
                )
        return properties

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("heartbeat.interval.ms", str(self.heartbeat_interval_ms), "less than session.timeout.ms")


_OF_CLASSIC: Final = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
_OF_NEW: Final = ("group.remote.assignor",)
