"""Producers, zombies, keepers, time and fail-overs in any order, against a model that only knows what was promised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.coordinator.transaction.transaction_room import P0, P1, P2, TIMEOUT_MS, Room
from tidelog.coordinator.transaction.errands import SendMarkers
from tidelog.coordinator.transaction.states import EPOCH_LAST, EPOCH_MAX, TransactionStatus, TransactionVersion
from tidelog.model import ErrorCode, ProducerIdentity

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
LATE_MAX = 8
KEEP: dict[str, Any] = {"enable2_pc": True, "keep_prepared_txn": True}


class TransactionStorm(RuleBasedStateMachine):
    """`owner` is whoever was promised last that it may write; everybody else who ever was is stale."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room()
        self.owner: ProducerIdentity | None = None
        self.asked_by: ProducerIdentity | None = None  # who asked for what made the owner, and may ask again
        self.given: list[ProducerIdentity] = []
        self.writer: ProducerIdentity | None = None  # of the open transaction
        self.is_kept = False
        self.members: set[Any] = set()
        self.outcome: bool | None = None  # of the transaction that is ending
        self.last_outcome: bool | None = None
        self.reported: list[SendMarkers] = []
        self.markers: list[ProducerIdentity] = []

    @initialize(version=st.sampled_from([TransactionVersion.ZERO, TransactionVersion.TWO]))
    def begin(self, version: TransactionVersion) -> None:
        self.room.version = version

    @property
    def is_new(self) -> bool:
        return self.room.version is TransactionVersion.TWO

    def promise(self, pair: ProducerIdentity, asked_by: ProducerIdentity | None) -> None:
        assert pair.producer_epoch <= EPOCH_LAST
        same_id = [old.producer_epoch for old in self.given if old.producer_id == pair.producer_id]
        if pair != self.owner:
            assert all(epoch < pair.producer_epoch for epoch in same_id), "epochs never go back"
            self.asked_by = asked_by
            self.given.append(pair)
        self.owner = pair

    def forget(self) -> None:
        """What was open is being aborted."""
        self.outcome, self.writer, self.is_kept = False, None, False

    # Incarnations.

    @rule(is_own=st.booleans(), keeps=st.booleans())
    def initialise(self, is_own: bool, keeps: bool) -> None:
        asking = self.owner if is_own else None
        answer = self.room.init(asking, **(KEEP if keeps and self.is_new else {}))
        keeps_open = keeps and self.is_new and self.writer is not None
        if self.outcome is not None:
            assert answer.error_code is CONCURRENT
            return
        if self.writer is not None and not keeps_open:
            assert answer.error_code is CONCURRENT
            self.asked_by = asking
            self.owner = None
            self.forget()
            return
        if self.owner is None and asking is None:
            self.asked_by = None
        assert answer.error_code is NONE
        ongoing = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        assert ongoing == (self.writer if keeps_open else (-1, -1))
        self.is_kept = keeps_open
        self.promise(ProducerIdentity(answer.producer_id, answer.producer_epoch), asking)
        if not keeps_open:
            self.last_outcome = None

    @precondition(lambda self: self.asked_by is not None and self.writer is None)
    @rule()
    def initialise_again(self) -> None:
        answer = self.room.init(self.asked_by)
        if self.outcome is not None:
            assert answer.error_code is CONCURRENT
            return
        pair = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        assert answer.error_code is NONE
        assert self.owner in {None, pair}
        self.promise(pair, self.asked_by)
        self.last_outcome = None

    @precondition(lambda self: self.asked_by is not None and self.writer is not None)
    @rule()
    def initialise_again_too_late(self) -> None:
        assert self.room.init(self.asked_by).error_code is ErrorCode.PRODUCER_FENCED

    # Transactions.

    @precondition(lambda self: self.owner is not None)
    @rule(partition=st.sampled_from([P0, P1, P2]))
    def join(self, partition: Any) -> None:
        assert self.owner is not None
        code = self.room.join(self.owner, partition)
        if self.outcome is not None:
            assert code is CONCURRENT
        elif self.is_kept:
            assert code is ErrorCode.INVALID_TXN_STATE
        else:
            assert code is NONE
            if self.writer is None:
                self.members = set()
                self.asked_by = None
            self.writer = self.owner
            self.members.add(partition)

    @precondition(lambda self: self.owner is not None and self.writer is not None)
    @rule(is_committed=st.booleans())
    def end(self, is_committed: bool) -> None:
        assert self.owner is not None
        answer = self.room.ask_end(self.owner, is_committed=is_committed)
        assert answer.error_code is NONE
        self.outcome, self.writer, self.is_kept = is_committed, None, False
        pair = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        assert (pair != self.owner) == self.is_new
        self.promise(pair, self.owner if self.is_new else None)
        if not self.is_new:
            self.asked_by = None

    @precondition(lambda self: self.owner is not None and self.outcome is not None)
    @rule(is_committed=st.booleans())
    def end_too_soon(self, is_committed: bool) -> None:
        assert self.owner is not None
        is_waiting = self.is_new or is_committed is self.outcome
        code = self.room.end(self.owner, is_committed=is_committed)
        assert code is (CONCURRENT if is_waiting else ErrorCode.INVALID_TXN_STATE)

    @precondition(lambda self: self.owner is not None and self.writer is None and self.outcome is None)
    @rule(is_committed=st.booleans())
    def end_nothing(self, is_committed: bool) -> None:
        assert self.owner is not None
        answer = self.room.ask_end(self.owner, is_committed=is_committed)
        if not self.is_new:
            is_again = is_committed is self.last_outcome
            assert answer.error_code is (NONE if is_again else ErrorCode.INVALID_TXN_STATE)
        elif is_committed:
            assert answer.error_code is ErrorCode.INVALID_TXN_STATE
        else:
            assert answer.error_code is NONE
            self.promise(ProducerIdentity(answer.producer_id, answer.producer_epoch), self.owner)
            self.last_outcome = False

    @precondition(lambda self: self.asked_by is not None and self.is_new and self.writer is None)
    @rule(is_committed=st.booleans())
    def end_again(self, is_committed: bool) -> None:
        assert self.asked_by is not None
        code = self.room.end(self.asked_by, is_committed=is_committed)
        if self.outcome is not None:
            assert code is (CONCURRENT if is_committed is self.outcome else ErrorCode.INVALID_TXN_STATE)
        elif self.last_outcome is None:
            assert code in {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        elif self.owner is not None:
            assert code is (NONE if is_committed is self.last_outcome else ErrorCode.INVALID_TXN_STATE)

    @precondition(lambda self: self.errand is not None)
    @rule()
    def write_markers(self) -> None:
        errand = self.errand
        assert errand is not None
        assert errand.is_committed is self.outcome, "what was decided stays so"
        assert set(errand.partitions) == self.members
        self.markers.append(errand.producer)
        self.room.driver.errands.remove(errand)
        assert self.room.report(errand) is NONE
        self.last_outcome, self.outcome = self.outcome, None
        self.reported = [*self.reported[-LATE_MAX:], errand]

    @precondition(lambda self: self.reported)
    @rule(data=st.data())
    def report_again(self, data: st.DataObject) -> None:
        length = len(self.room.driver.log)
        assert self.room.report(data.draw(st.sampled_from(self.reported))) is NONE
        assert len(self.room.driver.log) == length

    # Trouble.

    @precondition(lambda self: len(self.given) > 1)
    @rule(data=st.data(), is_committed=st.booleans())
    def come_late(self, data: st.DataObject, is_committed: bool) -> None:
        stale = data.draw(st.sampled_from(self.given[-LATE_MAX:]))
        if stale in {self.owner, self.asked_by}:
            return
        length = len(self.room.driver.log)
        refusals = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert self.room.join(stale, P2) in refusals
        assert self.room.join(stale, P2, is_verification=True) in refusals
        assert self.room.end(stale, is_committed=is_committed) in refusals
        assert self.room.end(stale, is_committed=is_committed, version=5) in refusals
        assert self.room.init(stale).error_code is ErrorCode.PRODUCER_FENCED
        assert len(self.room.driver.log) == length, "a stale pair never changes anything"

    @rule()
    def fail_over(self) -> None:
        self.room.driver.fail_over()
        assert (self.errand is not None) == (self.outcome is not None), "whatever was decided is told"

    @rule()
    def lose_the_log_for_a_while(self) -> None:
        length = len(self.room.driver.log)
        self.room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        self.room.init()
        if self.owner is not None:
            self.room.join(self.owner, P0, P1, P2)
            self.room.end(self.owner, is_committed=True)
        self.room.driver.append_error = None
        assert len(self.room.driver.log) == length

    @precondition(lambda self: self.writer is not None)
    @rule()
    def wait(self) -> None:
        self.room.driver.wait_ms(TIMEOUT_MS + 10_000)
        if self.room.state.is_two_phase:
            assert self.room.status() is TransactionStatus.ONGOING
            return
        assert self.room.status() is TransactionStatus.PREPARE_ABORT
        is_last = self.owner is None or self.owner.producer_epoch >= EPOCH_LAST
        self.asked_by, self.owner = None if is_last else self.owner, None
        self.forget()

    @precondition(lambda self: self.owner is not None and self.owner.producer_epoch < EPOCH_LAST - 3)
    @rule(epoch=st.sampled_from([EPOCH_LAST - 1, EPOCH_LAST]))
    def wear_out(self, epoch: int) -> None:
        """As if there had been thousands of transactions in between."""
        state = self.room.state
        if self.outcome is not None or self.is_kept:
            return
        self.room.put(replace(state, producer_epoch=epoch, previous_producer_id=-1))
        self.owner, self.asked_by = ProducerIdentity(state.producer_id, epoch), None
        self.given.append(self.owner)
        self.writer = self.writer and self.owner

    # What always holds.

    @property
    def errand(self) -> SendMarkers | None:
        errands = self.room.errands
        assert len(errands) <= 1
        return errands[0] if errands else None

    @invariant()
    def only_the_owner_may_write(self) -> None:
        if not self.room.driver.log:
            return
        state = self.room.state
        assert state.producer_epoch <= EPOCH_MAX
        if self.owner is not None:
            assert state.owner == self.owner
        assert state.status.is_decided == (self.outcome is not None)
        assert (state.status is TransactionStatus.ONGOING) == (self.writer is not None)
        if self.writer is not None:
            assert (state.writer, set(state.partitions)) == (self.writer, self.members)
        valid = [pair for pair in self.given if self.room.join(pair, *state.partitions, is_verification=True) is NONE]
        assert len(valid) <= 1, "never two who may write"

    @invariant()
    def markers_fence_whoever_wrote(self) -> None:
        if self.room.version is TransactionVersion.TWO:
            assert len(set(self.markers)) == len(self.markers)


class LongStorm(TransactionStorm):
    """More of the same."""


TestStorm = pytest.mark.slow(TransactionStorm.TestCase)
TestStorm.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

TestLongStorm = pytest.mark.proof(pytest.mark.timeout(600)(LongStorm.TestCase))
TestLongStorm.settings = settings(max_examples=600, stateful_step_count=80, deadline=None)
