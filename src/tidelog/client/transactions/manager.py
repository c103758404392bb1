"""Runs one producer's transactions: what is asked of the coordinators, in which order, and what their answers lead to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import TRANSACTION_VERSION_TWO, ProducerConfig
from tidelog.client.coordinators import CoordinatorKind
from tidelog.client.errors import (
    ClientClosed,
    ClientError,
    CommitFailed,
    ProducerFenced,
    RequestRefused,
    TransactionAborted,
    TransactionFailed,
    TransactionPending,
    TransactionRefused,
    UnsupportedApi,
    WrongUse,
)
from tidelog.client.groups.group import GroupMetadata
from tidelog.client.groups.offset_commits import Offsets
from tidelog.client.transactions.answers import Meaning, meaning_of, worst
from tidelog.client.transactions.batches import TransactionalBatches
from tidelog.client.transactions.conversation import Conversation
from tidelog.client.transactions.messages import (
    ADD_PARTITIONS_VERSIONS,
    OFFSETS_OF_TWO,
    add_partitions_request,
    added_codes,
    identity_of,
    offset_codes,
    offsets_request,
    ongoing_of,
    versions_of,
)
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.client.transactions.state import Status, TransactionState
from tidelog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ErrorCode, ProducerIdentity, TopicPartition
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest

_NOBODY = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class _NotWanted(Exception):
    """The transaction has come to its end meanwhile."""


class TransactionManager:
    """One call at a time, bounded by max.block.ms: TransactionPending is raised when that is over. `run` must be running beside."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        runtime: ClientRuntime,
        *,
        state: TransactionState,
        batches: TransactionalBatches,
    ) -> None:
        self._config = config
        self._transactional_id = config.transactional_id or ""
        self._who = (CoordinatorKind.TRANSACTIONAL_ID, self._transactional_id)
        self._state = state
        self._batches = batches
        self._conversation = Conversation(cluster, config, runtime)
        self._call = asyncio.Lock()

    async def run(self) -> None:
        """Tell the coordinator of partitions before anything is written to them, where leaders do not."""
        while True:
            partitions = await self._batches.wanted()
            try:
                await self._add(partitions)
            except ClientClosed:
                return  # for nobody can be asked any more
            except (_NotWanted, ClientError):
                continue  # it has ended, or failed by this; whoever ends it is told

    async def init(self, *, keep_prepared: bool) -> PreparedTransaction | None:
        """Take over the transactional id: whoever had it is fenced, and its transaction aborted unless it is kept, and returned."""
        if keep_prepared and not self._config.is_two_phase:
            raise WrongUse("only with transaction.two.phase.commit.enable=true a prepared transaction can be kept")
        async with self._patience("init_transactions()"):
            self._state.begin_initialization()
            self._batches.fail_all(TransactionAborted("the transactional id was taken anew"))
            await self._batches.settled()
            ongoing = await self._take_identity(None, keep_prepared=keep_prepared)
            self._state.on_initialized(ongoing)
        return None if ongoing is None else self._prepared(ongoing)

    async def check_not_fenced(self) -> None:
        """Ask the coordinator, which gives another epoch to nobody but the one who has the id."""
        async with self._patience("check_not_fenced()"):
            self._state.check_open("check_not_fenced()", is_wanted=False)
            await self._take_identity(self._identity())

    def begin(self) -> None:
        """Begin a transaction, in the version of the protocol that the cluster speaks by now."""
        is_allowed = self._config.transaction_version_max >= TRANSACTION_VERSION_TWO
        self._state.begin(is_version_two=is_allowed and self._conversation.speaks_version_two)

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Make offsets of a group part of the transaction."""
        self._state.check_open("send_offsets_to_transaction()")
        if not offsets:
            return
        ordinal = self._state.ordinal
        try:
            async with self._patience("send_offsets_to_transaction()"):
                self._state.check_open("send_offsets_to_transaction()")
                if self._state.ordinal != ordinal:
                    raise WrongUse(
                        "the transaction has ended for which offsets were to be sent, and it has none of them"
                    )
                identity = self._identity()
                if not self._state.participants.is_version_two:
                    await self._add_offsets(identity, group.group_id)
                await self._commit_offsets(identity, offsets, group)
        except (TransactionPending, asyncio.CancelledError) as error:
            # Nobody knows whether they are part of it, and a commit must not leave that to chance.
            self._fail(TransactionFailed(f"offsets of group {group.group_id!r} may be missing: {error}"), Meaning.ABORT)
            raise

    async def prepare(self, flush: Callable[[], Awaitable[None]]) -> PreparedTransaction:
        """Wait until everything is written, so that the outcome may be decided elsewhere."""
        async with self._patience("prepare_transaction()"):
            self._state.prepare()
            await flush()
        self._state.check_not_failed()
        return self._prepared(self._state.ongoing or _NOBODY)

    async def complete(self, prepared: PreparedTransaction) -> bool:
        """Commit what was prepared if it is what was written down, else abort it; returns which (KIP-939)."""
        if prepared.transactional_id != self._transactional_id:
            raise WrongUse(f"{prepared} was prepared under another transactional.id than {self._transactional_id!r}")
        self._state.check_not_failed()
        if self._state.status is Status.READY:
            return False
        if self._state.is_open:
            raise WrongUse("complete_transaction() makes no sense now: the transaction is not prepared")
        is_it = prepared.producer == self._state.ongoing
        await (self.commit(_nothing_to_flush) if is_it else self.abort())
        return is_it

    async def commit(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Wait until everything is written, and commit."""
        async with self._patience("commit_transaction()"):
            self._state.begin_end(is_committed=True)
            await flush()
            self._state.check_not_failed()
            await self._end(is_committed=True)

    async def abort(self) -> None:
        """Forget what has not left, wait for what is on the wire, and abort."""
        async with self._patience("abort_transaction()"):
            self._state.begin_end(is_committed=False)
            self._batches.fail_all(TransactionAborted("the transaction was aborted"))
            await self._batches.settled()
            await self._end(is_committed=False)

    async def _end(self, *, is_committed: bool) -> None:
        state = self._state
        if state.participants.may_be_ongoing:
            was_asked, losses_before = state.is_end_asked, self._conversation.lost_count
            state.on_end_asked()
            with self._judged("EndTxn"):
                answer = await self._conversation.end(
                    self._transactional_id,
                    self._identity(),
                    is_committed=is_committed,
                    is_version_two=state.participants.is_version_two,
                )
            was_lost = was_asked or self._conversation.lost_count > losses_before
            self._on_end_answer(answer.error_code, is_committed=is_committed, was_lost=was_lost)
            self._adopt(identity_of(answer.producer_id, answer.producer_epoch))
        if state.needs_renewal or self._batches.has_gap:
            await self._take_identity(self._identity())
        state.on_ended()

    def _on_end_answer(self, code: ErrorCode, *, is_committed: bool, was_lost: bool) -> None:
        state = self._state
        is_without_transaction = code is ErrorCode.INVALID_TXN_STATE
        if is_committed and is_without_transaction:
            # Had it ever been committed, the answer would be another one: the coordinator has aborted it when its time was up.
            aborted = TransactionFailed("the coordinator has no such transaction any more; perhaps it timed out")
            self._fail(aborted, Meaning.ABORT)
            raise aborted
        was_heard_of = state.participants.is_joined or state.participants.is_version_two
        is_unknown = (is_without_transaction and not was_heard_of) or meaning_of(code) is Meaning.RENEW
        if not is_committed and is_unknown:
            state.on_end_answered(needs_renewal=True)
            return
        doubt = ", and whether it was committed before is not known" if is_committed and was_lost else ""
        self._judge(code, f"EndTxn{doubt}")
        state.on_end_answered()

    async def _take_identity(
        self, identity: ProducerIdentity | None, *, keep_prepared: bool = False
    ) -> ProducerIdentity | None:
        """Ask for the next epoch, as nobody or as who we are; returns who wrote the transaction that was kept."""
        producer_id, producer_epoch = identity or _NOBODY
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            enable2_pc=self._config.is_two_phase,
            keep_prepared_txn=keep_prepared,
        )
        with self._judged("InitProducerId"):
            answer = await self._conversation.ask(self._who, request, code_of=lambda answer: answer.error_code)
            if self._config.is_two_phase and not self._conversation.speaks_version_two:
                raise UnsupportedApi("the cluster does not run version 2 of transactions, which prepared ones need")
        self._judge(answer.error_code, "InitProducerId", may_abort=False)
        self._adopt(identity_of(answer.producer_id, answer.producer_epoch))
        return ongoing_of(answer)

    async def _add(self, partitions: list[TopicPartition]) -> None:
        ordinal, identity = self._state.ordinal, self._identity()

        def check() -> None:
            if self._state.ordinal != ordinal or not self._state.is_sending:
                raise _NotWanted
            self._state.participants.on_joining()

        request = add_partitions_request(self._transactional_id, identity, partitions)
        with self._judged("AddPartitionsToTxn"):
            answer = await self._conversation.ask(
                self._who,
                request,
                code_of=lambda answer: worst(added_codes(answer)),
                versions=ADD_PARTITIONS_VERSIONS,
                check=check,
            )
        self._judge(worst(added_codes(answer)), "AddPartitionsToTxn")
        self._batches.on_added(partitions)

    async def _add_offsets(self, identity: ProducerIdentity, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            group_id=group_id,
        )
        with self._judged("AddOffsetsToTxn"):
            answer = await self._conversation.ask(
                self._who, request, code_of=lambda answer: answer.error_code, check=self._check_open_for_offsets
            )
        self._judge(answer.error_code, "AddOffsetsToTxn")
        self._state.participants.on_joined()

    async def _commit_offsets(self, identity: ProducerIdentity, offsets: Offsets, group: GroupMetadata) -> None:
        with self._judged("TxnOffsetCommit"):
            answer = await self._conversation.ask(
                (CoordinatorKind.GROUP, group.group_id),
                offsets_request(self._transactional_id, identity, offsets, group),
                code_of=lambda answer: worst(list(offset_codes(answer).values())),
                versions=versions_of(OFFSETS_OF_TWO, is_version_two=self._state.participants.is_version_two),
                check=self._check_open_for_offsets,
            )
        codes = offset_codes(answer)
        code = worst(list(codes.values()))
        if meaning_of(code) is Meaning.ABORT:
            refused = CommitFailed({key: each for key, each in codes.items() if each is not ErrorCode.NONE})
            self._fail(refused, Meaning.ABORT)
            raise refused
        self._judge(code, "TxnOffsetCommit")
        self._state.participants.on_joined()

    def _check_open_for_offsets(self) -> None:
        self._state.check_open("send_offsets_to_transaction()")
        self._state.participants.on_joining()

    def _prepared(self, writer: ProducerIdentity) -> PreparedTransaction:
        return PreparedTransaction(
            transactional_id=self._transactional_id,
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
        )

    def _identity(self) -> ProducerIdentity:
        return self._state.identity or _NOBODY

    def _adopt(self, identity: ProducerIdentity | None) -> None:
        if identity is not None:
            self._state.on_identity(identity)
            self._batches.adopt(identity)

    @asynccontextmanager
    async def _patience(self, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000), self._call:
                yield
        except TimeoutError:
            raise TransactionPending(
                f"{what} did not end within max.block.ms={self._config.max_block_ms} ({self._conversation.trouble}): "
                "what becomes of it is not known; call it again"
            ) from None

    @contextmanager
    def _judged(self, what: str) -> Iterator[None]:
        """Nobody was found to answer for good."""
        try:
            yield
        except RequestRefused as refusal:
            self._judge(refusal.code, what, may_abort=self._state.status is not Status.INITIALIZING)
        except UnsupportedApi as error:
            self._fail(error, Meaning.REFUSED)
            raise

    def _judge(self, code: ErrorCode, what: str, *, may_abort: bool = True) -> None:
        """Raises what a final answer leads to, unless it is the one that was hoped for."""
        meaning = meaning_of(code)
        if meaning is Meaning.DONE:
            return
        if meaning in {Meaning.ABORT, Meaning.RENEW} and may_abort:
            refused = RequestRefused(code, what)
            self._fail(refused, meaning)
            raise TransactionFailed(f"the transaction must be aborted: {refused}") from refused
        error: ClientError = TransactionRefused(code, what)
        if meaning is Meaning.FENCED:
            error = ProducerFenced(
                f"transactional.id {self._transactional_id!r} was taken over, or its transaction timed out: "
                f"{code.name} in answer to {what}"
            )
        self._fail(error, Meaning.FENCED if meaning is Meaning.FENCED else Meaning.REFUSED)
        raise error

    def _fail(self, error: ClientError, meaning: Meaning) -> None:
        self._state.fail(error, meaning)
        self._batches.fail_all(TransactionFailed(f"the transaction failed: {error}"), cause=error)


async def _nothing_to_flush() -> None:
    """What is prepared is written."""
