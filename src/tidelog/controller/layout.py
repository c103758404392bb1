"""The tree's layout: Kafka's paths and JSON, so that stock ZooKeeper tools and Kafka's own can read what we keep."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.config import Listener, parse_listener
from tidelog.controller.image import BrokerImage, PartitionState
from tidelog.model import BrokerId, ProducerId, TimestampMs, TopicId
from tidelog.registry import Node

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

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
)

PRODUCER_ID_BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1


class MalformedNode(Exception):
    """A node holds something that neither Kafka nor we have written; starting on it would be guessing."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"registry node {path}: {reason}")
        self.path = path
        self.reason = reason


def broker_path(broker_id: BrokerId) -> str:
    """Where a live broker is registered."""
    return f"{BROKER_IDS}/{broker_id}"


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
    return _encode({"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1})


def decode_controller(node: Node) -> BrokerId:
    """Who holds /controller."""
    return _Reader(CONTROLLER, node).integer("brokerid")


def decode_controller_epoch(node: Node) -> int:
    """The content of /controller_epoch."""
    if not node.data.isdigit():
        raise MalformedNode(CONTROLLER_EPOCH, f"{node.data!r} is no number")
    return int(node.data)


def encode_cluster_id(cluster_id: str) -> bytes:
    """The content of /cluster/id."""
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(node: Node) -> str:
    """The cluster's name for itself."""
    return _Reader(CLUSTER_ID, node).text("id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker tells of itself."""

    broker_id: BrokerId
    endpoints: tuple[Listener, ...]
    security_protocols: Mapping[str, str]  # by listener name
    rack: str | None
    registered_ms: TimestampMs


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
    }
    if registration.rack is not None:
        content["rack"] = registration.rack
    return _encode(content)


def decode_broker(broker_id: BrokerId, node: Node) -> BrokerImage:
    """A registered broker; its epoch is the id of the transaction that registered it."""
    path = broker_path(broker_id)
    reader = _Reader(path, node)
    try:
        endpoints = [parse_listener(text) for text in reader.texts("endpoints")]
    except ValueError as error:
        raise MalformedNode(path, f"{error} is no endpoint") from None
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=node.czxid,
        endpoints={endpoint.name: endpoint for endpoint in endpoints},
        rack=reader.text("rack") if reader.has("rack") else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """The content of /brokers/topics/T."""

    topic_id: TopicId | None  # topics made before Kafka 2.8 have none
    assignments: Mapping[int, tuple[BrokerId, ...]]


def encode_topic(topic_id: TopicId, assignments: Mapping[int, tuple[BrokerId, ...]]) -> bytes:
    """The content of /brokers/topics/T for a topic that is not being reassigned."""
    partitions: Json = {str(index): list(brokers) for index, brokers in assignments.items()}
    return _encode(
        {
            "version": 3,
            "partitions": partitions,
            "adding_replicas": {},
            "removing_replicas": {},
            "topic_id": encode_uuid(topic_id),
        }
    )


def decode_topic(topic: str, node: Node) -> StoredTopic:
    """A topic's id and assignment."""
    path = topic_path(topic)
    reader = _Reader(path, node)
    partitions = reader.mapping("partitions")
    assignments = {_index(path, index): _integers(path, brokers) for index, brokers in partitions.items()}
    if sorted(assignments) != list(range(len(assignments))) or not all(assignments.values()):
        raise MalformedNode(path, "partitions are not numbered from 0, or one has no replica")
    topic_id = decode_uuid(path, reader.text("topic_id")) if reader.has("topic_id") else None
    return StoredTopic(topic_id=topic_id, assignments=dict(sorted(assignments.items())))


def add_topic_id(topic: str, node: Node, topic_id: TopicId) -> bytes:
    """The content of /brokers/topics/T with an id for a topic that has none, all else left as it is."""
    content = _Reader(topic_path(topic), node).content
    return _encode({**content, "version": 3, "topic_id": encode_uuid(topic_id)})


def encode_state(state: PartitionState, controller_epoch: int) -> bytes:
    """The content of a partition's state node."""
    return _encode(
        {
            "version": 1,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "controller_epoch": controller_epoch,
            "isr": list(state.isr),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The content of a partition's state node, with its version."""

    leader: BrokerId
    leader_epoch: int
    controller_epoch: int
    isr: tuple[BrokerId, ...]
    partition_epoch: int


def decode_state(path: str, node: Node) -> StoredState:
    """Leader and ISR of a partition."""
    reader = _Reader(path, node)
    return StoredState(
        leader=reader.integer("leader"),
        leader_epoch=reader.integer("leader_epoch"),
        controller_epoch=reader.integer("controller_epoch"),
        isr=_integers(path, reader.value("isr")),
        partition_epoch=node.version,
    )


def encode_configs(configs: Mapping[str, str]) -> bytes:
    """The content of /config/topics/T and /config/brokers/N."""
    return _encode({"version": 1, "config": dict(sorted(configs.items()))})


def decode_configs(path: str, node: Node) -> dict[str, str]:
    """The settings of a topic or a broker."""
    configs = _Reader(path, node).mapping("config")
    if not all(isinstance(value, str) for value in configs.values()):
        raise MalformedNode(path, "a setting's value is not text")
    return {name: str(value) for name, value in configs.items()}


CHANGE_NOTIFICATION: Final = f"{CONFIG_CHANGES}/config_change_"


def encode_change(config_path: str) -> bytes:
    """The content of a notification that the settings at a path have changed."""
    return _encode({"version": 2, "entity_path": config_path.removeprefix("/config/")})


def encode_producer_id_block(broker_id: BrokerId, block: range) -> bytes:
    """The content of /latest_producer_id_block."""
    return _encode(
        {"version": 1, "broker": broker_id, "block_start": str(block.start), "block_end": str(block.stop - 1)}
    )


def next_producer_id(node: Node) -> ProducerId:
    """The first producer id after the latest block; an empty node means that none was handed out."""
    if not node.data:
        return 0
    text = _Reader(PRODUCER_ID_BLOCK, node).text("block_end")
    if not text.isdecimal():
        raise MalformedNode(PRODUCER_ID_BLOCK, f"{text!r} is no producer id")
    return int(text) + 1


class _Reader:
    """The fields of a node's JSON object, each asked for with its type."""

    def __init__(self, path: str, node: Node) -> None:
        self._path = path
        try:
            content: Json = json.loads(node.data)
        except ValueError:
            raise MalformedNode(path, "the content is no JSON") from None
        if not isinstance(content, dict):
            raise MalformedNode(path, "the content is no JSON object")
        self.content = content

    def has(self, name: str) -> bool:
        return self.content.get(name) is not None

    def value(self, name: str) -> Json:
        if name not in self.content:
            raise MalformedNode(self._path, f"field {name} is missing")
        return self.content[name]

    def integer(self, name: str) -> int:
        value = self.value(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise MalformedNode(self._path, f"field {name} is no whole number")
        return value

    def text(self, name: str) -> str:
        value = self.value(name)
        if not isinstance(value, str):
            raise MalformedNode(self._path, f"field {name} is no text")
        return value

    def texts(self, name: str) -> list[str]:
        value = self.value(name)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise MalformedNode(self._path, f"field {name} is no list of texts")
        return [str(one) for one in value]

    def mapping(self, name: str) -> dict[str, Json]:
        value = self.value(name)
        if not isinstance(value, dict):
            raise MalformedNode(self._path, f"field {name} is no object")
        return value


def _integers(path: str, value: Json) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise MalformedNode(path, "a list of broker ids is missing")
    brokers = tuple(one for one in value if isinstance(one, int) and not isinstance(one, bool))
    if len(brokers) != len(value):
        raise MalformedNode(path, "a broker id is no whole number")
    return brokers


def _index(path: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise MalformedNode(path, f"{text!r} is no partition")
    return int(text)


def _encode(content: Mapping[str, Json]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
