"""What a user of the client can set: the names, meanings and defaults of Kafka 4.x clients, parsed once into frozen values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.client.backoff import Backoff
from tidelog.config import ConfigError, ValueType
from tidelog.config.kinds import BOOLEAN, INT_MAX, LONG_MAX, Kind, integer, optional_text
from tidelog.config.settings import check_names, setting, settings_of
from tidelog.model import Acks, IsolationLevel
from tidelog.records.compression import Codec
from tidelog.runtime import Address

T = TypeVar("T")
ConfigT = TypeVar("ConfigT", bound="ClientConfig")

IN_FLIGHT_MAX_IDEMPOTENT: Final = 5
"""The broker remembers this many batches per producer and partition; a retry of an older one could not be recognised (KIP-98)."""


class OffsetReset(enum.Enum):
    """Where a consumer goes that has no position, or one that is not in the log."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


def _named(accepted: Mapping[str, T]) -> Kind[T]:
    """One word of a table, in any case."""
    words = {value: word for word, value in reversed(list(accepted.items()))}

    def parse(text: str) -> T:
        if text.lower() not in accepted:
            raise ValueError(text)
        return accepted[text.lower()]

    return Kind(
        value_type=ValueType.STRING,
        accepted="one of " + ", ".join(accepted),
        parse=parse,
        render=lambda value: words[value],
    )


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Read `host:port,[v6]:port,...`; raises ValueError."""
    return tuple(_parse_address(part.strip()) for part in text.split(",") if part.strip())


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(text)
    return Address(host, int(port))


_ADDRESSES: Final[Kind[tuple[Address, ...]]] = Kind(
    value_type=ValueType.LIST,
    accepted="a comma-separated list of host:port",
    parse=parse_addresses,
    render=lambda addresses: ",".join(map(str, addresses)),
)
_ACKS: Final = _named({"all": Acks.ALL, "-1": Acks.ALL, "0": Acks.NONE, "1": Acks.LEADER})
_CODEC: Final = _named({codec.name.lower(): codec for codec in Codec})
_RESET: Final = _named({reset.value: reset for reset in OffsetReset})
_ISOLATION: Final = _named({level.name.lower(): level for level in IsolationLevel})
_READ_BY: Final = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What every client needs: where the cluster is, and how patient to be with it."""

    bootstrap_servers: tuple[Address, ...] = setting(
        "bootstrap.servers",
        _ADDRESSES,
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
            raise ConfigError("bootstrap.servers", "", _ADDRESSES.accepted)

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

    acks: Acks = setting("acks", _ACKS, "all", "Who must hold a record before it counts as sent.", read_by=_READ_BY)
    enable_idempotence: bool = setting(
        "enable.idempotence",
        BOOLEAN,
        "true",
        "Number batches so that retries neither duplicate nor reorder.",
        read_by=_READ_BY,
    )
    compression_type: Codec = setting("compression.type", _CODEC, "none", "Codec of the batches.", read_by=_READ_BY)
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

    @classmethod
    def _completed(cls, properties: Mapping[str, str]) -> Mapping[str, str]:
        """As in Kafka, asking for less than acks=all, no retries or deeper pipelines quietly gives up the idempotence nobody asked for."""
        if "enable.idempotence" in properties:
            return properties
        plain = {field: row.read(properties) for field, row in settings_of(cls).items()}
        return {**properties, "enable.idempotence": "false"} if _idempotence_conflict(plain) else properties

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if self.enable_idempotence:
            conflict = _idempotence_conflict({name: getattr(self, name) for name in _IDEMPOTENCE_NEEDS})
            if conflict is not None:
                raise ConfigError("enable.idempotence", "true", f"true only with {conflict}")
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                "delivery.timeout.ms", str(self.delivery_timeout_ms), "at least linger.ms + request.timeout.ms"
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
        "auto.offset.reset", _RESET, "latest", "Where to go without a valid position.", read_by=_READ_BY
    )
    isolation_level: IsolationLevel = setting(
        "isolation.level",
        _ISOLATION,
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
