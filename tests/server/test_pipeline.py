"""Produced batches that wait for their acknowledgement let further batches begin, and nothing else; answers leave in request order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.server.test_connection import EMPTY, Client, tell
from tests.simulation.story import passed
from tidelog.runtime import Address, Runtime
from tidelog.server import ConnectionLimits, Dispatcher, Guard, GuardLimits, Listener, RequestContext, Settling
from tidelog.wire.api import ApiKey
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse

ACKNOWLEDGED = ProduceResponse(responses=())


class Producer(Client):
    """A client that also produces."""

    def produce(self, *numbers: int) -> None:
        for number in numbers:
            header = RequestHeader(ApiKey.PRODUCE, 9, number, None)
            request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=())
            self.transport.writelines(encode_request_frame(header, request))


@dataclass
class Appends:
    """A produce handler whose acknowledgements the test gives."""

    begun: list[int] = field(default_factory=list)
    acknowledgements: dict[int, asyncio.Event] = field(default_factory=dict)
    is_work_over: Callable[[int], bool] = lambda _: True
    questions: dict[int, asyncio.Event] = field(
        default_factory=dict
    )  # what must be answered before a batch is appended

    def handle(self, context: RequestContext, _request: object) -> object:
        number = context.header.correlation_id
        self.begun.append(number)
        self.acknowledgements[number] = asyncio.Event()
        waiting = self._acknowledged(number)
        if number in self.questions:
            return self._asked(number, waiting)
        return Settling(waiting) if self.is_work_over(number) else waiting

    async def _asked(self, number: int, waiting: Awaitable[ProduceResponse]) -> object:
        await self.questions[number].wait()
        return Settling(waiting)

    async def _acknowledged(self, number: int) -> ProduceResponse:
        await self.acknowledgements[number].wait()
        return ACKNOWLEDGED


@asynccontextmanager
async def producing(runtime: Runtime, appends: Appends) -> AsyncIterator[tuple[Listener, Producer]]:
    handlers = {ApiKey.PRODUCE: appends.handle, ApiKey.API_VERSIONS: lambda *_: EMPTY}
    limits = ConnectionLimits(request_bytes_max=1 << 16, idle_ms_max=60_000)
    listener = Listener(
        "PLAINTEXT",
        Address("server", 9092),
        Dispatcher(handlers, runtime.metrics, runtime.clock),
        limits,
        runtime,
        Guard(GuardLimits(), runtime),
    )
    async with listener.running():
        listener.serve()
        yield listener, await runtime.network.connect(Producer, Address("server", 9092))


def told_of(appends: Appends, story: Callable[[Listener, Producer], Awaitable[None]]) -> None:
    async def told(runtime: Runtime) -> None:
        async with producing(runtime, appends) as (listener, producer):
            await story(listener, producer)

    tell(told)


def test_batches_begin_while_earlier_ones_wait_for_their_acknowledgement() -> None:
    appends = Appends()

    async def story(_listener: Listener, producer: Producer) -> None:
        producer.produce(1, 2, 3)
        await passed(1)
        assert appends.begun == [1, 2, 3]
        assert producer.answers == []
        for number in (1, 2, 3):
            appends.acknowledgements[number].set()
        await producer.until(lambda: producer.answers == [1, 2, 3])

    told_of(appends, story)


def test_an_answer_that_is_ready_early_leaves_in_its_turn() -> None:
    appends = Appends()

    async def story(_listener: Listener, producer: Producer) -> None:
        producer.produce(1, 2, 3)
        await passed(1)
        appends.acknowledgements[3].set()
        appends.acknowledgements[2].set()
        await passed(1)
        assert producer.answers == []
        appends.acknowledgements[1].set()
        await producer.until(lambda: producer.answers == [1, 2, 3])

    told_of(appends, story)


def test_other_requests_wait_until_all_batches_before_them_are_answered() -> None:
    appends = Appends()

    async def story(_listener: Listener, producer: Producer) -> None:
        producer.produce(1, 2)
        producer.send(3)
        producer.produce(4)
        await passed(1)
        appends.acknowledgements[1].set()
        await producer.until(lambda: producer.answers == [1])
        assert appends.begun == [1, 2]
        appends.acknowledgements[2].set()
        await producer.until(lambda: producer.answers == [1, 2, 3])
        await passed(1)
        assert appends.begun == [1, 2, 4]

    told_of(appends, story)


def test_a_batch_that_is_still_being_appended_holds_back_the_next() -> None:
    appends = Appends(is_work_over=lambda number: number != 2)

    async def story(_listener: Listener, producer: Producer) -> None:
        producer.produce(1, 2, 3)
        await passed(1)
        assert appends.begun == [1, 2]
        appends.acknowledgements[2].set()
        await passed(1)
        assert appends.begun == [1, 2]
        appends.acknowledgements[1].set()
        await producer.until(lambda: producer.answers == [1, 2])
        await passed(1)
        assert appends.begun == [1, 2, 3]

    told_of(appends, story)


def test_a_batch_that_had_to_wait_before_it_was_appended_lets_the_next_begin_once_it_is() -> None:
    appends = Appends(questions={2: asyncio.Event()})

    async def story(_listener: Listener, producer: Producer) -> None:
        producer.produce(1, 2, 3)
        await passed(1)
        assert appends.begun == [1, 2]
        appends.questions[2].set()
        await passed(1)
        assert appends.begun == [1, 2, 3]
        appends.acknowledgements[3].set()
        appends.acknowledgements[2].set()
        await passed(1)
        assert producer.answers == []
        appends.acknowledgements[1].set()
        await producer.until(lambda: producer.answers == [1, 2, 3])

    told_of(appends, story)


def test_what_is_no_batch_waits_for_the_answer_of_one_that_had_to_wait_twice() -> None:
    appends = Appends(questions={1: asyncio.Event()})

    async def story(_listener: Listener, producer: Producer) -> None:
        producer.produce(1)
        producer.send(2)
        appends.questions[1].set()
        await passed(1)
        assert producer.answers == []
        appends.acknowledgements[1].set()
        await producer.until(lambda: producer.answers == [1, 2])

    told_of(appends, story)


def test_no_more_than_a_few_batches_of_a_connection_wait_at_once() -> None:
    appends = Appends()

    async def story(_listener: Listener, producer: Producer) -> None:
        producer.produce(*range(40))
        await passed(1)
        assert appends.begun == list(range(16))
        for number in range(40):
            await passed(0.01)
            appends.acknowledgements[number].set()
        await producer.until(lambda: producer.answers == list(range(40)))

    told_of(appends, story)


def test_a_lost_connection_ends_every_wait() -> None:
    appends = Appends()

    async def story(listener: Listener, producer: Producer) -> None:
        producer.produce(1, 2, 3)
        await passed(1)
        producer.transport.abort()
        await passed(1)
        assert listener.connection_count == 0
        assert listener.guard.budget.held_bytes == 0

    told_of(appends, story)


def test_what_waits_counts_for_the_budget_until_it_is_answered() -> None:
    appends = Appends()

    async def story(listener: Listener, producer: Producer) -> None:
        producer.produce(1, 2)
        await passed(1)
        held = listener.guard.budget.held_bytes
        appends.acknowledgements[1].set()
        await producer.until(lambda: producer.answers == [1])
        assert listener.guard.budget.held_bytes == held / 2 > 0
        appends.acknowledgements[2].set()
        await producer.until(lambda: producer.answers == [1, 2])
        assert listener.guard.budget.held_bytes == 0

    told_of(appends, story)
