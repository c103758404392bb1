"""Faults by values: what stands, what an answer that is an error looks like, what a full disk still does, and who is kept waiting."""

from __future__ import annotations

import asyncio
import dataclasses
import typing
import uuid
from collections.abc import Awaitable, Iterator
from types import NoneType
from typing import Any, cast

import pytest

from tests.wire.oracle import Case
from tidelog.broker.faults import FAULTS_MAX, Fault, Faults, FillableDisk, WrongFault, troubled
from tidelog.broker.faults.refusing import REFUSING, SESSION_FORGOTTEN, refused
from tidelog.client.admin_faults import FAULTS_CLIENT_ID
from tidelog.model import ErrorCode
from tidelog.runtime import Address, DiskFull
from tidelog.server import RequestContext
from tidelog.server.pipeline import Settling
from tidelog.simulation.disk import SimulatedDisk
from tidelog.wire.api import API_TABLE, ApiKey, Response
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.inject_faults import CLIENTS, FaultKind
from tidelog.wire.messages.produce import ProduceRequest

NOWHERE = Address("nowhere", 1)
CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
DONE = HeartbeatResponse(error_code=ErrorCode.NONE)


def answer(times: int = -1, api: ApiKey = ApiKey.HEARTBEAT, *, is_of_brokers: bool = False) -> Fault:
    return Fault(kind=FaultKind.ANSWER, api=api, error=CODE, times=times, is_of_brokers=is_of_brokers)


def cut(peer: int = CLIENTS) -> Fault:
    return Fault(kind=FaultKind.CUT, peer=peer)


# --- what stands ----------------------------------------------------------------------------------------------------------------------------


def test_a_fault_stands_so_many_times_and_a_new_one_takes_the_place_of_its_like() -> None:
    faults = Faults()
    faults.begin([answer(5)])
    faults.begin([answer(2), cut()])
    taken = [faults.take(FaultKind.ANSWER, ApiKey.HEARTBEAT, is_of_brokers=False) for _ in range(3)]
    assert [None if fault is None else fault.times for fault in taken] == [2, 1, None]
    assert faults.standing == (cut(),)


def test_requests_of_clients_and_of_brokers_meet_their_own_faults() -> None:
    faults = Faults()
    faults.begin([answer(is_of_brokers=True)])
    assert faults.take(FaultKind.ANSWER, ApiKey.HEARTBEAT, is_of_brokers=False) is None
    assert faults.take(FaultKind.ANSWER, ApiKey.HEARTBEAT, is_of_brokers=True) == answer(is_of_brokers=True)


def test_what_is_ended_is_named_or_is_everything() -> None:
    faults = Faults()
    faults.begin([cut(), cut(2), Fault(kind=FaultKind.FULL_DISK)])
    faults.end([cut(2)])
    assert (faults.is_cut(CLIENTS), faults.is_cut(2), faults.is_disk_full) == (True, False, True)
    faults.end([])
    assert (faults.standing, faults.is_disk_full) == ((), False)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (answer(0), "once or more, not 0 times"),
        (answer(api=ApiKey.INJECT_FAULTS), "answer wants an API of Kafka's"),
        (answer(api=ApiKey.METADATA), "Metadata cannot be answered with an error; these can: AddOffsetsToTxn, "),
        (dataclasses.replace(answer(), error=ErrorCode.NONE), "an error other than NONE"),
        (Fault(kind=FaultKind.DELAY, api=ApiKey.FETCH), "a delay is 1 to 600000 ms, not 0"),
        (Fault(kind=FaultKind.DELAY, delay_ms=1), "delay wants an API of Kafka's"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_all_that_came_with_it(fault: Fault, sentence: str) -> None:
    faults = Faults()
    with pytest.raises(WrongFault, match=sentence):
        faults.begin([cut(), fault])
    assert not faults.standing


def test_there_is_an_end_to_faults() -> None:
    faults = Faults()
    faults.begin([cut(peer) for peer in range(FAULTS_MAX)])
    with pytest.raises(WrongFault, match="100 faults at most"):
        faults.begin([cut(FAULTS_MAX)])
    faults.begin([cut(3)])
    assert len(faults.standing) == FAULTS_MAX


# --- errors in place of answers --------------------------------------------------------------------------------------------------------------


REFUSALS = [(key, version) for key in REFUSING for version in API_TABLE[key].served]


@pytest.mark.parametrize(("key", "version"), REFUSALS, ids=str)
def test_every_request_can_be_refused_in_its_version(key: ApiKey, version: int) -> None:
    request = one_of_everything(API_TABLE[key].request)
    response = refused(key, request, CODE)
    answering = Case(key, version, is_request=False)
    assert response is not None
    assert set(codes(answering.decode(b"".join(answering.encode(response))))) == {CODE}


def test_producing_without_acknowledgement_is_refused_in_silence() -> None:
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=())
    assert refused(ApiKey.PRODUCE, request, CODE) is None


_ANYTHING: dict[Any, object] = {int: 1, str: "a", bytes: b"a", bool: True, uuid.UUID: uuid.UUID(int=7)}


def one_of_everything(kind: Any) -> Any:
    """A message with something in each of its fields, and one element in each list."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        made = {field.name: one_of_everything(hints[field.name]) for field in dataclasses.fields(kind)}
        return cast("type[Any]", kind)(**made)
    inner = [each for each in typing.get_args(kind) if each not in {NoneType, Ellipsis}]
    if typing.get_origin(kind) is tuple:
        return (one_of_everything(inner[0]),)
    if inner:  # one of several, perhaps none
        return one_of_everything(inner[0])
    return _ANYTHING.get(kind) or kind()


def fields(message: Any) -> Iterator[object]:
    return (getattr(message, field.name) for field in dataclasses.fields(message))


def codes(message: object) -> Iterator[ErrorCode]:
    """Every error that a decoded response tells; NONE where it has no place for one in this version is none."""
    if isinstance(message, ErrorCode):
        yield from [message] if message is not ErrorCode.NONE else []
    elif isinstance(message, tuple):
        for each in message:
            yield from codes(each)
    elif dataclasses.is_dataclass(message):
        for value in fields(message):
            yield from codes(value)


# --- who is kept waiting ---------------------------------------------------------------------------------------------------------------------


class Desk:
    """A handler of heartbeats behind faults, with a count of those that it saw."""

    def __init__(self, *, are_brokers: bool = False) -> None:
        self.seen = 0
        self.faults = Faults()
        self.answer: object = DONE
        handlers = troubled({ApiKey.HEARTBEAT: self._handle}, self.faults, are_brokers=are_brokers)
        self._handler = handlers[ApiKey.HEARTBEAT]

    def ask(self, client_id: str = "somebody") -> object:
        header = RequestHeader(ApiKey.HEARTBEAT, 4, 1, client_id)
        return self._handler(RequestContext(header, "PLAINTEXT", NOWHERE, NOWHERE), HEARTBEAT)

    def _handle(self, _context: RequestContext, _request: object) -> object:
        self.seen += 1
        return self.answer


async def later(answer: object) -> object:
    return answer


async def settled(answer: object) -> Response | None:
    """What an answer comes to in the end."""
    if isinstance(answer, Awaitable):
        answer = await answer
    if isinstance(answer, Settling):
        answer = await answer.answer
    return cast("Response | None", answer)


async def is_waiting(task: asyncio.Task[Response | None]) -> bool:
    for _ in range(10):  # turns of the loop
        await asyncio.wait([task], timeout=0)
    return not task.done()


def test_without_faults_an_answer_that_is_there_is_given_at_once() -> None:
    desk = Desk()
    assert desk.ask() is DONE


@pytest.mark.parametrize(
    "make", [lambda: DONE, lambda: later(DONE), lambda: Settling(later(DONE)), lambda: later(Settling(later(DONE)))]
)
def test_a_cut_holds_requests_back_unseen_and_answers_that_were_under_way(make: Any) -> None:
    async def story() -> None:
        desk = Desk()
        desk.answer = make()
        under_way = desk.ask()
        desk.faults.begin([cut()])
        first = asyncio.ensure_future(settled(under_way))
        assert await is_waiting(first) == (under_way is not DONE)
        desk.answer = DONE
        second = asyncio.ensure_future(settled(desk.ask()))
        assert await is_waiting(second)
        assert desk.seen == 1
        desk.faults.end([])
        assert [await first, await second] == [DONE, DONE]
        assert desk.seen == 2

    asyncio.run(story())


@pytest.mark.parametrize(("client_id", "waits"), [("broker-2", True), ("broker-2-fetcher", True), ("broker-22", False)])
def test_a_cut_between_brokers_is_one_of_these_two(client_id: str, waits: bool) -> None:
    async def story() -> None:
        desk = Desk(are_brokers=True)
        desk.faults.begin([cut(2)])
        asked = asyncio.ensure_future(settled(desk.ask(client_id)))
        assert await is_waiting(asked) is waits
        desk.faults.end([])
        assert await asked == DONE

    asyncio.run(story())


def test_who_ends_faults_is_spared_them() -> None:
    desk = Desk()
    desk.faults.begin([cut(), answer()])
    assert desk.ask(FAULTS_CLIENT_ID) is DONE


def test_an_error_takes_the_place_of_the_work() -> None:
    async def story() -> None:
        desk = Desk()
        desk.faults.begin([answer(1)])
        assert await settled(desk.ask()) == HeartbeatResponse(error_code=CODE)
        assert desk.seen == 0
        assert await settled(desk.ask()) == DONE

    asyncio.run(story())


def test_a_fetch_that_names_no_partitions_is_asked_to_before_one_fails() -> None:
    async def story() -> None:
        faults = Faults()
        handler = troubled({ApiKey.FETCH: lambda *_: None}, faults, are_brokers=False)[ApiKey.FETCH]
        faults.begin([answer(1, ApiKey.FETCH)])
        context = RequestContext(RequestHeader(ApiKey.FETCH, 12, 1, "c"), "PLAINTEXT", NOWHERE, NOWHERE)
        request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=(), session_id=7, session_epoch=3)
        assert await cast("Awaitable[object]", handler(context, request)) is SESSION_FORGOTTEN
        assert faults.standing == (answer(1, ApiKey.FETCH),)

    asyncio.run(story())


# --- a full disk -----------------------------------------------------------------------------------------------------------------------------


def test_a_full_disk_writes_nothing_and_reads_and_removes() -> None:
    faults = Faults()
    full = FillableDisk(SimulatedDisk(), lambda: faults.is_disk_full)
    full.mkdir("/data")
    file = full.open("/data/a", create=True)
    file.pwrite(0, [b"before"])
    faults.begin([Fault(kind=FaultKind.FULL_DISK)])
    for write in (
        lambda: file.pwrite(6, [b"after"]),
        lambda: file.truncate(100),
        lambda: full.open("/data/b", create=True),
        lambda: full.replace("/data/c", b"c"),
        lambda: full.mkdir("/data/d"),
    ):
        with pytest.raises(DiskFull, match="no space left on device"):
            write()
    assert full.usable_bytes("/data") == 0
    assert full.listdir("/data") == ["a"]
    assert full.open("/data/a", create=True).pread(0, 10) == b"before"
    file.truncate(3)
    full.rename("/data/a", "/data/z")
    assert (file.path, full.read("/data/z")) == ("/data/z", b"bef")
    full.unlink("/data/z")
    faults.end([])
    assert full.usable_bytes("/data") > 0
    full.replace("/data/c", b"c")
    assert full.listdir("/data") == ["c"]
