"""Settings of a broker that change while it runs: what an operator altered lies, in layers, over what the broker was started with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.config.broker import BROKER_SETTING_NAMES, BROKER_SETTINGS, BrokerConfig
from tidelog.config.errors import UnknownSetting
from tidelog.config.settings import Setting
from tidelog.config.unheeded import REFUSED, WITHOUT_EFFECT

_DYNAMIC_FIELDS: Final[Mapping[str, str]] = {
    row.name: name for name, row in BROKER_SETTINGS.items() if row.dynamic and row.unheeded is None
}
DYNAMIC_SETTINGS: Final[Mapping[str, Setting]] = {
    name: BROKER_SETTINGS[field_name] for name, field_name in _DYNAMIC_FIELDS.items()
}
"""The broker settings that take effect without a restart, by name."""


class NotDynamic(Exception):
    """The setting exists, but a broker reads it only when it starts."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Cannot update these configs dynamically: {name}")
        self.name = name


def dynamic_setting(name: str) -> Setting:
    """The setting of this name, if it can change without a restart. Raises NotDynamic, UnknownSetting."""
    row = DYNAMIC_SETTINGS.get(name)
    if row is not None:
        return row
    if name in BROKER_SETTING_NAMES or name in WITHOUT_EFFECT or name in REFUSED:
        raise NotDynamic(name)
    raise UnknownSetting.among(name, DYNAMIC_SETTINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLayers:
    """Where the settings of one broker come from, the first that knows a name wins: its own alterations, those for all brokers, its start.

    Names that are not dynamic are passed over: other tools than ours may have written them.
    """

    static: BrokerConfig
    own: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)

    def merged(self) -> BrokerConfig:
        """The settings that hold. Raises ConfigError for an alteration that cannot be read."""
        altered = {
            _DYNAMIC_FIELDS[name]: DYNAMIC_SETTINGS[name].parse(value)
            for name, value in {**self.shared, **self.own}.items()
            if name in _DYNAMIC_FIELDS
        }
        # `setting` ties each row's kind to its field's type.
        return dataclasses.replace(self.static, **altered) if altered else self.static  # type: ignore[arg-type]
