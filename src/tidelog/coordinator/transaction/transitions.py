"""How a transactional id goes from one state to the next. Each step is a new state; whether it may be taken is decided elsewhere.

A producer is fenced by an epoch above its own. So whoever is to be the owner gets the next epoch, and where epochs are used up the first one
of a new producer id. The markers of a transaction always are in the name of the id that wrote it, under an epoch of which nothing was
written, unless the producer only speaks version 1.
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.coordinator.transaction.settings import ProducerIdSource
from tidelog.coordinator.transaction.states import (
    EPOCH_LAST,
    EPOCH_MAX,
    TransactionState,
    TransactionStatus,
    TransactionVersion,
)
from tidelog.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ApiError,
    ErrorCode,
    ProducerId,
    ProducerIdentity,
    TimestampMs,
    TopicPartition,
)


def take_id(ids: ProducerIdSource) -> ProducerId:
    """A new producer id. Raises ApiError while there is none, and whoever asks will ask again."""
    producer_id = ids.take()
    if producer_id is None:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return producer_id


def successor_of(owner: ProducerIdentity, ids: ProducerIdSource, *, by: int = 1) -> ProducerIdentity:
    """The pair that fences this one, and whoever was given an epoch in between. Raises ApiError."""
    if owner.producer_epoch + by > EPOCH_LAST:
        return ProducerIdentity(take_id(ids), 0)
    return ProducerIdentity(owner.producer_id, owner.producer_epoch + by)


def initialised(
    state: TransactionState, owner: ProducerIdentity, *, previous: ProducerId, timeout_ms: int, now_ms: TimestampMs
) -> TransactionState:
    """Nothing is open, and this is who may write from now on."""
    return replace(
        state,
        producer_id=owner.producer_id,
        producer_epoch=owner.producer_epoch,
        timeout_ms=timeout_ms,
        status=TransactionStatus.EMPTY,
        partitions=(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=later(state, now_ms),
        previous_producer_id=previous,
        client_version=TransactionVersion.ZERO,
    )


def kept(
    state: TransactionState, keeper: ProducerIdentity, *, previous: ProducerId, timeout_ms: int, now_ms: TimestampMs
) -> TransactionState:
    """The transaction stays open, and only this pair may end it."""
    return replace(
        state,
        timeout_ms=timeout_ms,
        last_update_ms=later(state, now_ms),
        previous_producer_id=previous,
        next_producer_id=keeper.producer_id,
        next_producer_epoch=keeper.producer_epoch,
        client_version=TransactionVersion.TWO,
    )


def joined(
    state: TransactionState,
    partitions: tuple[TopicPartition, ...],
    *,
    client_version: TransactionVersion,
    now_ms: TimestampMs,
) -> TransactionState:
    """A transaction is open and has these partitions, too."""
    is_open = state.status is TransactionStatus.ONGOING
    # Those there are come in order: sorting takes no longer than looking at each of them.
    members = dict.fromkeys((*state.partitions, *partitions))
    return replace(
        state,
        status=TransactionStatus.ONGOING,
        partitions=tuple(sorted(members)),
        start_ms=state.start_ms if is_open else now_ms,
        last_update_ms=later(state, now_ms),
        previous_producer_id=NO_PRODUCER_ID,
        client_version=client_version,
    )


def decided_in_place(state: TransactionState, *, is_committed: bool, now_ms: TimestampMs) -> TransactionState:
    """The outcome is certain, and the owner stays who it is (version 1)."""
    return replace(
        state,
        status=TransactionStatus.PREPARE_COMMIT if is_committed else TransactionStatus.PREPARE_ABORT,
        last_update_ms=later(state, now_ms),
        client_version=TransactionVersion.ZERO,
    )


def decided(
    state: TransactionState, owner: ProducerIdentity, *, is_committed: bool, previous: ProducerId, now_ms: TimestampMs
) -> TransactionState:
    """The outcome is certain, and this is who may write when all partitions know it (version 2)."""
    is_same_id = owner.producer_id == state.producer_id
    return replace(
        state,
        # Pairs of the same id that were given out while the transaction was kept are fenced as well.
        producer_epoch=owner.producer_epoch if is_same_id else EPOCH_MAX,
        status=TransactionStatus.PREPARE_COMMIT if is_committed else TransactionStatus.PREPARE_ABORT,
        last_update_ms=later(state, now_ms),
        previous_producer_id=previous,
        next_producer_id=NO_PRODUCER_ID if is_same_id else owner.producer_id,
        next_producer_epoch=NO_PRODUCER_EPOCH if is_same_id else owner.producer_epoch,
        client_version=TransactionVersion.TWO,
    )


def fenced(
    state: TransactionState, *, previous: ProducerId, cluster: TransactionVersion, now_ms: TimestampMs
) -> TransactionState:
    """The transaction is aborted over the head of its owner, who is fenced; there always is an epoch left for that."""
    owner = state.owner
    after = ProducerIdentity(owner.producer_id, owner.producer_epoch + 1)
    aborted = decided(state, after, is_committed=False, previous=previous, now_ms=now_ms)
    return aborted if aborted.next_producer_id != NO_PRODUCER_ID else replace(aborted, client_version=cluster)


def completed(state: TransactionState, now_ms: TimestampMs) -> TransactionState:
    """All partitions know the outcome."""
    is_committed = state.status is TransactionStatus.PREPARE_COMMIT
    return replace(
        state,
        producer_id=state.owner.producer_id,
        producer_epoch=state.owner.producer_epoch,
        status=TransactionStatus.COMPLETE_COMMIT if is_committed else TransactionStatus.COMPLETE_ABORT,
        partitions=(),
        last_update_ms=later(state, now_ms),
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
    )


def given_up(
    state: TransactionState, refused: tuple[TopicPartition, ...], producer_id: ProducerId, now_ms: TimestampMs
) -> TransactionState:
    """All other partitions know the outcome. These abort what they have open under a producer id that nobody may use any more.

    Whoever comes next writes under another one, of which no partition can know anything. Any coordinator that reads this carries it out.
    """
    return replace(
        state,
        producer_epoch=EPOCH_MAX,
        status=TransactionStatus.PREPARE_ABORT,
        partitions=refused,
        last_update_ms=later(state, now_ms),
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=producer_id,
        next_producer_epoch=0,
        client_version=TransactionVersion.ZERO,  # The marker also ends what was written under the last epoch.
    )


def aborted_unopened(state: TransactionState, owner: ProducerIdentity, now_ms: TimestampMs) -> TransactionState:
    """A transaction that no partition knows of is aborted, and with it whatever of it is still under way (version 2)."""
    return completed(
        decided(state, owner, is_committed=False, previous=state.producer_id, now_ms=now_ms),
        now_ms,
    )


def later(state: TransactionState, now_ms: TimestampMs) -> TimestampMs:
    """Now, but after the last update even if the clock was put back or two things happen at once."""
    return max(now_ms, state.last_update_ms + 1)
