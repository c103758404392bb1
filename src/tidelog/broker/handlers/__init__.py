"""One file per API, each opening with its versions and what each version added. `HANDLERS` is the only list of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import cast

from tidelog.broker.handlers import (
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
from tidelog.broker.node import Node
from tidelog.model import invariant
from tidelog.server import Handler
from tidelog.wire.api import API_TABLE, ApiKey


def handler_table(*modules: ModuleType) -> Mapping[ApiKey, ModuleType]:
    """The modules by API key; two for one key, or a key the wire does not know, refuse to start."""
    table = {module.API: module for module in modules}
    invariant(len(table) == len(modules), "one handler per API")
    invariant(set(table) <= set(API_TABLE), "every handler serves an API of the table")
    return table


HANDLERS = handler_table(
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


def bind_handlers(node: Node) -> dict[ApiKey, Handler]:
    """The handlers of one node, ready for its dispatcher."""
    return {key: cast("Handler", partial(module.handle, node)) for key, module in HANDLERS.items()}
