"""Settings: Kafka's names and defaults, parsed once at the edge into frozen values; below it there are no strings."""

from tidelog.config.broker import BROKER_SETTINGS, GENERATED_BROKER_ID, WITHOUT_EFFECT, BrokerConfig, without_effect
from tidelog.config.errors import ConfigError, UnknownSetting
from tidelog.config.kinds import ValueType
from tidelog.config.listeners import Listener, parse_listener, parse_listeners
from tidelog.config.properties import parse_properties
from tidelog.config.settings import Setting
from tidelog.config.topic import TOPIC_SETTINGS, ConfigSource, EffectiveSetting, LogConfig, effective_settings

__all__ = [
    "BROKER_SETTINGS",
    "GENERATED_BROKER_ID",
    "TOPIC_SETTINGS",
    "WITHOUT_EFFECT",
    "BrokerConfig",
    "ConfigError",
    "ConfigSource",
    "EffectiveSetting",
    "Listener",
    "LogConfig",
    "Setting",
    "UnknownSetting",
    "ValueType",
    "effective_settings",
    "parse_listener",
    "parse_listeners",
    "parse_properties",
    "without_effect",
]
