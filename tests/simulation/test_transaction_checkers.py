"""The checkers of transactions can speak: each is shown what it guards against, and something much like it that is allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.views import snapshot, view
from tidelog.coordinator.transaction.states import EPOCH_MAX, TransactionState, TransactionStatus, TransactionVersion
from tidelog.model import Offset, TopicPartition
from tidelog.simulation.checkers import (
    AbortedListsAgree,
    Checker,
    EndChecker,
    NoAbortedRead,
    NothingAbortedWasRead,
    NoTornTransaction,
    OffsetsMoveWithOutput,
    TransactionsApart,
    TransactionsEnded,
    TransactionsOnce,
    ZombiesEndNothing,
)
from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.checkers.transaction_logs import LoggedTransaction, TransactionLog
from tidelog.simulation.checkers.transaction_states import wrong_step
from tidelog.simulation.checkers.transactions_end import undecided
from tidelog.simulation.transaction_history import Fate, Incarnation, Source, Transaction, TransactionHistory
from tidelog.simulation.workloads import History

L0, L1, C0 = TopicPartition("ledger", 0), TopicPartition("ledger", 1), TopicPartition("copies", 0)


def says(checker: Checker) -> list[str]:
    return list(checker.look(snapshot()))


def ready(history: TransactionHistory, process: str = "a", *, is_two_phase: bool = False) -> Incarnation:
    incarnation = history.incarnate("t", process, is_two_phase=is_two_phase)
    history.ready(incarnation)
    return incarnation


def transfer(history: TransactionHistory, by: Incarnation) -> Transaction:
    """Five from one partition to the other; its values are t.N/0 and t.N/1."""
    transaction = history.begin(by)
    history.write(transaction, L0, amount=-5)
    history.write(transaction, L1, amount=5)
    return transaction


def committed(history: TransactionHistory, by: Incarnation) -> Transaction:
    transaction = transfer(history, by)
    asked = history.ask_commit(transaction, by)
    history.answer(transaction, Fate.COMMITTED, asked)
    return transaction


def ending(
    history: History,
    seen: dict[TopicPartition, dict[Offset, bytes]],
    *,
    logs: dict[TopicPartition, dict[int, TransactionLog]] | None = None,
    offsets: dict[TopicPartition, Offset] | None = None,
) -> Ending:
    return Ending(
        history=history,
        snapshot=snapshot(),
        contents={},
        consumed={},
        cluster=None,  # type: ignore[arg-type]
        committed_offsets={"g": offsets or {}},
        committed=seen,
        transaction_logs=logs or {},
    )


def verdict(checker: EndChecker, end: Ending) -> str:
    """The first sentence; empty where all is well."""
    return next(iter(checker.verdict(end)), "")


def logged(
    first: Offset, values: list[bytes], *, is_committed: bool | None = True, epoch: int = 0, marker_epoch: int = 1
) -> LoggedTransaction:
    """What one producer wrote from an offset on, and the marker behind it."""
    return LoggedTransaction(
        producer_id=7,
        first_offset=first,
        epochs=[epoch] * len(values),
        values=dict(enumerate(values, first)),
        marker_offset=None if is_committed is None else first + len(values),
        marker_epoch=None if is_committed is None else marker_epoch,
        is_committed=is_committed,
    )


def log(*transactions: LoggedTransaction, aborted: tuple[tuple[int, Offset], ...] = ()) -> TransactionLog:
    return TransactionLog(transactions=transactions, aborted=aborted)


# Nothing aborted is read.


def test_what_was_committed_or_is_being_committed_may_be_read() -> None:
    history = TransactionHistory()
    a = ready(history)
    committed(history, a)
    under_way = transfer(history, a)
    history.ask_commit(under_way, a)
    history.read("r", L0, 0, b"t.1/0")
    history.read("r", L0, 2, b"t.2/0")
    assert not says(NoAbortedRead(history))


@pytest.mark.parametrize("fate", [Fate.OPEN, Fate.ABORTED])
def test_a_record_of_an_open_or_aborted_transaction_that_is_read_is_found(fate: Fate) -> None:
    history = TransactionHistory()
    transaction = transfer(history, ready(history))
    if fate is not Fate.OPEN:
        history.answer(transaction, fate)
    history.read("r", L0, 0, b"t.1/0")
    assert f"of a transaction that is {fate.value}" in says(NoAbortedRead(history))[0]


def test_an_abort_that_becomes_known_later_condemns_what_was_read_before() -> None:
    history = History()
    a = ready(history.transactions)
    transaction = transfer(history.transactions, a)
    history.transactions.ask_commit(transaction, a)
    history.transactions.read("r", L0, 0, b"t.1/0")
    checker = NoAbortedRead(history.transactions)
    assert not says(checker)
    history.transactions.answer(transaction, Fate.ABORTED)
    assert not says(checker)
    assert "r was given b't.1/0'" in verdict(NothingAbortedWasRead(), ending(history, {}))


def test_a_value_of_nobody_is_found() -> None:
    assert "of no transaction" in verdict(NothingAbortedWasRead(), ending(History(), {L0: {0: b"what/0"}}))


# Torn transactions.


def test_a_transaction_that_is_seen_as_a_whole_or_not_at_all_is_not_torn() -> None:
    history = History()
    a = ready(history.transactions)
    committed(history.transactions, a)
    transfer(history.transactions, a)
    assert not verdict(NoTornTransaction(), ending(history, {L0: {0: b"t.1/0"}, L1: {0: b"t.1/1"}}))


def test_a_half_of_a_transaction_is_found_by_its_records_and_by_its_amounts() -> None:
    history = History()
    committed(history.transactions, ready(history.transactions))
    found = list(NoTornTransaction().verdict(ending(history, {L0: {0: b"t.1/0"}, L1: {}})))
    assert "1 of 2 records of t.1" in found[0]
    assert "finds -5 in all accounts" in found[1]


def test_a_reader_that_was_given_a_half_only_is_found() -> None:
    history = History()
    committed(history.transactions, ready(history.transactions))
    history.transactions.read("r", L1, 0, b"t.1/1")
    end = ending(history, {L0: {0: b"t.1/0"}, L1: {0: b"t.1/1"}})
    assert "r was given 1 of 2 records of t.1 (committed)" in verdict(NoTornTransaction(), end)


def test_a_transaction_that_is_committed_here_and_aborted_there_is_found() -> None:
    history = History()
    transfer(history.transactions, ready(history.transactions))
    logs = {L0: {1: log(logged(0, [b"t.1/0"]))}, L1: {1: log(logged(0, [b"t.1/1"], is_committed=False))}}
    assert "committed in ledger-0 and aborted in ledger-1" in verdict(
        NoTornTransaction(), ending(history, {}, logs=logs)
    )


# What was committed is there once.


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        ({L0: {0: b"t.1/0"}, L1: {0: b"t.1/1"}}, ""),
        ({L0: {}, L1: {}}, "is nowhere"),
        ({L0: {0: b"t.1/0", 3: b"t.1/0"}, L1: {0: b"t.1/1"}}, "at offset 3 of ledger-0 and at 0 of ledger-0"),
        ({L0: {0: b"t.1/1"}, L1: {0: b"t.1/0"}}, "was committed to ledger-0, and is at offset 0 of ledger-1"),
    ],
)
def test_what_is_lost_or_doubled_or_elsewhere_is_found(seen: dict[TopicPartition, dict[int, bytes]], word: str) -> None:
    history = History()
    committed(history.transactions, ready(history.transactions))
    found = verdict(TransactionsOnce(), ending(history, seen))
    assert word in found
    assert bool(word) is bool(found)


def test_a_transaction_of_unknown_fate_may_be_there_or_not_and_then_be_learned() -> None:
    history = History()
    transaction = transfer(history.transactions, ready(history.transactions))
    history.transactions.answer(transaction, Fate.UNKNOWN)
    assert not verdict(TransactionsOnce(), ending(history, {L0: {}, L1: {}}))
    history.transactions.answer(transaction, Fate.COMMITTED)
    assert "is nowhere" in verdict(TransactionsOnce(), ending(history, {L0: {}, L1: {}}))


def test_who_is_told_of_a_commit_and_of_an_abort_is_found() -> None:
    history = History()
    transaction = committed(history.transactions, ready(history.transactions))
    history.transactions.answer(transaction, Fate.UNKNOWN)
    seen = {L0: {0: b"t.1/0"}, L1: {0: b"t.1/1"}}
    assert not verdict(TransactionsOnce(), ending(history, seen))
    history.transactions.answer(transaction, Fate.ABORTED)
    assert "committed, and to be aborted" in verdict(TransactionsOnce(), ending(history, seen))


# Transactions stay apart.


def two_transfers() -> History:
    history = History()
    a = ready(history.transactions)
    transfer(history.transactions, a)
    transfer(history.transactions, a)
    return history


def test_transactions_one_after_the_other_stay_apart() -> None:
    logs = {L0: {1: log(logged(0, [b"t.1/0"]), logged(2, [b"t.2/0"], is_committed=None))}}
    assert not verdict(TransactionsApart(), ending(two_transfers(), {}, logs=logs))


@pytest.mark.parametrize(
    ("transactions", "word"),
    [
        ([logged(0, [b"t.1/0", b"t.2/0"])], "records of t.1 and t.2 in one transaction"),
        ([logged(0, [b"t.1/0"]), logged(2, [b"t.1/1"])], "records of t.1 also after its marker at 1"),
        ([logged(0, [b"t.1/0"], epoch=2)], "a marker of epoch 1 at 1 for a transaction of epoch 2"),
        ([replace(logged(0, [b"t.1/0"]), epochs=[0, 1])], "batches of the epochs [0, 1]"),
    ],
)
def test_transactions_that_are_mixed_are_found(transactions: list[LoggedTransaction], word: str) -> None:
    logs = {L0: {1: log(*transactions)}}
    assert word in verdict(TransactionsApart(), ending(two_transfers(), {}, logs=logs))


# Aborted lists.


ABORTED = logged(3, [b"t.1/0"], is_committed=False)


@pytest.mark.parametrize(
    ("logs", "word"),
    [
        ({1: log(ABORTED, aborted=((7, 3),)), 2: log(ABORTED, aborted=((7, 3),))}, ""),
        ({1: log(ABORTED)}, "that [] (producer, first offset) were aborted; by its log [(7, 3)] were"),
        ({1: log(logged(3, [b"x"]), aborted=((7, 3),))}, "by its log [] were"),
        ({1: log(ABORTED, aborted=((7, 3),)), 2: log()}, "do not agree"),
    ],
)
def test_an_index_that_is_not_as_the_log_says_is_found(logs: dict[int, TransactionLog], word: str) -> None:
    found = verdict(AbortedListsAgree(), ending(History(), {}, logs={L0: logs}))
    assert word in found
    assert bool(word) is bool(found)


# Every transaction ends.


def test_a_last_stable_offset_below_the_high_watermark_is_found() -> None:
    stable = view(end=5)
    assert not list(undecided(snapshot(stable)))
    assert "stable up to 3" in next(undecided(snapshot(replace(stable, last_stable_offset=3))))


def test_a_transaction_without_a_marker_is_found() -> None:
    logs = {L0: {2: log(logged(4, [b"t.1/0"], is_committed=None))}}
    assert "has no marker for what producer 7 began at 4" in verdict(
        TransactionsEnded(), ending(History(), {}, logs=logs)
    )
    assert not verdict(TransactionsEnded(), ending(History(), {}, logs={L0: {2: log(logged(4, [b"t.1/0"]))}}))


# Offsets move with output.


def copied(*sources: Offset) -> tuple[History, dict[TopicPartition, dict[Offset, bytes]]]:
    """A ledger of two records, and copies of some offsets of it."""
    history = History()
    history.transactions.copied["g"] = ("ledger", "copies")
    transaction = history.transactions.begin(ready(history.transactions))
    values = [history.transactions.write(transaction, C0, source=Source(L0, offset)) for offset in sources]
    return history, {L0: {0: b"x.1/0", 1: b"x.1/1"}, C0: dict(enumerate(values))}


@pytest.mark.parametrize(
    ("sources", "offset", "word"),
    [
        ((0, 1), 3, ""),
        ((0,), 1, ""),
        ((0,), 3, "at offset 1 of ledger-0 has 0 copies in copies, and g has committed 3"),
        ((0, 1), 1, "at offset 1 of ledger-0 has 1 copies in copies, and g has committed 1"),
        ((0, 0, 1), 2, "at offset 0 of ledger-0 has 2 copies"),
    ],
)
def test_copies_without_offsets_and_offsets_without_copies_are_found(
    sources: tuple[int, ...], offset: Offset, word: str
) -> None:
    history, seen = copied(*sources)
    found = verdict(OffsetsMoveWithOutput(), ending(history, seen, offsets={L0: offset}))
    assert word in found
    assert bool(word) is bool(found)


# Zombies.


def test_who_asked_before_its_successor_was_ready_may_be_answered_later() -> None:
    history = TransactionHistory()
    a = ready(history)
    transaction = transfer(history, a)
    asked = history.ask_commit(transaction, a)
    ready(history, "b")
    history.acknowledge(transaction, b"t.1/0")
    history.answer(transaction, Fate.COMMITTED, asked)
    assert not says(ZombiesEndNothing(history))


def test_a_zombie_that_commits_or_writes_is_found() -> None:
    history = TransactionHistory()
    a = ready(history)
    ready(history, "b")
    transaction = committed(history, a)
    assert (
        "a, whose successor had been told that it may write, has committed t.1" in says(ZombiesEndNothing(history))[0]
    )
    history.acknowledge(transaction, b"t.1/1")
    assert any("told that b't.1/1' is there" in each for each in says(ZombiesEndNothing(history)))


def test_a_successor_may_commit_what_its_predecessor_has_prepared() -> None:
    history = TransactionHistory()
    transaction = transfer(history, ready(history, is_two_phase=True))
    b = ready(history, "b", is_two_phase=True)
    asked = history.ask_commit(transaction, b)
    history.answer(transaction, Fate.COMMITTED, asked)
    assert not says(ZombiesEndNothing(history))


# From state to state.


def state(
    status: TransactionStatus, *, epoch: int = 1, partitions: tuple[TopicPartition, ...] = ()
) -> TransactionState:
    return TransactionState(
        transactional_id="t", producer_id=7, producer_epoch=epoch, timeout_ms=1, status=status, partitions=partitions
    )


def given_up(*partitions: TopicPartition) -> TransactionState:
    """These have met a later epoch of the producer, whose id nobody may use any more."""
    return replace(
        state(TransactionStatus.PREPARE_ABORT, epoch=EPOCH_MAX, partitions=partitions),
        next_producer_id=8,
        next_producer_epoch=0,
    )


S = TransactionStatus
EMPTY = state(S.EMPTY)
OPEN = state(S.ONGOING, partitions=(L0,))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, EMPTY),
        (EMPTY, None),
        (EMPTY, OPEN),
        (OPEN, state(S.ONGOING, partitions=(L0, L1))),
        (OPEN, state(S.PREPARE_COMMIT, partitions=(L0,), epoch=2)),
        (state(S.PREPARE_ABORT, partitions=(L0,)), state(S.COMPLETE_ABORT)),
        (state(S.COMPLETE_COMMIT), OPEN),
        (state(S.COMPLETE_COMMIT), EMPTY),
        (EMPTY, replace(state(S.COMPLETE_ABORT), client_version=TransactionVersion.TWO)),
        (state(S.PREPARE_COMMIT, partitions=(L0, L1)), given_up(L0)),
        (state(S.PREPARE_ABORT, partitions=(L0, L1)), given_up(L0, L1)),
        (given_up(L0), state(S.COMPLETE_ABORT, epoch=EPOCH_MAX)),
    ],
)
def test_a_step_that_may_be_taken_is_not_wrong(before: TransactionState | None, after: TransactionState | None) -> None:
    assert not list(wrong_step(before, after))


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (None, OPEN, "begins in Ongoing"),
        (OPEN, None, "is forgotten in Ongoing"),
        (EMPTY, state(S.PREPARE_COMMIT), "from Empty to PrepareCommit"),
        (EMPTY, state(S.COMPLETE_ABORT), "from Empty to CompleteAbort"),
        (OPEN, EMPTY, "from Ongoing to Empty"),
        (OPEN, state(S.COMPLETE_COMMIT), "from Ongoing to CompleteCommit"),
        (state(S.PREPARE_COMMIT), state(S.PREPARE_ABORT), "from PrepareCommit to PrepareAbort"),
        (state(S.PREPARE_COMMIT), state(S.COMPLETE_ABORT), "from PrepareCommit to CompleteAbort"),
        (EMPTY, given_up(L0), "from Empty to PrepareAbort"),
        (state(S.PREPARE_COMMIT, partitions=(L0,)), given_up(L0, L1), "from PrepareCommit to PrepareAbort"),
        (given_up(L0), given_up(L0), "from PrepareAbort to PrepareAbort"),
        (state(S.EMPTY, epoch=3), EMPTY, "from epoch 3 to 1"),
        (OPEN, state(S.ONGOING, partitions=(L1,)), "loses"),
        (state(S.PREPARE_COMMIT), state(S.COMPLETE_COMMIT, partitions=(L0,)), "in CompleteCommit"),
    ],
)
def test_a_step_that_may_not_be_taken_is_found(
    before: TransactionState | None, after: TransactionState | None, word: str
) -> None:
    assert any(word in each for each in wrong_step(before, after))
