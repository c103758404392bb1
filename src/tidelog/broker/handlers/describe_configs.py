"""DescribeConfigs, versions 1 to 4.

Behaviour: the settings of topics and of this broker with their value, where it comes from (1 topic, 2 broker, 3 all brokers, 4 the broker's
start, 5 default), whether it can be altered, and on demand what would hold without it and what it means. Names that do not exist are left
out, as Kafka does. The broker with the empty name stands for what was altered for all of them. Secrets are never told.

UNKNOWN_TOPIC_OR_PARTITION for a topic that is not there, INVALID_TOPIC_EXCEPTION for one that cannot be, INVALID_REQUEST for another broker
and for types of resources that have no settings.

v1: sources and synonyms (KIP-226).  v2: throttling moves to the client (KIP-219).  v3: types and documentation (KIP-569).  v4: flexible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from tidelog.broker.handlers.config_resources import ResourceType, is_all_brokers, unsupported
from tidelog.broker.node import Node
from tidelog.config import EffectiveSetting, broker_settings, shared_settings, topic_settings
from tidelog.controller import check_name
from tidelog.model import ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

API = ApiKey.DESCRIBE_CONFIGS


_RESOURCES_PER_SLICE: Final = 20  # described without letting others run


async def handle(node: Node, context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe every resource by itself."""
    results = []
    for position, resource in enumerate(request.resources, 1):
        results.append(_describe(node, request, resource))
        if position % _RESOURCES_PER_SLICE == 0:
            await asyncio.sleep(0)
    return DescribeConfigsResponse(results=tuple(results))


def _describe(node: Node, request: DescribeConfigsRequest, asked: DescribeConfigsResource) -> DescribeConfigsResult:
    names = frozenset(asked.configuration_keys or ())
    try:
        settings = [one for one in _settings(node, asked) if not names or one.name in names]
    except ApiError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=error.message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=tuple(_told(setting, request) for setting in settings),
    )


def _settings(node: Node, asked: DescribeConfigsResource) -> Iterator[EffectiveSetting]:
    layers = node.live_config.layers
    if asked.resource_type == ResourceType.TOPIC:
        check_name(asked.resource_name)
        topic = node.metadata.topic(asked.resource_name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_settings(topic.configs, layers)
    if asked.resource_type == ResourceType.BROKER:
        if is_all_brokers(asked.resource_name, node.config.broker_id):
            return shared_settings(layers.shared)
        return broker_settings(layers)
    raise unsupported(asked.resource_type)


def _told(setting: EffectiveSetting, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = setting.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.value,
        read_only=setting.is_read_only,
        config_source=setting.source,
        is_sensitive=setting.is_sensitive,
        synonyms=tuple(DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in synonyms),
        config_type=setting.row.value_type,
        documentation=setting.row.doc if request.include_documentation else None,
    )
