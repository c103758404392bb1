"""Altering the settings of topics and brokers: what the settings are afterwards, or why not. All changes of a resource hold, or none.

Kafka's errors: INVALID_CONFIG for what a topic cannot have, INVALID_REQUEST for what cannot be asked, and for brokers for both.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelog.config import (
    TOPIC_SETTINGS,
    BrokerConfig,
    ConfigError,
    ConfigLayers,
    LogConfig,
    NotDynamic,
    Setting,
    UnknownSetting,
    ValueType,
    broker_settings,
    dynamic_setting,
    topic_settings,
)
from tidelog.controller.image import ALL_BROKERS, ClusterImage, TopicImage
from tidelog.controller.topics import check_name
from tidelog.model import ApiError, ErrorCode


class ConfigOperation(enum.IntEnum):
    """What to do with one setting, as IncrementalAlterConfigs numbers it."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEntity(enum.Enum):
    """What has settings."""

    TOPIC = "topics"
    BROKER = "brokers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One setting to change; only a deletion needs no value."""

    name: str
    operation: ConfigOperation
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAlteration:
    """The changes of one topic, of one broker, or of ALL_BROKERS; with `replaces_all`, what is not named goes."""

    entity: ConfigEntity
    name: str
    changes: tuple[ConfigChange, ...]
    replaces_all: bool = False


def altered_topic(image: ClusterImage, alteration: ConfigAlteration, layers: ConfigLayers) -> dict[str, str]:
    """The settings of a topic after the alteration. Raises ApiError."""
    topic = _topic(image, alteration.name)
    _check_changes(alteration)

    def effective(name: str) -> str | None:
        return next(one.value for one in topic_settings(topic.configs, layers) if one.name == name)

    try:
        configs = _applied(alteration, topic.configs, _topic_row, effective)
        LogConfig.from_properties(configs, layers.merged())
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return configs


def altered_broker(image: ClusterImage, alteration: ConfigAlteration, static: BrokerConfig) -> dict[str, str]:
    """The altered settings of a broker, or of all of them, after the alteration. Raises ApiError."""
    _check_changes(alteration)
    known = image.broker_configs.get(alteration.name, {})

    def effective(name: str) -> str | None:
        return next(one.value for one in broker_settings(image.layers_of(static)) if one.name == name)

    try:
        configs = _applied(alteration, known, dynamic_setting, effective)
        _check_broker(image.with_broker_configs(alteration.name, configs), configs, static)
    except UnknownSetting as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    except (ConfigError, NotDynamic) as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
    return configs


def _topic(image: ClusterImage, name: str) -> TopicImage:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(name)
    topic = image.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic


def _topic_row(name: str) -> Setting:
    row = TOPIC_SETTINGS.get(name)
    if row is None:
        raise UnknownSetting.among(name, TOPIC_SETTINGS)
    return row


def _check_changes(alteration: ConfigAlteration) -> None:
    names = [change.name for change in alteration.changes]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        change.name
        for change in alteration.changes
        if change.value is None and change.operation is not ConfigOperation.DELETE
    ]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(sorted(nulls))}")


def _applied(
    alteration: ConfigAlteration,
    known: Mapping[str, str],
    row_of: Callable[[str], Setting],
    effective: Callable[[str], str | None],
) -> dict[str, str]:
    configs = {} if alteration.replaces_all else dict(known)
    for change in alteration.changes:
        if change.operation is ConfigOperation.DELETE and change.name in configs:
            del configs[change.name]
            continue
        row = row_of(change.name)
        match change.operation:
            case ConfigOperation.SET:
                configs[row.name] = change.value or ""
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                before = configs[row.name] if row.name in configs else effective(row.name) or ""
                configs[row.name] = _changed_list(row, change, before)
            case ConfigOperation.DELETE:
                pass  # it is not set, which is what was wanted
    return configs


def _changed_list(row: Setting, change: ConfigChange, before: str) -> str:
    is_append = change.operation is ConfigOperation.APPEND
    if row.value_type is not ValueType.LIST:
        verb = "APPEND to" if is_append else "SUBTRACT from"
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Can't {verb} key {row.name} because its type is not LIST.")
    parts = [part.strip() for part in before.split(",") if part.strip()]
    named = [part.strip() for part in (change.value or "").split(",") if part.strip()]
    if is_append:
        return ",".join(dict.fromkeys([*parts, *named]))
    return ",".join(part for part in parts if part not in named)


def _check_broker(image: ClusterImage, configs: Mapping[str, str], static: BrokerConfig) -> None:
    """The settings can be read, and no topic becomes impossible under them. Raises ConfigError."""
    own = {} if static.broker_id < 0 else image.broker_configs.get(str(static.broker_id), {})
    ConfigLayers(static=static, shared=configs).merged()
    merged = ConfigLayers(static=static, own=own, shared=image.broker_configs.get(ALL_BROKERS, {})).merged()
    overrides = {tuple(sorted(topic.configs.items())) for topic in image.topics.values()}
    for some in {(), *overrides}:
        LogConfig.from_properties(dict(some), merged)
