"""Settings: Kafka's names and defaults, parsed once at the edge into frozen values; below it there are no strings."""

from tidelog.config.broker import (
    BROKER_SETTING_NAMES,
    BROKER_SETTINGS,
    GENERATED_BROKER_ID,
    BrokerConfig,
    without_effect,
)
from tidelog.config.dynamic import DYNAMIC_SETTINGS, ConfigLayers, NotDynamic, dynamic_setting
from tidelog.config.effective import (
    ConfigSource,
    EffectiveSetting,
    Synonym,
    broker_settings,
    shared_settings,
    topic_settings,
)
from tidelog.config.environment import Environment, UnknownVariable, from_environment
from tidelog.config.errors import ConfigError, UnknownSetting
from tidelog.config.kinds import ValueType
from tidelog.config.listeners import Listener, parse_listener, parse_listeners
from tidelog.config.properties import parse_properties
from tidelog.config.settings import Setting
from tidelog.config.topic import TOPIC_SETTINGS, LogConfig
from tidelog.config.unheeded import REFUSED, WITHOUT_EFFECT

__all__ = [
    "BROKER_SETTINGS",
    "BROKER_SETTING_NAMES",
    "DYNAMIC_SETTINGS",
    "GENERATED_BROKER_ID",
    "REFUSED",
    "TOPIC_SETTINGS",
    "WITHOUT_EFFECT",
    "BrokerConfig",
    "ConfigError",
    "ConfigLayers",
    "ConfigSource",
    "EffectiveSetting",
    "Environment",
    "Listener",
    "LogConfig",
    "NotDynamic",
    "Setting",
    "Synonym",
    "UnknownSetting",
    "UnknownVariable",
    "ValueType",
    "broker_settings",
    "dynamic_setting",
    "from_environment",
    "parse_listener",
    "parse_listeners",
    "parse_properties",
    "shared_settings",
    "topic_settings",
    "without_effect",
]
