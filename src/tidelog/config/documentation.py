"""docs/configuration.md, written from the tables of settings so that it cannot drift from what is parsed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from tidelog.config.broker import BROKER_SETTINGS
from tidelog.config.settings import Setting
from tidelog.config.topic import TOPIC_SETTINGS
from tidelog.config.unheeded import REFUSED, WITHOUT_EFFECT

_INTRODUCTION = """\
# Configuration

Generated from the tables of settings (`src/tidelog/config`); do not edit.

Names, types and defaults are Apache Kafka's; names that begin with `tidelog.` are ours. A setting is given in a file in the
syntax of `server.properties`, in the environment, or on the command line; the later wins over the earlier:

```console
$ tidelog broker --config server.properties
$ KAFKA_NUM_PARTITIONS=6 tidelog broker --config server.properties
$ tidelog broker --config server.properties -X num.partitions=6
```

In the environment `num.partitions` is `KAFKA_NUM_PARTITIONS`: capitals, `_` for a dot, `__` for an underscore, `___` for a dash.
A name that does not exist is refused with the nearest one that does; a value that cannot be used, with what can.

Each row names the module below `src/tidelog` that acts on the setting, and a test fails when it does not. *Dynamic* ones can
change while the broker runs. Those at the end are accepted and not acted on: the broker says so in its log when one is set.
"""

_TOPIC_INTRODUCTION = """\
Given when a topic is created or later (`tidelog configs alter`); where a topic does not say, the broker's setting in the second
column holds.
"""

_REFUSED_INTRODUCTION = """\
These protect a broker. This one cannot do what they ask for, so it does not start rather than start unprotected.
"""


def configuration_markdown() -> str:
    """The whole page."""
    heeded = [row for row in BROKER_SETTINGS.values() if row.unheeded is None]
    unheeded = {row.name: row.unheeded for row in BROKER_SETTINGS.values() if row.unheeded is not None}
    topic_rows = sorted(TOPIC_SETTINGS.values(), key=lambda row: row.name)
    lines = [
        _INTRODUCTION,
        "## Broker settings",
        "",
        "| name | type | default | dynamic | meaning | read by |",
        "|---|---|---|---|---|---|",
        *(_broker_line(row) for row in heeded),
        "",
        "## Topic settings",
        "",
        _TOPIC_INTRODUCTION,
        "| name | broker's name | type | default | meaning | read by |",
        "|---|---|---|---|---|---|",
        *(_topic_line(row) for row in topic_rows),
        "",
        "## Accepted and not acted on",
        "",
        *_grouped({**unheeded, **WITHOUT_EFFECT}),
        "",
        "## Refused",
        "",
        _REFUSED_INTRODUCTION,
        *_grouped(REFUSED),
    ]
    return "\n".join(lines) + "\n"


def _broker_line(row: Setting) -> str:
    others = "".join(f"<br>also `{alias.name}`" for alias in row.aliases)
    cells = (
        f"`{row.name}`{others}",
        _type(row),
        _code(row.default),
        "yes" if row.dynamic else "",
        row.doc,
        _code(row.read_by),
    )
    return _line(cells)


def _topic_line(row: Setting) -> str:
    acted_on = "not acted on" if row.read_by is None else _code(row.read_by)
    return _line((f"`{row.name}`", _code(row.synonym), _type(row), _code(row.default), row.doc, acted_on))


def _type(row: Setting) -> str:
    return row.value_type.name.lower()


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _grouped(reasons: Mapping[str, str]) -> list[str]:
    """One item per reason, with all the names it is true of."""
    ordered = sorted(reasons.items(), key=lambda item: (item[1], item[0]))
    return [
        f"- {reason[0].upper()}{reason[1:]}: " + ", ".join(f"`{name}`" for name, _ in group) + "."
        for reason, group in groupby(ordered, key=lambda item: item[1])
    ]
