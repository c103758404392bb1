"""One file per API, each opening with its versions and what each version added. `HANDLERS` is the only list of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import cast

from tidelog.broker.handlers import (
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
from tidelog.broker.handlers.forwarded import FORWARDED, forwarded
from tidelog.broker.node import Node
from tidelog.model import invariant
from tidelog.server import Handler
from tidelog.wire.api import API_TABLE, ApiKey


def handler_table(*modules: ModuleType) -> Mapping[ApiKey, ModuleType]:
    """The modules by API key; two for one key, or a key the wire does not know, refuse to start."""
    table = {module.API: module for module in modules}
    invariant(len(table) == len(modules), "one handler per API")
    invariant(set(table) == set(API_TABLE), "every API of the table has a handler, and no other")
    return table


HANDLERS = handler_table(
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


def bind_handlers(node: Node, listener: str) -> dict[ApiKey, Handler]:
    """The handlers of one node, ready for the dispatcher of a listener; what brokers alone may ask is on theirs only."""
    return {
        key: _bound(node, key, module)
        for key, module in HANDLERS.items()
        if node.is_inter_broker(listener) or not API_TABLE[key].is_broker_only
    }


def _bound(node: Node, key: ApiKey, module: ModuleType) -> Handler:
    return forwarded(node, key, module.handle) if key in FORWARDED else cast("Handler", partial(module.handle, node))
