"""docs/protocol_support.md, written from the API table so that it cannot drift from what is served."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.wire.definition import Api, ApiKey

_INTRODUCTION = """\
# Protocol support

Generated from the API table (`src/tidelog/wire/api.py`); do not edit.

A broker serves the APIs below in the versions that Apache Kafka 4.3 advertises, classic and flexible. A request of any
other key or version ends the connection, except ApiVersions, which is then answered in version 0 with the range that
is served (KIP-511).

What is advertised to brokers only is served on the inter-broker listener alone, in the last versions that Apache Kafka
had with ZooKeeper (3.9), or in those of 4.3 where it still has them. DescribeReplicas and CountVisibleRecords are not of
Kafka's protocol; they are served to those who ask for them and never advertised.
"""


def protocol_support_markdown(api_table: Mapping[ApiKey, Api]) -> str:
    """The whole page: one table of APIs, then what each version of each API added."""
    rows = sorted(api_table.values(), key=lambda api: api.key)
    lines = [
        _INTRODUCTION,
        "| key | API | advertised | served | flexible from |",
        "|---:|---|---|---|---|",
        *(
            f"| {int(api.key)} | [{api.name}](#{api.name.lower()}) | {_advertised(api)} | {api.served}"
            f" | {'never' if api.flexible_from is None else api.flexible_from} |"
            for api in rows
        ),
    ]
    for api in rows:
        lines += ["", f"## {api.name}", "", *_version_list(api)]
    return "\n".join(lines) + "\n"


def _advertised(api: Api) -> str:
    if api.is_private:
        return "never"
    return "brokers only" if api.is_broker_only else str(api.advertised)


def _version_list(api: Api) -> list[str]:
    described = [version for version in api.served if version in api.changes]
    return [f"- v{version}: {api.changes[version]}" for version in described] or ["One version."]
