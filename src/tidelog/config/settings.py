"""A setting: its name, kind, default and meaning, declared once beside the field that holds its value.

`setting(...)` stands where a dataclass default would stand; the type checker sees the type of its kind, the dataclass
gets the parsed default, and `settings_of` collects the table from which parsing, the answers to DescribeConfigs and
CreateTopics, and the documentation are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, TypeVar, cast

from tidelog.config.errors import ConfigError, UnknownSetting
from tidelog.config.kinds import Kind, ValueType
from tidelog.model import invariant

T = TypeVar("T")

_METADATA_KEY: Final = "setting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """Another name for a setting, heeded where the names before it are absent; `unit_ms` scales hours or minutes."""

    name: str
    kind: Kind[int] | Kind[int | None] | Kind[tuple[str, ...]]
    unit_ms: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table."""

    name: str
    kind: Kind[object]
    default: str
    doc: str
    read_by: str | None  # the module that acts on it, as `room.module`
    dynamic: bool  # whether it can change without a restart
    unheeded: str | None = None  # or why no module does
    aliases: tuple[Alias, ...] = ()
    synonym: str | None = None  # the broker setting a topic-level one falls back to

    @property
    def value_type(self) -> ValueType:
        """The type DescribeConfigs reports."""
        return self.kind.value_type

    def parse(self, text: str) -> object:
        """Read the setting's text, or raise ConfigError."""
        return _parse(self.name, self.kind, text)

    def read(self, properties: Mapping[str, str]) -> object:
        """The value of the first of the setting's names that is given, else the default."""
        if self.name in properties:
            return self.parse(properties[self.name])
        for alias in self.aliases:
            if alias.name in properties:
                value = _parse(alias.name, cast("Kind[object]", alias.kind), properties[alias.name])
                return value * alias.unit_ms if isinstance(value, int) else value
        return self.parse(self.default)


class HasFields(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[object]]]


def setting(  # a row has as many columns
    name: str,
    kind: Kind[T],
    default: str,
    doc: str,
    *,
    read_by: str | None = None,
    unheeded: str | None = None,
    dynamic: bool = False,
    aliases: tuple[Alias, ...] = (),
) -> T:
    """Declare a dataclass field as a setting: either the module that acts on it is named, or the reason why none does."""
    invariant((read_by is None) != (unheeded is None), f"{name} is either read or not")
    row = Setting(
        name=name,
        kind=cast("Kind[object]", kind),
        default=default,
        doc=doc,
        read_by=read_by,
        unheeded=unheeded,
        dynamic=dynamic,
        aliases=aliases,
    )
    return declared(row, kind.parse(default))


def declared(row: Setting, default: T) -> T:
    """Declare a dataclass field from a finished row."""
    # The field replaces itself by its default when the dataclass is built; typeshed, too, gives it the default's type.
    return dataclasses.field(default=default, metadata={_METADATA_KEY: row})


def settings_of(cls: type[HasFields]) -> dict[str, Setting]:
    """The table of a dataclass: field name -> setting, in order of declaration."""
    return {
        name: field.metadata[_METADATA_KEY]
        for name, field in cls.__dataclass_fields__.items()
        if _METADATA_KEY in field.metadata
    }


def check_names(given: Mapping[str, str], known: Callable[[str], bool], names: list[str]) -> None:
    """Raise UnknownSetting for the first given name that nobody knows."""
    for name in given:
        if not known(name):
            raise UnknownSetting.among(name, names)


def _parse(name: str, kind: Kind[object], text: str) -> object:
    try:
        return kind.parse(text.strip())
    except ValueError:
        raise ConfigError(name, text, kind.accepted) from None
