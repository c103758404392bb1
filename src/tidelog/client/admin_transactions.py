"""Looking after transactions (KIP-664): which hold readers back, which hang, and ending them from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidelog.client.admin_transaction_messages import aborting, codes_in, fencing
from tidelog.client.admin_transaction_questions import TransactionQuestions
from tidelog.client.admin_transaction_values import (
    TRANSACTION_STATE_TOPIC,
    HeldPartition,
    OpenTransaction,
    TransactionDescription,
)
from tidelog.client.admin_values import ProducerDescription
from tidelog.client.cluster import Lane
from tidelog.client.errors import BrokersUnreachable, RequestRefused
from tidelog.client.metadata import Leader
from tidelog.client.offsets import LATEST, OffsetLookup
from tidelog.client.transactions.messages import END_OF_TWO, FEATURE, VERSION_MAX
from tidelog.model import BrokerId, ErrorCode, IsolationLevel, Offset, ProducerId, ProducerIdentity, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse

MAX_TIMEOUT_MS: Final = 900_000
"""The longest that brokers let transactions live by default (transaction.max.timeout.ms)."""

_PARTITIONS_PER_REQUEST: Final = 100
_LISTINGS_MAX: Final = 5
_AN_EPOCH_EACH: Final = 2  # the version of transactions from which on each has an epoch of its own


class TransactionAdmin(TransactionQuestions):
    """The part of an admin that looks after transactions."""

    async def holders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, HeldPartition | ErrorCode]:
        """Which transaction keeps those who read committed records from reading on in each partition, and since where.

        Raises as `list` does, and as asking for offsets does: NoPosition or TopicUnavailable.
        """
        found = await self._open_in(partitions)
        asked = [key for key, some in found.items() if not isinstance(some, ErrorCode)]
        stable = await self._ends(asked, IsolationLevel.READ_COMMITTED)
        readable = await self._ends(asked, IsolationLevel.READ_UNCOMMITTED)  # asked later, so that it is no less
        still_open = await self._still_open([one for key in asked for one in _open(found[key])], stable)
        known = sorted(await self._with_coordinators(still_open), key=lambda one: one.first_offset)
        held: dict[TopicPartition, HeldPartition | ErrorCode] = {
            key: HeldPartition(
                topic_partition=key,
                last_stable_offset=stable[key],
                high_watermark=readable[key],
                open=tuple(one for one in known if one.topic_partition == key),
            )
            for key in asked
        }
        return {key: some if isinstance(some, ErrorCode) else held[key] for key, some in found.items()}

    async def find_hanging(
        self, partitions: Iterable[TopicPartition], *, max_timeout_ms: int = MAX_TIMEOUT_MS
    ) -> dict[TopicPartition, tuple[OpenTransaction, ...] | ErrorCode]:
        """Transactions that have not been written to for longer than any may live, and that no coordinator will ever end.

        Told of are the partitions that have such, and those that could not be asked. Raises RequestRefused while a part of the
        transaction log has no leader, since what only that part knows would look as if it hung; and as `list` does.
        """
        deadline_ms = self._runtime.clock.wall_ms() - max_timeout_ms
        found = await self._open_in(partitions)
        old = [one for some in found.values() for one in _open(some) if one.producer.last_timestamp_ms < deadline_ms]
        hanging = [one for one in await self._with_coordinators(old) if one.is_hanging]
        # One that ended while its coordinator was asked is open no more.
        again = await self._open_in({one.topic_partition: None for one in hanging})
        answers: dict[TopicPartition, tuple[OpenTransaction, ...] | ErrorCode] = {
            key: some for key, some in {**found, **again}.items() if isinstance(some, ErrorCode)
        }
        left = _also_among(hanging, again)
        for key in again:
            if rows := tuple(one for one in left if one.topic_partition == key):
                answers[key] = rows
        return answers

    async def abort(
        self, topic_partition: TopicPartition, producer: ProducerIdentity, *, coordinator_epoch: int
    ) -> None:
        """End a hanging transaction in one partition by telling its leader what a coordinator would. Raises RequestRefused.

        Never do this to one that a coordinator knows: its outcome would differ between partitions.
        """

        async def ask(node: BrokerId, _led: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode | None]:
            request = aborting(topic_partition, producer, coordinator_epoch)
            codes = codes_in(await self._cluster.request(node, request))
            return {key: None if code is ErrorCode.NONE else code for key, code in codes.items()}

        code = (await self._leaders.ask([topic_partition], ask))[topic_partition]
        if code is not None:
            raise RequestRefused(code, f"the transaction of producer {producer.producer_id} in {topic_partition}")

    async def fence(self, transactional_ids: Iterable[str]) -> dict[str, ProducerIdentity | ErrorCode]:
        """Abort what each id has open, and shut out the producer that uses it: it is told that another one has taken over.

        What each would go on with. An id that nobody has used yet is in use then, as with Kafka.
        """
        timeout_ms = min(self._config.request_timeout_ms, MAX_TIMEOUT_MS)

        async def ask(node: BrokerId, some: Sequence[str]) -> dict[str, ProducerIdentity | ErrorCode]:
            answers = {one: await self._cluster.request(node, fencing(one, timeout_ms)) for one in some}
            return {one: _pair_or_code(answer) for one, answer in answers.items()}

        return await self._questions.ask(dict.fromkeys(transactional_ids), ask)

    async def end(
        self, transactional_id: str, producer: ProducerIdentity, *, is_committed: bool
    ) -> ProducerIdentity | None:
        """Commit or abort the open transaction of an id as its producer would: one that was prepared, and is now decided.

        What the id's next transaction is written under, where the cluster tells. Raises RequestRefused. Repeating it does no harm.
        """
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_committed,
        )

        async def ask(node: BrokerId, _some: Sequence[str]) -> dict[str, ProducerIdentity | ErrorCode]:
            connection = await self._cluster.connect(node, Lane.CONTROL)
            newest = VERSION_MAX if connection.features.get(FEATURE, 0) >= _AN_EPOCH_EACH else END_OF_TWO - 1
            version = min(connection.version_of(ApiKey.END_TXN), newest)
            return {transactional_id: _pair_or_code(await connection.request(request, version=version))}

        answered = (await self._questions.ask([transactional_id], ask))[transactional_id]
        if isinstance(answered, ErrorCode):
            raise RequestRefused(answered, f"transactional id {transactional_id!r}")
        return answered if answered.producer_id >= 0 else None

    async def _open_in(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[OpenTransaction, ...] | ErrorCode]:
        """What is open in each partition, without a word of the coordinators."""
        wanted = list(dict.fromkeys(partitions))
        found: dict[TopicPartition, tuple[OpenTransaction, ...] | ErrorCode] = {}
        for start in range(0, len(wanted), _PARTITIONS_PER_REQUEST):
            answers = await self.describe_producers(wanted[start : start + _PARTITIONS_PER_REQUEST])
            for key, producers in answers.items():
                found[key] = producers if isinstance(producers, ErrorCode) else _open_among(producers, key)
        return found

    async def _still_open(
        self, found: Sequence[OpenTransaction], stable: Mapping[TopicPartition, Offset]
    ) -> list[OpenTransaction]:
        """Those that had not ended when it was asked how far everything is stable.

        One that began before has ended, or its first records are deleted: then everything is stable up to where the log begins, and who wrote
        there tells whether it is open.
        """
        doubtful = [one for one in found if one.first_offset < stable[one.topic_partition]]
        again = await self._open_in({one.topic_partition: None for one in doubtful})
        headless = {_name(one) for one in _also_among(doubtful, again)}
        return [one for one in found if one.first_offset >= stable[one.topic_partition] or _name(one) in headless]

    async def _with_coordinators(self, found: Sequence[OpenTransaction]) -> tuple[OpenTransaction, ...]:
        """The same, with what the coordinators know of their producers."""
        if not found:
            return ()
        names = await self._names_of({one.producer.producer_id: None for one in found})
        known: dict[ProducerId, TransactionDescription] = {}
        for one in (await self.describe(names)).values():
            if isinstance(one, TransactionDescription):
                known[one.producer_id] = one
            elif one is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise RequestRefused(one, "a coordinator does not tell how its transactions stand")
        return tuple(replace(one, transaction=known.get(one.producer.producer_id)) for one in found)

    async def _names_of(self, producer_ids: Iterable[ProducerId]) -> tuple[str, ...]:
        """The transactional ids of these producers, of a time in which nobody took over any part of the transaction log.

        Else the one that gave it away might be asked too late and the one that got it too early.
        """
        wanted = tuple(producer_ids)
        for _ in range(_LISTINGS_MAX):
            before = await self._leaders_of_log()
            found = await self.list(producer_ids=wanted)
            if before == await self._leaders_of_log():
                return tuple(row.transactional_id for row in found)
        raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "coordinators change too often to ask them all")

    async def _leaders_of_log(self) -> tuple[Leader, ...]:
        try:
            async with asyncio.timeout(self._config.default_api_timeout_ms / 1000):
                await self._cluster.refresh(TRANSACTION_STATE_TOPIC)
        except TimeoutError:
            raise BrokersUnreachable("no broker tells who coordinates transactions") from None
        topic = self._cluster.metadata.topic(TRANSACTION_STATE_TOPIC)
        if topic is None:  # nobody has ever used a transaction
            return ()
        if missing := [str(each.index) for each in topic.partitions if not each.has_leader]:
            where = f"{TRANSACTION_STATE_TOPIC} has no leader of partition {', '.join(missing)}"
            raise RequestRefused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{where}: what it knows would look as if it hung"
            )
        return tuple(each.leader for each in topic.partitions)

    async def _ends(self, partitions: Iterable[TopicPartition], level: IsolationLevel) -> dict[TopicPartition, Offset]:
        lookup = OffsetLookup(self._cluster, self._config, self._runtime, level)
        found = await lookup.find(dict.fromkeys(partitions, LATEST))
        return {key: 0 if end is None else end.offset for key, end in found.items()}


def _pair_or_code(answer: InitProducerIdResponse | EndTxnResponse) -> ProducerIdentity | ErrorCode:
    if answer.error_code is not ErrorCode.NONE:
        return answer.error_code
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def _open_among(producers: Iterable[ProducerDescription], key: TopicPartition) -> tuple[OpenTransaction, ...]:
    return tuple(
        OpenTransaction(topic_partition=key, producer=one, transaction=None)
        for one in producers
        if one.transaction_first_offset >= 0
    )


def _also_among(
    some: Iterable[OpenTransaction], found: Mapping[TopicPartition, tuple[OpenTransaction, ...] | ErrorCode]
) -> list[OpenTransaction]:
    """Those that are open in what was found later, too."""
    names = {_name(one) for others in found.values() for one in _open(others)}
    return [one for one in some if _name(one) in names]


def _name(one: OpenTransaction) -> tuple[TopicPartition, ProducerId, Offset]:
    """Nothing else has begun there."""
    return one.topic_partition, one.producer.producer_id, one.first_offset


def _open(found: tuple[OpenTransaction, ...] | ErrorCode) -> tuple[OpenTransaction, ...]:
    return () if isinstance(found, ErrorCode) else found
