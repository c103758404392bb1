"""What can have settings, as the admin APIs number it, and altering them for AlterConfigs and IncrementalAlterConfigs alike."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.broker.node import Node
from tidelog.controller import ALL_BROKERS, ConfigAlteration, ConfigChange, ConfigEntity
from tidelog.model import ApiError, BrokerId, ErrorCode


class ResourceType(enum.IntEnum):
    """Kafka's types of resources that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAlteration:
    """The changes of one resource as a client asked for them; or why they make no sense."""

    resource_type: int
    resource_name: str
    changes: tuple[ConfigChange, ...] | ApiError
    replaces_all: bool = False


async def alter(node: Node, asked: Sequence[AskedAlteration], *, validate_only: bool) -> list[ApiError | None]:
    """Let the controller decide about every resource named once; per resource, in order, why it is not altered."""
    counts = Counter((one.resource_type, one.resource_name) for one in asked)
    errors: list[ApiError | None] = []
    alterations: dict[int, ConfigAlteration] = {}
    for position, one in enumerate(asked):
        try:
            if counts[one.resource_type, one.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            alterations[position] = _alteration(node, one)
            errors.append(None)
        except ApiError as error:
            errors.append(error)
    decided = await node.controller.alter_configs(list(alterations.values()), validate_only=validate_only)
    for position, decision in zip(alterations, decided, strict=True):
        errors[position] = decision
    await node.configs.catch_up()
    return errors


def is_all_brokers(resource_name: str, broker_id: BrokerId) -> bool:
    """Whether the name of a broker stands for all of them, rather than for this one. Raises ApiError for any other."""
    if not resource_name:
        return True
    if not resource_name.removeprefix("-").isdecimal() or not resource_name.isascii():
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {resource_name}")
    if int(resource_name) != broker_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id} or empty string, but received {resource_name}",
        )
    return False


def unsupported(resource_type: int) -> ApiError:
    """The answer to a type of resource that has no settings here."""
    known = {kind.value: kind.name for kind in ResourceType}
    return ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {known.get(resource_type, resource_type)}")


def _alteration(node: Node, asked: AskedAlteration) -> ConfigAlteration:
    if isinstance(asked.changes, ApiError):
        raise asked.changes
    entity, name = ConfigEntity.TOPIC, asked.resource_name
    if asked.resource_type == ResourceType.BROKER:
        entity = ConfigEntity.BROKER
        name = _broker_entity(node, asked.resource_name)
    elif asked.resource_type != ResourceType.TOPIC:
        raise unsupported(asked.resource_type)
    return ConfigAlteration(entity=entity, name=name, changes=asked.changes, replaces_all=asked.replaces_all)


def _broker_entity(node: Node, resource_name: str) -> str:
    """The controller alters any broker that lives: whichever was asked has sent the request on."""
    broker_id = int(resource_name) if resource_name.isdecimal() and resource_name.isascii() else node.config.broker_id
    known = broker_id if node.metadata.is_live(broker_id) else node.config.broker_id
    return ALL_BROKERS if is_all_brokers(resource_name, known) else str(known)
