"""Settings from environment variables, by the rule of Kafka's container images.

`KAFKA_` and a setting's name in capitals, `_` for a dot, `__` for an underscore, `___` for a dash:
KAFKA_LOG_RETENTION_HOURS=24 is log.retention.hours=24. The same prefix carries things that are no settings (the JVM's
options, the variables Kubernetes makes for a service called kafka); those are passed over. Anything else is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.config.errors import UnknownSetting

PREFIX: Final = "KAFKA_"

_UNDERSCORES: Final = re.compile("_{1,3}")
_MEANT_BY: Final = {"_": ".", "__": "_", "___": "-"}
_FOR_OTHERS: Final = (
    (re.compile(r"KAFKA_(HEAP|GC_LOG|JVM_PERFORMANCE|LOG4J|JMX|DEBUG)?_?OPTS"), "there is no JVM"),
    (re.compile(r"KAFKA_(JMX_\w+|DEBUG|CLASSPATH|GC_LOG_\w+)"), "there is no JVM"),
    (re.compile(r"KAFKA_(TOOLS_)?LOG4J_\w+"), "the log is set up by --log-file and --log-format"),
    (re.compile(r"KAFKA_(HOME|VERSION|SCALA_VERSION|MODE|BASE|CONFIG|CLUSTER_ID)"), "it tells an image about itself"),
    (re.compile(r"KAFKA_SERVICE_(HOST|PORT\w*)|KAFKA_PORT(_\d+_TCP(_ADDR|_PORT|_PROTO)?)?"), "Kubernetes made it"),
)


class UnknownVariable(UnknownSetting):
    """A variable with the prefix names no setting; `did_you_mean` is the nearest variable that would."""

    def __init__(self, variable: str, nearest: str | None) -> None:
        super().__init__(name_of(variable), nearest)
        advice = "" if nearest is None else f" (did you mean {variable_of(nearest)}?)"
        self.args = (f"Unknown environment variable {variable}: there is no configuration {self.name!r}{advice}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the environment says."""

    properties: Mapping[str, str]
    passed_over: Mapping[str, str]  # variable -> why it is none of our business


def from_environment(variables: Mapping[str, str], known: frozenset[str]) -> Environment:
    """The settings among the variables. Raises UnknownVariable for the first that has the prefix and no meaning."""
    properties, passed_over = {}, {}
    for variable, value in sorted(variables.items()):
        if not variable.startswith(PREFIX):
            continue
        if (name := name_of(variable)) in known:
            properties[name] = value
        elif (reason := _for_others(variable)) is not None:
            passed_over[variable] = reason
        else:
            raise UnknownVariable(variable, UnknownSetting.among(name, known).did_you_mean)
    return Environment(properties=properties, passed_over=passed_over)


def name_of(variable: str) -> str:
    """The setting a variable stands for."""
    return _UNDERSCORES.sub(lambda found: _MEANT_BY[found[0]], variable.removeprefix(PREFIX)).lower()


def variable_of(name: str) -> str:
    """The variable that stands for a setting."""
    return PREFIX + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _for_others(variable: str) -> str | None:
    return next((reason for pattern, reason in _FOR_OTHERS if pattern.fullmatch(variable)), None)
