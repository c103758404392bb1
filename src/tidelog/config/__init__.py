"""Settings: Kafka's names and defaults, parsed once at the edge into frozen values; below it there are no strings."""

from tidelog.config.broker import (
    BROKER_SETTING_NAMES,
    BROKER_SETTINGS,
    GENERATED_BROKER_ID,
    BrokerConfig,
    without_effect,
)
from tidelog.config.environment import Environment, UnknownVariable, from_environment
from tidelog.config.errors import ConfigError, UnknownSetting
from tidelog.config.kinds import ValueType
from tidelog.config.listeners import Listener, parse_listener, parse_listeners
from tidelog.config.properties import parse_properties
from tidelog.config.settings import Setting
from tidelog.config.topic import TOPIC_SETTINGS, ConfigSource, EffectiveSetting, LogConfig, effective_settings
from tidelog.config.unheeded import REFUSED, WITHOUT_EFFECT

__all__ = [
    "BROKER_SETTINGS",
    "BROKER_SETTING_NAMES",
    "GENERATED_BROKER_ID",
    "REFUSED",
    "TOPIC_SETTINGS",
    "WITHOUT_EFFECT",
    "BrokerConfig",
    "ConfigError",
    "ConfigSource",
    "EffectiveSetting",
    "Environment",
    "Listener",
    "LogConfig",
    "Setting",
    "UnknownSetting",
    "UnknownVariable",
    "ValueType",
    "effective_settings",
    "from_environment",
    "parse_listener",
    "parse_listeners",
    "parse_properties",
    "without_effect",
]
