"""The API table: the only list of what exists. Dispatch, ApiVersions and docs/protocol_support.md are read from it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange
from tidelog.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    count_visible_records,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_replicas,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    inject_faults,
    join_group,
    leader_and_isr,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_metadata,
    write_txn_markers,
)

__all__ = ["API_TABLE", "Api", "ApiKey", "Request", "Response", "VersionRange", "advertised_versions", "api_of"]

_ROWS: Final = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    leader_and_isr.API,
    stop_replica.API,
    update_metadata.API,
    controlled_shutdown.API,
    offset_commit.API,
    offset_fetch.API,
    find_coordinator.API,
    join_group.API,
    heartbeat.API,
    leave_group.API,
    sync_group.API,
    describe_groups.API,
    list_groups.API,
    api_versions.API,
    create_topics.API,
    delete_topics.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    add_partitions_to_txn.API,
    add_offsets_to_txn.API,
    end_txn.API,
    write_txn_markers.API,
    txn_offset_commit.API,
    describe_configs.API,
    alter_configs.API,
    describe_log_dirs.API,
    create_partitions.API,
    delete_groups.API,
    elect_leaders.API,
    incremental_alter_configs.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    offset_delete.API,
    alter_partition.API,
    describe_cluster.API,
    describe_producers.API,
    describe_transactions.API,
    list_transactions.API,
    consumer_group_heartbeat.API,
    consumer_group_describe.API,
    list_config_resources.API,
    describe_topic_partitions.API,
    describe_replicas.API,
    count_visible_records.API,
    inject_faults.API,
)

API_TABLE: Final[Mapping[ApiKey, Api]] = MappingProxyType({row.key: row for row in _ROWS})
"""Every API that this software speaks, as broker and as client, in the order of the keys."""

_BY_REQUEST: Final = {row.request: row for row in _ROWS}


def api_of(request: Request[Response]) -> Api:
    """The row of the API that a request belongs to."""
    return _BY_REQUEST[type(request)]


def advertised_versions(
    table: Mapping[ApiKey, Api] = API_TABLE, *, with_broker_only: bool = False
) -> tuple[api_versions.ApiVersion, ...]:
    """The APIs of `table` as ApiVersions lists them: what is only for brokers on their own listener, what is private nowhere."""
    return tuple(
        api_versions.ApiVersion(api_key=row.key, min_version=row.advertised.low, max_version=row.advertised.high)
        for row in table.values()
        if not row.is_private and (with_broker_only or not row.is_broker_only)
    )
