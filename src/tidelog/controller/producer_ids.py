"""Blocks of producer ids: any broker takes the next one for itself, by compare and set."""

from __future__ import annotations

from typing import Final

from tidelog.controller import layout
from tidelog.model import NO_PRODUCER_ID, ApiError, BrokerId, ErrorCode, ProducerId
from tidelog.registry import BadVersion, Registry

ATTEMPTS_MAX: Final = 10  # of a compare-and-set that others keep winning


async def allocate_block(registry: Registry, broker_id: BrokerId, above: ProducerId = NO_PRODUCER_ID) -> range:
    """A block that nobody else ever gets, of ids above one that is known to be in use. Raises ApiError, RegistryError, RegistryUnavailable."""
    for _ in range(ATTEMPTS_MAX):
        node = await registry.get(layout.PRODUCER_ID_BLOCK)
        start = max(layout.next_producer_id(node), above + 1)
        block = range(start, start + layout.PRODUCER_ID_BLOCK_SIZE)
        if block.stop > layout.PRODUCER_ID_MAX:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been handed out")
        content = layout.encode_producer_id_block(broker_id, block)
        try:
            await registry.set(layout.PRODUCER_ID_BLOCK, content, version=node.version)
        except BadVersion:
            continue
        return block
    raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "other brokers were quicker")
