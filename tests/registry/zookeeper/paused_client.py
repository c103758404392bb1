"""A process with a session, to be stopped and continued: it does what each line of its input says, and tells what came of it."""

from __future__ import annotations

import asyncio
import sys

from tidelog.registry import RegistryUnavailable, SessionExpired
from tidelog.registry.zookeeper import ZooKeeperRegistry


async def main(connect: str, session_timeout_ms: int) -> None:
    registry = ZooKeeperRegistry(connect, session_timeout_ms=session_timeout_ms)
    await registry.open_session()
    await registry.create("/mine", ephemeral=True)
    ending = asyncio.ensure_future(registry.ended())
    ending.add_done_callback(lambda _: say("ended"))
    say("ready")
    while order := (await asyncio.to_thread(sys.stdin.readline)).strip():
        try:
            await registry.set("/epoch", order.encode())
        except RegistryUnavailable:
            say("unavailable")
        except SessionExpired:
            say("expired")
        else:
            say("written")
    await registry.close()


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
