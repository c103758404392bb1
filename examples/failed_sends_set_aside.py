"""Nothing lost: what cannot be sent now is set aside in SQLite and sent later, with an id by which readers tell duplicates.

A delivery that timed out may have arrived after all. Whoever sends again must therefore let the reader recognise the record.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from typing import NamedTuple

from tidelog.client import ClientError, Producer, ProducerConfig
from tidelog.runtime.real import real_runtime

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
NOBODY = "127.0.0.1:1"  # a cluster that cannot be reached
TOPIC = "example-set-aside"
RUNTIME = real_runtime()


class Message(NamedTuple):
    """What is to be sent."""

    message_id: str
    value: bytes


class Shelf:
    """Messages that could not be sent, in the order they came."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.execute("CREATE TABLE shelf (position INTEGER PRIMARY KEY, id TEXT UNIQUE, value BLOB, reason TEXT)")

    def put(self, message: Message, reason: str) -> None:
        """Set a message aside, once."""
        with self._db:
            self._db.execute("INSERT OR IGNORE INTO shelf (id, value, reason) VALUES (?, ?, ?)", (*message, reason))

    def messages(self) -> list[Message]:
        """All there are."""
        return [Message(*row) for row in self._db.execute("SELECT id, value FROM shelf ORDER BY position")]

    def remove(self, message: Message) -> None:
        """It was delivered."""
        with self._db:
            self._db.execute("DELETE FROM shelf WHERE id = ?", (message.message_id,))


async def send(bootstrap: str, messages: list[Message], shelf: Shelf) -> int:
    """Send messages; those that fail end up on the shelf, those that do not leave it. Returns how many were delivered."""
    # Give up soon: who has a shelf need not wait two minutes for every record.
    config = ProducerConfig.from_properties(
        {"bootstrap.servers": bootstrap, "delivery.timeout.ms": "2000", "request.timeout.ms": "1000", "linger.ms": "0",
         "max.block.ms": "2000"}
    )  # fmt: skip
    delivered = 0
    async with Producer.connect(config, RUNTIME) as producer:
        for message in messages:
            headers = [("message-id", message.message_id.encode())]
            try:
                await producer.send_and_wait(TOPIC, message.value, key=message.message_id.encode(), headers=headers)
            except ClientError as failure:
                shelf.put(message, str(failure))
                print(f"set aside {message.message_id}: {failure}")
            else:
                shelf.remove(message)
                delivered += 1
    return delivered


async def main() -> None:
    """The cluster is away, then it is back."""
    messages = [Message(f"order-{number}", b"a book") for number in range(2)]
    with closing(sqlite3.connect(":memory:")) as db:
        shelf = Shelf(db)
        delivered = await send(NOBODY, messages, shelf)
        print(f"delivered {delivered}, on the shelf {len(shelf.messages())}")
        if len(shelf.messages()) != len(messages):
            raise SystemExit("a message is neither delivered nor on the shelf")

        delivered = await send(BOOTSTRAP, shelf.messages(), shelf)
        print(f"delivered {delivered}, on the shelf {len(shelf.messages())}")
        if shelf.messages():
            raise SystemExit("a message is still on the shelf")


if __name__ == "__main__":
    asyncio.run(main())
