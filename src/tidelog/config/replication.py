"""The settings of a broker that has peers: the registry they share, replication, elections. Kafka's names, types and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.config.kinds import BOOLEAN, LONG_MAX, Kind, ValueType, integer, long, one_of, optional_text
from tidelog.config.settings import setting

LEADER_EPOCH: Final = "leader-epoch"
HIGH_WATERMARK: Final = "high-watermark"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

NO_AUTH: Final = "none"
DIGEST: Final = "digest"  # ZooKeeper's own scheme of users and passwords
DIGEST_MD5: Final = "DIGEST-MD5"  # SASL with a password
GSSAPI: Final = "GSSAPI"  # SASL with a Kerberos ticket
ZOOKEEPER_MECHANISMS: Final = (DIGEST, DIGEST_MD5, GSSAPI)

SECRET: Final[Kind[str | None]] = Kind(
    value_type=ValueType.PASSWORD,
    accepted="a text that is shown to nobody",
    parse=lambda text: text or None,
    render=lambda value: value or "",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """What a broker needs to know to be one of several."""

    # fmt: off
    # The registry.
    zookeeper_connect: str | None = setting(
        "zookeeper.connect", optional_text("host:port,host:port/chroot"), "",
        "The ZooKeeper ensemble of brokers on several machines; empty keeps the registry in a file, see tidelog.registry.path.",
        read_by="cli.registry"
    )
    zookeeper_session_timeout_ms: int = setting(
        "zookeeper.session.timeout.ms", integer(1), "18000", "How long ZooKeeper waits for a silent broker.", read_by="cli.registry"
    )
    zookeeper_connection_timeout_ms: int = setting(
        "zookeeper.connection.timeout.ms", integer(1), "18000", "How long a start waits for ZooKeeper.", read_by="cli.registry"
    )
    registry_session_timeout_ms: int = setting(
        "tidelog.registry.session.timeout.ms", integer(100), "9000",
        "How long the brokers of a machine wait for one that is alive but silent; a dead one is noticed at once.", read_by="cli.registry"
    )

    zookeeper_tls_enable: bool = setting(
        "tidelog.zookeeper.tls.enable", BOOLEAN, "false", "Speak TLS with ZooKeeper.", read_by="cli.registry"
    )
    zookeeper_tls_ca_file: str | None = setting(
        "tidelog.zookeeper.tls.ca.file", optional_text("a PEM file"), "",
        "Certificates that vouch for the members, besides those of the system.", read_by="cli.registry"
    )
    zookeeper_tls_certificate_file: str | None = setting(
        "tidelog.zookeeper.tls.certificate.file", optional_text("a PEM file"), "",
        "Our own certificate, where members ask for one.", read_by="cli.registry"
    )
    zookeeper_tls_key_file: str | None = setting(
        "tidelog.zookeeper.tls.key.file", optional_text("a PEM file"), "",
        "Its key; empty if the certificate's file holds it, too.", read_by="cli.registry"
    )
    zookeeper_tls_key_password: str | None = setting(
        "tidelog.zookeeper.tls.key.password", SECRET, "", "The password of the key's file.", read_by="cli.registry"
    )
    zookeeper_tls_verify: bool = setting(
        "tidelog.zookeeper.tls.verify", BOOLEAN, "true",
        "Demand certificates that we trust and that are for the hosts in zookeeper.connect.", read_by="cli.registry"
    )
    zookeeper_auth_mechanism: str = setting(
        "tidelog.zookeeper.auth.mechanism", one_of(NO_AUTH, *ZOOKEEPER_MECHANISMS), NO_AUTH,
        "Who we are for ZooKeeper: nobody, a user of its digest scheme, or of SASL with a password (DIGEST-MD5) or a ticket (GSSAPI).",
        read_by="cli.registry"
    )
    zookeeper_auth_username: str | None = setting(
        "tidelog.zookeeper.auth.username", optional_text("a name"), "", "The user.", read_by="cli.registry"
    )
    zookeeper_auth_password: str | None = setting(
        "tidelog.zookeeper.auth.password", SECRET, "", "Its password.", read_by="cli.registry"
    )

    # Followers.
    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms", long(1), "30000", "A follower that has not caught up for so long leaves the ISR.",
        read_by="broker.replica_roles"
    )
    replica_fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes", integer(0), "1048576", "Most bytes a follower fetches of one partition.", read_by="broker.replica_roster"
    )
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes", integer(0), "10485760", "Most bytes of one response to a follower.",
        read_by="broker.replica_fetcher"
    )
    replica_fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes", integer(0), "1", "Bytes a follower's fetch waits for.", read_by="broker.replica_roster"
    )
    replica_fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms", integer(0), "500", "Longest wait of a follower's fetch.", read_by="broker.replica_fetcher"
    )
    replica_fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms", integer(0), "1000", "Pause of a follower after a failed fetch.", read_by="broker.replica_roster"
    )
    replica_socket_timeout_ms: int = setting(
        "replica.socket.timeout.ms", integer(1), "30000", "How long a follower waits for an answer of its leader.",
        read_by="broker.replica_fetcher"
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms", long(1), "5000",
        "How often high watermarks are checkpointed.", read_by="broker.housekeeping"
    )
    replica_selector_class: str | None = setting(
        "replica.selector.class", optional_text(f"empty or {RACK_AWARE_SELECTOR}"), "",
        "Who serves a consumer: the leader or, with the rack-aware selector, the nearest replica (KIP-392).", read_by="broker.replica_selector"
    )
    leader_throttled_rate: int = setting(
        "leader.replication.throttled.rate", long(0), str(LONG_MAX),
        "Bytes per second a leader gives to throttled replicas.", read_by="broker.replication_quota", dynamic=True
    )
    follower_throttled_rate: int = setting(
        "follower.replication.throttled.rate", long(0), str(LONG_MAX),
        "Bytes per second a follower takes for throttled replicas.", read_by="broker.replication_quota", dynamic=True
    )
    truncation: str = setting(
        "replication.truncation", one_of(LEADER_EPOCH, HIGH_WATERMARK), LEADER_EPOCH,
        "How a follower cuts its log. high-watermark is what Kafka did before 0.11: it LOSES RECORDS and needs tidelog.lab.enable.",
        read_by="broker.replica_roles"
    )
    lab_enable: bool = setting(
        "tidelog.lab.enable", BOOLEAN, "false", "Allow settings that lose data, to show how it happens.", read_by="broker.replica_roles"
    )

    # Elections and leaving.
    auto_leader_rebalance_enable: bool = setting(
        "auto.leader.rebalance.enable", BOOLEAN, "true", "Give leadership back to preferred leaders now and then.",
        read_by="controller.presiding"
    )
    leader_imbalance_check_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds", long(1), "300", "How often that is looked at.", read_by="controller.presiding"
    )
    leader_imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage", integer(0), "10",
        "Share of a broker's preferred partitions that may be led elsewhere.", read_by="controller.presiding"
    )
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable", BOOLEAN, "true", "Move leaders away before a broker stops.", read_by="broker.controlled_shutdown"
    )
    controlled_shutdown_max_retries: int = setting(
        "controlled.shutdown.max.retries", integer(0), "3", "How often a broker asks for that.", read_by="broker.controlled_shutdown"
    )
    controlled_shutdown_retry_backoff_ms: int = setting(
        "controlled.shutdown.retry.backoff.ms", long(1), "5000", "The pause in between.", read_by="broker.controlled_shutdown"
    )
    # fmt: on
