"""Settings as clients are shown them: the value that holds, where it comes from, and what would hold without that."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.config.broker import BROKER_SETTINGS, BrokerConfig
from tidelog.config.dynamic import DYNAMIC_SETTINGS, ConfigLayers
from tidelog.config.kinds import ValueType
from tidelog.config.settings import Setting
from tidelog.config.topic import TOPIC_SETTINGS

_BROKER_FIELDS: Final = {row.name: field for field, row in BROKER_SETTINGS.items()}


class ConfigSource(enum.IntEnum):
    """Where a value comes from, as DescribeConfigs and CreateTopics number it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    """A value in one of the places it can come from, under the name it has there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """A setting of a topic or a broker as clients are shown it."""

    row: Setting
    synonyms: tuple[Synonym, ...]  # the first one holds
    is_read_only: bool = False

    @property
    def name(self) -> str:
        """What the setting is called."""
        return self.row.name

    @property
    def value(self) -> str | None:
        """The value that holds; a secret is not told."""
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        """Where the value comes from."""
        return self.synonyms[0].source

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a secret."""
        return self.row.value_type is ValueType.PASSWORD


def topic_settings(overrides: Mapping[str, str], layers: ConfigLayers) -> Iterator[EffectiveSetting]:
    """Every topic-level setting of a topic that has these overrides, by name."""
    for name, row in sorted(TOPIC_SETTINGS.items()):
        own = [Synonym(name, overrides[name], ConfigSource.TOPIC)] if name in overrides else []
        yield EffectiveSetting(row=row, synonyms=(*own, *_inherited(row, layers)))


def broker_settings(layers: ConfigLayers) -> Iterator[EffectiveSetting]:
    """Every setting of a broker, by name."""
    for row in sorted(BROKER_SETTINGS.values(), key=lambda row: row.name):
        synonyms = tuple(_synonyms(row, layers))
        yield EffectiveSetting(row=row, synonyms=synonyms, is_read_only=row.name not in DYNAMIC_SETTINGS)


def shared_settings(shared: Mapping[str, str]) -> Iterator[EffectiveSetting]:
    """What was altered for all brokers at once, and nothing else, by name."""
    for name, value in sorted(shared.items()):
        row = DYNAMIC_SETTINGS.get(name)
        if row is not None:
            default = Synonym(name, _rendered(row, row.parse(row.default)), ConfigSource.DEFAULT)
            altered = Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
            yield EffectiveSetting(row=row, synonyms=(_told(row, altered), default))


def _inherited(row: Setting, layers: ConfigLayers) -> Iterator[Synonym]:
    """What a topic-level setting has where the topic does not say."""
    if row.synonym is None:
        return iter([Synonym(row.name, _rendered(row, row.parse(row.default)), ConfigSource.DEFAULT)])
    return _synonyms(BROKER_SETTINGS[_BROKER_FIELDS[row.synonym]], layers)


def _synonyms(row: Setting, layers: ConfigLayers) -> Iterator[Synonym]:
    """The places of a broker setting, the strongest first."""
    is_dynamic = row.name in DYNAMIC_SETTINGS
    if is_dynamic and row.name in layers.own:
        yield _told(row, Synonym(row.name, layers.own[row.name], ConfigSource.DYNAMIC_BROKER))
    if is_dynamic and row.name in layers.shared:
        yield _told(row, Synonym(row.name, layers.shared[row.name], ConfigSource.DYNAMIC_DEFAULT_BROKER))
    static, default = _static_value(row, layers.static), _rendered(row, row.parse(row.default))
    if static != default:
        yield _told(row, Synonym(row.name, static, ConfigSource.STATIC_BROKER))
    yield _told(row, Synonym(row.name, default, ConfigSource.DEFAULT))


def _static_value(row: Setting, static: BrokerConfig) -> str:
    return _rendered(row, getattr(static, _BROKER_FIELDS[row.name]))


def _rendered(row: Setting, value: object) -> str:
    return row.kind.render(value)


def _told(row: Setting, synonym: Synonym) -> Synonym:
    return synonym._replace(value=None) if row.value_type is ValueType.PASSWORD else synonym
