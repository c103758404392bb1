"""What a user of the source or the sink can set: Spark's options, read once into frozen values, or refused with a sentence.

An option is declared as the field of a frozen dataclass with `tidelog.config.settings.setting`, under the name its documentation uses;
Spark hands over names in lower case. Options `kafka.*` are settings of the client.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from tidelog.client.config import ClientConfig
from tidelog.config import ConfigError, UnknownSetting
from tidelog.config.kinds import Kind
from tidelog.config.settings import HasFields, settings_of

T = TypeVar("T")
OptionsT = TypeVar("OptionsT", bound=HasFields)
ConfigT = TypeVar("ConfigT", bound=ClientConfig)

KAFKA_PREFIX: Final = "kafka."

_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname", "path", "outputmode", "mergeschema"})
"""What Spark itself, or a user of Spark, puts beside a format's options."""

_SECURITY: Final = ("security.", "ssl.", "sasl.")
_PLAINTEXT: Final = ("security.protocol", "PLAINTEXT")

_HARMLESS: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
    }
)
"""Settings of Kafka's clients that a job may bring along: here they would change nothing that anybody sees."""


class OptionRefused(Exception):
    """An option cannot be used; the message names it, what is wrong, and what is accepted."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Option {name}: {reason}")
        self.name = name
        self.reason = reason


class UnknownOption(OptionRefused):
    """No option has this name; `did_you_mean` is the nearest one that exists, if any is near."""

    def __init__(self, name: str, known: Iterable[str], format_name: str = "tidelog") -> None:
        canonical = {each.lower(): each for each in known}
        near = difflib.get_close_matches(name.lower(), sorted(canonical), n=1, cutoff=0.7)
        self.did_you_mean = canonical[near[0]] if near else None
        advice = f"; did you mean {self.did_you_mean}?" if near else f"; there are {', '.join(canonical.values())}"
        super().__init__(name, f"the format {format_name} has no such option{advice}")


def optional(kind: Kind[T]) -> Kind[T | None]:
    """The same kind of value, or none where the option is not given (its default is then the empty text)."""
    return Kind(
        value_type=kind.value_type,
        accepted=kind.accepted,
        parse=lambda text: kind.parse(text) if text else None,
        render=lambda value: "" if value is None else kind.render(value),
    )


def read_options(
    kind: type[OptionsT],
    options: Mapping[str, str],
    *,
    format_name: str = "tidelog",
    also: Iterable[str] = ("kafka.bootstrap.servers",),
    prefixes: tuple[str, ...] = (KAFKA_PREFIX,),
) -> OptionsT:
    """The options that `kind` declares. Raises UnknownOption for any other, and OptionRefused for a value that cannot be used.

    Options of Spark, and those that begin with one of `prefixes` (the client's), are not looked at. `also` is named beside the others.
    """
    table = settings_of(kind)
    canonical = {row.name.lower(): row.name for row in table.values()}
    given = {name.lower(): value for name, value in options.items()}
    own = {name: value for name, value in given.items() if name not in _SPARKS_OWN and not name.startswith(prefixes)}
    for name in own:
        if name not in canonical:
            raise UnknownOption(name, [*canonical.values(), *also], format_name)
    properties = {canonical[name]: value for name, value in own.items()}
    try:
        values = {field: row.read(properties) for field, row in table.items()}
        return kind(**values)
    except ConfigError as error:
        raise OptionRefused(error.name, f"{error.value!r} is not accepted, but {error.accepted} is") from None


def client_properties(
    options: Mapping[str, str], *, refused: Mapping[str, str] | None = None, ignored: Iterable[str] = ()
) -> dict[str, str]:
    """The client's settings among the options, without their prefix `kafka.`; whether they are settings is not looked at.

    `refused` names settings that make no sense here, each with the reason; `ignored` those that change nothing, which are left out.
    Raises OptionRefused, also for anything that asks for security, and where no broker is named.
    """
    given = {name.lower(): value for name, value in options.items()}
    names = [name for name in given if name.startswith(KAFKA_PREFIX)]
    asked = {name.removeprefix(KAFKA_PREFIX): given[name].strip() for name in names}
    _check_bootstrap(asked)
    _check_security(asked)
    for name, reason in (refused or {}).items():
        if name in asked:
            raise OptionRefused(f"{KAFKA_PREFIX}{name}", reason)
    unheeded = {*_HARMLESS, *ignored, _PLAINTEXT[0]}
    return {name: value for name, value in asked.items() if name not in unheeded}


def client_config(kind: type[ConfigT], properties: Mapping[str, str]) -> ConfigT:
    """What `client_properties` found as the settings of one kind of client. Raises OptionRefused, under the names of the options."""
    try:
        return kind.from_properties(properties)
    except UnknownSetting as error:
        known = [f"{KAFKA_PREFIX}{row.name}" for row in settings_of(kind).values()]
        raise UnknownOption(f"{KAFKA_PREFIX}{error.name}", known) from None
    except ConfigError as error:
        refusal = f"{error.value!r} is not accepted, but {error.accepted} is"
        raise OptionRefused(f"{KAFKA_PREFIX}{error.name}", refusal) from None


def _check_bootstrap(asked: Mapping[str, str]) -> None:
    if not asked.get("bootstrap.servers"):
        raise OptionRefused("kafka.bootstrap.servers", "it must name one broker or several, as host:port,host:port")


def _check_security(asked: Mapping[str, str]) -> None:
    for name, value in asked.items():
        is_plain = (name, value.upper()) == _PLAINTEXT
        if name.startswith(_SECURITY) and not is_plain:
            raise OptionRefused(
                f"{KAFKA_PREFIX}{name}",
                "tidelog speaks to brokers without encryption and without authentication so far: leave it out, or set "
                "kafka.security.protocol to PLAINTEXT and name a listener of that kind in kafka.bootstrap.servers",
            )
