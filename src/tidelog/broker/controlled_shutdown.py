"""Leaving without being missed: before a broker stops, it asks the controller to have its partitions led elsewhere.

Bounded in all: who stops a broker waits a few seconds, and what is not moved by then is elected anew when the registration ends.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tidelog.broker.node import Node
from tidelog.client.errors import ConnectionLost, UnsupportedApi
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.runtime.logs import fields
from tidelog.wire.messages.controlled_shutdown import ControlledShutdownRequest

logger = logging.getLogger(__name__)

WITHIN_MS: Final = 800.0
_PAUSE_MS_MAX: Final = 100.0


async def leave(node: Node) -> None:
    """Have our leaderships moved away, as far as others can take them, within the time there is."""
    config = node.config
    others = [broker_id for broker_id in node.metadata.image.brokers if broker_id != config.broker_id]
    if not config.controlled_shutdown_enable or not others:
        return
    deadline_ms = node.runtime.clock.monotonic_ms() + WITHIN_MS
    for _ in range(1 + config.controlled_shutdown_max_retries):
        left_ms = deadline_ms - node.runtime.clock.monotonic_ms()
        if left_ms <= 0:
            break
        if await _ask(node, left_ms):
            return
        await asyncio.sleep(min(config.controlled_shutdown_retry_backoff_ms, _PAUSE_MS_MAX, left_ms) / 1000)
    logger.warning("no controlled shutdown", extra=fields(broker_id=config.broker_id))


async def _ask(node: Node, timeout_ms: float) -> bool:
    """Whether nothing is left to be moved."""
    request = ControlledShutdownRequest(broker_id=node.config.broker_id, broker_epoch=node.broker_epoch())
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            response = await node.controller_line.controlled_shutdown(request, timeout_ms=timeout_ms)
    except (ConnectionLost, UnsupportedApi, ApiError, TimeoutError) as error:
        logger.warning("controlled shutdown not asked for", extra=fields(reason=error))
        return False
    if response.error_code is not ErrorCode.NONE:
        logger.warning("controlled shutdown refused", extra=fields(reason=response.error_code.name))
        return False
    remaining = [TopicPartition(one.topic_name, one.partition_index) for one in response.remaining_partitions]
    movable = [one for one in remaining if _has_successor(node, one)]
    logger.info("controlled shutdown", extra=fields(remaining_count=len(remaining), movable_count=len(movable)))
    return not movable


def _has_successor(node: Node, topic_partition: TopicPartition) -> bool:
    """Whether asking again may help: somebody else is in sync and lives."""
    state = node.metadata.image.state_of(topic_partition)
    own_id = node.config.broker_id
    return state is not None and any(one != own_id and node.metadata.is_live(one) for one in state.isr)
