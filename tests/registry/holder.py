"""A process that holds a session: `python holder.py FILE NAME TIMEOUT_MS`. It tells what it sees, and does what it is told on stdin."""

from __future__ import annotations

import asyncio
import sys

from tidelog.registry import BadVersion, NodeExists, RegistryUnavailable, SessionExpired
from tidelog.registry.sqlite import SqliteRegistry

COUNT = 50


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def show(registry: SqliteRegistry) -> None:
    try:
        tell("ids", ",".join(await registry.children("/ids")))
    except SessionExpired:
        tell("expired")


async def write(registry: SqliteRegistry) -> None:
    try:
        await registry.set("/epoch", b"written by the expired")
        tell("written")
    except SessionExpired:
        tell("expired")
    except RegistryUnavailable as unavailable:
        tell("unavailable", unavailable.reason)


async def increment(registry: SqliteRegistry) -> None:
    """Add one to a counter that others add to as well."""
    while True:
        node = await registry.get("/epoch")
        try:
            await registry.set("/epoch", b"%d" % (int(node.data or b"0") + 1), version=node.version)
        except BadVersion:
            continue
        return


async def hold(path: str, name: str, timeout_ms: int) -> None:
    registry = SqliteRegistry(path, session_timeout_ms=timeout_ms)
    await registry.open_session()
    for parent in ("/ids", "/epoch"):
        try:
            await registry.create(parent)
        except NodeExists:
            continue
    await registry.create(f"/ids/{name}", ephemeral=True)
    tasks: set[asyncio.Task[None]] = set()

    def on_change() -> None:
        tasks.add(asyncio.get_running_loop().create_task(show(registry)))

    async def on_end() -> None:
        await registry.ended()
        tell("ended")

    await registry.watch("/ids", on_change)
    tell("holding", registry.session_id)
    tasks.add(asyncio.get_running_loop().create_task(on_end()))
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while command := (await commands.readline()).strip():
        if command == b"write":
            await write(registry)
        elif command == b"show":
            await show(registry)
        elif command == b"count":
            for _ in range(COUNT):
                await increment(registry)
            tell("counted")
    await registry.close()


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], sys.argv[2], int(sys.argv[3])))
