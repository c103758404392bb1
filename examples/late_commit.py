"""How duplicates come about: a member works first and commits later, dies in between, and the next one does the work again.

That is "at least once", what a group promises by itself. To commit first would be "at most once": what was in hand is lost. How each
record counts exactly once is shown in exactly_once_in_sqlite.py.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import Counter

from tidelog.client import Consumer, ConsumerConfig, Producer, ProducerConfig
from tidelog.runtime.real import real_runtime

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
RUN = uuid.uuid4().hex[:8]
TOPIC, GROUP = f"example-late-commit-{RUN}", f"example-mailers-{RUN}"
LETTERS = 10
RUNTIME = real_runtime()


async def send_letters(mailbox: Counter[str], *, until: int, dies_at: int | None = None) -> None:
    """A member of the group: mails every letter, commits after each five; may die before a commit."""
    config = ConsumerConfig.from_properties(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": GROUP,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
        }
    )
    async with Consumer.connect(config, RUNTIME) as consumer, asyncio.timeout(60):
        consumer.group.subscribe([TOPIC])
        done = 0
        async for record in consumer:
            mailbox[(record.value or b"").decode()] += 1  # the work: it cannot be taken back
            done += 1
            if done == dies_at:
                raise ConnectionAbortedError("the member died before it could commit")
            if done % 5 == 0 or record.offset + 1 == until:
                await consumer.group.commit()
            if record.offset + 1 == until:
                return


async def main() -> None:
    """One member dies in the middle, another takes over."""
    to_send = ProducerConfig.from_properties({"bootstrap.servers": BOOTSTRAP})
    async with Producer.connect(to_send, RUNTIME) as producer:
        for number in range(LETTERS):
            await producer.send_and_wait(TOPIC, f"letter-{number}".encode(), partition=0)

    mailbox: Counter[str] = Counter()
    try:
        await send_letters(mailbox, until=LETTERS, dies_at=8)
    except ConnectionAbortedError as reason:
        print(f"{sum(mailbox.values())} letters are in the mail, 5 committed: {reason}")
    await send_letters(mailbox, until=LETTERS)

    twice = sorted(letter for letter, count in mailbox.items() if count > 1)
    print(f"all {len(mailbox)} letters are in the mail, and these twice: {', '.join(twice)}")
    if len(mailbox) != LETTERS or twice != ["letter-5", "letter-6", "letter-7"]:
        raise SystemExit(f"that is not what this example says: {dict(mailbox)}")


if __name__ == "__main__":
    asyncio.run(main())
