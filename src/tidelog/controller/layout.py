"""The tree's layout: Kafka's paths and JSON, so that stock ZooKeeper tools and Kafka's own can read what we keep."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.config import Listener, parse_listener
from tidelog.controller.image import BrokerEpoch, BrokerImage, PartitionState
from tidelog.controller.nodes import Json, Reader, encode, index_of, integers
from tidelog.controller.nodes import MalformedNode as MalformedNode  # part of what this module tells
from tidelog.controller.placement import Assignment
from tidelog.model import BrokerId, ProducerId, TimestampMs, TopicId
from tidelog.registry import Node

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
BROKER_ID_SEQUENCE: Final = "/brokers/seqid"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
CONFIG_CHANGES: Final = "/config/changes"
DELETIONS: Final = "/admin/delete_topics"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
INCARNATIONS: Final = "/tidelog/incarnations"
KNOWN_EPOCHS: Final = "/tidelog/known_epochs"

PERSISTENT_PATHS: Final = (
    "/admin",
    DELETIONS,
    "/brokers",
    BROKER_IDS,
    BROKER_ID_SEQUENCE,
    TOPICS,
    "/cluster",
    "/config",
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    "/config/clients",
    "/config/ips",
    TOPIC_CONFIGS,
    "/config/users",
    "/isr_change_notification",
    PRODUCER_ID_BLOCK,
    "/log_dir_event_notification",
    "/tidelog",
    INCARNATIONS,
    KNOWN_EPOCHS,
)

PRODUCER_ID_BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1


def broker_path(broker_id: BrokerId) -> str:
    """Where a live broker is registered."""
    return f"{BROKER_IDS}/{broker_id}"


def incarnation_path(broker_id: BrokerId) -> str:
    """Where the epoch is remembered under which a broker last registered."""
    return f"{INCARNATIONS}/{broker_id}"


def topic_path(topic: str) -> str:
    """Where a topic's assignment is."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, index: int) -> str:
    """The parent of a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{index}"


def state_path(topic: str, index: int) -> str:
    """Where a partition's leader and ISR are."""
    return f"{TOPICS}/{topic}/partitions/{index}/state"


def topic_config_path(topic: str) -> str:
    """Where a topic's own settings are."""
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(entity: str) -> str:
    """Where the altered settings of a broker, or of `<default>`, are."""
    return f"{BROKER_CONFIGS}/{entity}"


def deletion_path(topic: str) -> str:
    """The mark that a topic is being deleted."""
    return f"{DELETIONS}/{topic}"


def encode_uuid(identifier: UUID) -> str:
    """Kafka's text of an identifier: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(identifier.bytes).decode().rstrip("=")


def decode_uuid(path: str, text: str) -> UUID:
    """The identifier in a node's text."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (binascii.Error, ValueError):
        raise MalformedNode(path, f"{text!r} is no base64 identifier") from None


def encode_controller(broker_id: BrokerId, now_ms: TimestampMs) -> bytes:
    """The content of /controller."""
    return encode({"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1})


def decode_controller(node: Node) -> BrokerId:
    """Who holds /controller."""
    return Reader(CONTROLLER, node).integer("brokerid")


def decode_controller_epoch(node: Node) -> int:
    """The content of /controller_epoch."""
    if not node.data.isdigit():
        raise MalformedNode(CONTROLLER_EPOCH, f"{node.data!r} is no number")
    return int(node.data)


def encode_cluster_id(cluster_id: str) -> bytes:
    """The content of /cluster/id."""
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(node: Node) -> str:
    """The cluster's name for itself."""
    return Reader(CLUSTER_ID, node).text("id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker tells of itself."""

    broker_id: BrokerId
    endpoints: tuple[Listener, ...]
    security_protocols: Mapping[str, str]  # by listener name
    rack: str | None
    registered_ms: TimestampMs
    is_intact: bool = True  # it comes back with all that it knew before
    min_isr: int = 1  # the min.insync.replicas it was started with


def encode_broker(registration: Registration) -> bytes:
    """The content of /brokers/ids/N."""
    plain = [one for one in registration.endpoints if registration.security_protocols[one.name] == "PLAINTEXT"]
    protocols: Json = {one.name: registration.security_protocols[one.name] for one in registration.endpoints}
    content: dict[str, Json] = {
        "version": 5,
        "host": plain[0].host if plain else None,
        "port": plain[0].port if plain else -1,
        "endpoints": [str(one) for one in registration.endpoints],
        "listener_security_protocol_map": protocols,
        "jmx_port": -1,
        "timestamp": str(registration.registered_ms),
        "features": {},
        "tidelog": {"intact": registration.is_intact, "min_isr": registration.min_isr},
    }
    if registration.rack is not None:
        content["rack"] = registration.rack
    return encode(content)


def decode_broker(broker_id: BrokerId, node: Node) -> BrokerImage:
    """A registered broker; its epoch is the id of the transaction that registered it."""
    path = broker_path(broker_id)
    reader = Reader(path, node)
    try:
        endpoints = [parse_listener(text) for text in reader.texts("endpoints")]
    except ValueError as error:
        raise MalformedNode(path, f"{error} is no endpoint") from None
    ours = reader.mapping("tidelog") if reader.has("tidelog") else {}
    min_isr = ours.get("min_isr")
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=node.czxid,
        endpoints={endpoint.name: endpoint for endpoint in endpoints},
        rack=reader.text("rack") if reader.has("rack") else None,
        is_intact=ours.get("intact") is not False,
        min_isr=min_isr if isinstance(min_isr, int) else None,
    )


class LastRegistration(NamedTuple):
    """The last registration of a broker, which outlives it."""

    broker_epoch: BrokerEpoch
    is_intact: bool = True


def encode_incarnation(last: LastRegistration) -> bytes:
    """The content of /tidelog/incarnations/N."""
    return encode({"version": 1, "broker_epoch": last.broker_epoch, "intact": last.is_intact})


def decode_incarnation(broker_id: BrokerId, node: Node) -> LastRegistration:
    """How a broker last registered."""
    reader = Reader(incarnation_path(broker_id), node)
    return LastRegistration(reader.integer("broker_epoch"), reader.content.get("intact") is not False)


def encode_known_epochs(epochs: Mapping[BrokerId, BrokerEpoch]) -> bytes:
    """The content of /tidelog/known_epochs: the starts of brokers that every partition's state already heeds."""
    return encode({"version": 1, "epochs": {str(broker): epoch for broker, epoch in sorted(epochs.items())}})


def decode_known_epochs(node: Node) -> dict[BrokerId, BrokerEpoch]:
    """The broker epochs a controller last dealt with; empty before the first one did."""
    if not node.data:
        return {}
    epochs = Reader(KNOWN_EPOCHS, node).mapping("epochs")
    return {index_of(KNOWN_EPOCHS, broker): epoch for broker, epoch in epochs.items() if isinstance(epoch, int)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """The content of /brokers/topics/T."""

    topic_id: TopicId | None  # topics made before Kafka 2.8 have none
    assignments: Mapping[int, Assignment]
    adding: Mapping[int, Assignment] = field(default_factory=dict)  # of partitions being reassigned only
    removing: Mapping[int, Assignment] = field(default_factory=dict)


def encode_topic(topic_id: TopicId, partitions: Mapping[int, PartitionState]) -> bytes:
    """The content of /brokers/topics/T."""
    return encode(
        {
            "version": 3,
            "partitions": {str(index): list(state.assignment) for index, state in partitions.items()},
            "adding_replicas": {str(index): list(state.adding) for index, state in partitions.items() if state.adding},
            "removing_replicas": {
                str(index): list(state.removing) for index, state in partitions.items() if state.removing
            },
            "topic_id": encode_uuid(topic_id),
        }
    )


def decode_topic(topic: str, node: Node) -> StoredTopic:
    """A topic's id and assignment."""
    path = topic_path(topic)
    reader = Reader(path, node)
    assignments = _assignments(path, reader.mapping("partitions"))
    if list(assignments) != list(range(len(assignments))) or not all(assignments.values()):
        raise MalformedNode(path, "partitions are not numbered from 0, or one has no replica")
    return StoredTopic(
        topic_id=decode_uuid(path, reader.text("topic_id")) if reader.has("topic_id") else None,
        assignments=assignments,
        adding=_assignments(path, reader.mapping("adding_replicas")) if reader.has("adding_replicas") else {},
        removing=_assignments(path, reader.mapping("removing_replicas")) if reader.has("removing_replicas") else {},
    )


def _assignments(path: str, partitions: Mapping[str, Json]) -> dict[int, Assignment]:
    return dict(sorted((index_of(path, index), integers(path, brokers)) for index, brokers in partitions.items()))


def add_topic_id(topic: str, node: Node, topic_id: TopicId) -> bytes:
    """The content of /brokers/topics/T with an id for a topic that has none, all else left as it is."""
    content = Reader(topic_path(topic), node).content
    return encode({**content, "version": 3, "topic_id": encode_uuid(topic_id)})


def encode_state(state: PartitionState, controller_epoch: int) -> bytes:
    """The content of a partition's state node. What Kafka does not know is left out where it says nothing."""
    content: dict[str, Json] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": controller_epoch,
        "isr": list(state.isr),
    }
    if state.is_recovering:
        content["leader_recovery_state"] = 1
    if state.eligible:
        content["eligible"] = list(state.eligible)
    if state.lost:
        content["lost"] = list(state.lost)
    return encode(content)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The content of a partition's state node, with its version."""

    leader: BrokerId
    leader_epoch: int
    controller_epoch: int
    isr: tuple[BrokerId, ...]
    partition_epoch: int
    eligible: tuple[BrokerId, ...] = ()
    lost: tuple[BrokerId, ...] = ()
    is_recovering: bool = False


def decode_state(path: str, node: Node) -> StoredState:
    """Leader and ISR of a partition."""
    reader = Reader(path, node)
    return StoredState(
        leader=reader.integer("leader"),
        leader_epoch=reader.integer("leader_epoch"),
        controller_epoch=reader.integer("controller_epoch"),
        isr=integers(path, reader.value("isr")),
        partition_epoch=node.version,
        eligible=integers(path, reader.value("eligible")) if reader.has("eligible") else (),
        lost=integers(path, reader.value("lost")) if reader.has("lost") else (),
        is_recovering=reader.has("leader_recovery_state") and reader.integer("leader_recovery_state") == 1,
    )


def encode_configs(configs: Mapping[str, str]) -> bytes:
    """The content of /config/topics/T and /config/brokers/N."""
    return encode({"version": 1, "config": dict(sorted(configs.items()))})


def decode_configs(path: str, node: Node) -> dict[str, str]:
    """The settings of a topic or a broker."""
    configs = Reader(path, node).mapping("config")
    if not all(isinstance(value, str) for value in configs.values()):
        raise MalformedNode(path, "a setting's value is not text")
    return {name: str(value) for name, value in configs.items()}


CHANGE_NOTIFICATION: Final = f"{CONFIG_CHANGES}/config_change_"


def encode_change(config_path: str, minimum_before: int) -> bytes:
    """The content of a notification that the settings at a path have changed. The minimum is for our controllers; Kafka overlooks it."""
    return encode(
        {
            "version": 2,
            "entity_path": config_path.removeprefix("/config/"),
            "tidelog": {"min_isr_before": minimum_before},
        }
    )


def decode_change(path: str, node: Node) -> str:
    """The path whose settings a notification tells of."""
    return f"/config/{Reader(path, node).text('entity_path')}"


def minimum_before(path: str, node: Node) -> int | None:
    """The min.insync.replicas before, for a leader that has not heard of the change yet; None if nobody wrote it."""
    reader = Reader(path, node)
    before = reader.mapping("tidelog").get("min_isr_before") if reader.has("tidelog") else None
    return before if isinstance(before, int) else None


def encode_producer_id_block(broker_id: BrokerId, block: range) -> bytes:
    """The content of /latest_producer_id_block."""
    return encode(
        {"version": 1, "broker": broker_id, "block_start": str(block.start), "block_end": str(block.stop - 1)}
    )


def next_producer_id(node: Node) -> ProducerId:
    """The first producer id after the latest block; an empty node means that none was handed out."""
    if not node.data:
        return 0
    text = Reader(PRODUCER_ID_BLOCK, node).text("block_end")
    if not text.isdecimal():
        raise MalformedNode(PRODUCER_ID_BLOCK, f"{text!r} is no producer id")
    return int(text) + 1
