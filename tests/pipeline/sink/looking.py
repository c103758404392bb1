"""What tests of the sink look at beside the records: groups and their offsets, lag, and transactions that are open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tidelog.client import Admin, ClientConfig, Consumer, ConsumerConfig, TransactionListing
from tidelog.client.bridge import Bridge
from tidelog.model import ErrorCode, Offset, TopicPartition
from tidelog.runtime.real import real_runtime

T = TypeVar("T")


def committed(bootstrap: str, group: str) -> dict[TopicPartition, Offset]:
    """What a group has committed; nothing where there is no such group."""

    async def look(admin: Admin) -> dict[TopicPartition, Offset]:
        found = (await admin.groups.committed_offsets([group]))[group]
        return {} if isinstance(found, ErrorCode) else {key: each.offset for key, each in found.items()}

    return ask(bootstrap, look)


def lag(bootstrap: str, group: str) -> int:
    """How many records a group has not read yet."""

    async def look(admin: Admin) -> int:
        found = (await admin.groups.committed_offsets([group]))[group]
        assert not isinstance(found, ErrorCode), found
        left = await admin.groups.visible_records({key: each.offset for key, each in found.items()})
        return sum(each.visible_count for each in left.values() if not isinstance(each, ErrorCode))

    return ask(bootstrap, look)


def open_transactions(bootstrap: str) -> list[TransactionListing]:
    """All that have begun and not ended."""

    async def look(admin: Admin) -> list[TransactionListing]:
        return list(await admin.transactions.list(states=("Ongoing", "PrepareCommit", "PrepareAbort")))

    return ask(bootstrap, look)


@contextmanager
def membership(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """A member of a group, to the end of the block."""
    properties = {"bootstrap.servers": bootstrap, "group.id": group}
    with Bridge() as bridge:
        consumer = bridge.hold(Consumer.connect(ConsumerConfig.from_properties(properties), real_runtime()))

        async def join() -> None:
            consumer.group.subscribe([topic])
            while not consumer.assignment:
                await consumer.poll(timeout_ms=100)

        bridge.run(join(), timeout_s=60)
        yield


def ask(bootstrap: str, question: Callable[[Admin], Awaitable[T]]) -> T:
    """The answer to a question that one admin asks."""

    async def asked() -> T:
        config = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
        async with Admin.connect(config, real_runtime()) as admin:
            return await question(admin)

    return asyncio.run(asked())
