"""The API table: the only list of what exists. Dispatch, ApiVersions and docs/protocol_support.md are read from it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange
from tidelog.wire.messages import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

__all__ = ["API_TABLE", "Api", "ApiKey", "Request", "Response", "VersionRange", "advertised_versions", "api_of"]

_ROWS: Final = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    find_coordinator.API,
    api_versions.API,
    create_topics.API,
    delete_topics.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    describe_configs.API,
    alter_configs.API,
    describe_log_dirs.API,
    create_partitions.API,
    incremental_alter_configs.API,
    describe_cluster.API,
    describe_producers.API,
    list_config_resources.API,
    describe_topic_partitions.API,
)

API_TABLE: Final[Mapping[ApiKey, Api]] = MappingProxyType({row.key: row for row in _ROWS})
"""Every API that this software speaks, as broker and as client, in the order of the keys."""

_BY_REQUEST: Final = {row.request: row for row in _ROWS}


def api_of(request: Request[Response]) -> Api:
    """The row of the API that a request belongs to."""
    return _BY_REQUEST[type(request)]


def advertised_versions(table: Mapping[ApiKey, Api] = API_TABLE) -> tuple[api_versions.ApiVersion, ...]:
    """The APIs of `table` as ApiVersions lists them."""
    return tuple(
        api_versions.ApiVersion(api_key=row.key, min_version=row.advertised.low, max_version=row.advertised.high)
        for row in table.values()
    )
