"""Three replicas of one partition and a controller in memory, for a test that plays fate.

Everything between them is a message that can be late, lost or repeated: states told by the controller, fetches and their answers, ISR
changes and theirs. Brokers are killed and come back with their log and an old watermark, lose the end of their log with the power, or are
taken for dead while they go on. The controller is as simple as it can be: it elects from the ISR only, and names nobody who is not live.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.partition.cluster_values import Asked, Broker, Change, Parked
from tests.partition.replicas import NOW, apply, batch, fetch
from tidelog.config import LogConfig
from tidelog.model import Acks, ApiError, BrokerId, ErrorCode, TopicPartition
from tidelog.partition import (
    FollowerRead,
    HighWatermarkAdvanced,
    IsrChangeWanted,
    IsrProposal,
    Leadership,
    Partition,
    PartitionEvent,
    ReplicationRules,
    delete_records,
)
from tidelog.storage import Opening, PartitionLog

BROKERS = (1, 2, 3)
LAG_MS = 100


class SmallCluster:
    """The world; every public method is one step of fate, and does nothing where it makes no sense."""

    def __init__(
        self, *, isr: tuple[BrokerId, ...] = BROKERS, min_isr: int = 2, flush_messages: int | None = None
    ) -> None:
        self.brokers = {broker_id: Broker(broker_id) for broker_id in BROKERS}
        self.live = set(BROKERS)
        self.state = Leadership(leader=isr[0], leader_epoch=0, partition_epoch=0, isr=isr, assignment=BROKERS)
        self._config = LogConfig(min_insync_replicas=min_isr, flush_messages=flush_messages)
        self.history = [self.state]
        self.monotonic_ms = 0.0
        self.fetches: dict[BrokerId, Asked] = {}
        self.changes: dict[BrokerId, Change] = {}
        self.parked: list[Parked] = []
        self.acked: dict[int, str] = {}
        self._produced = 0
        self.read: dict[BrokerId, tuple[tuple[int, ...], dict[int, str]]] = {}
        """What each log held, and which version of it."""
        for broker_id in BROKERS:
            self._boot(broker_id)
            self.tell(broker_id)

    # The processes.

    def kill(self, broker_id: BrokerId, *, checkpoints: bool) -> None:
        """End a process; its log stays, its watermark only if it was checkpointed just now."""
        broker = self.brokers[broker_id]
        if broker.replica is None:
            return
        if checkpoints:
            broker.checkpoint = broker.replica.high_watermark
        broker.replica.log.abandon()
        broker.replica = None

    def cut_power(self, broker_id: BrokerId, keep: float) -> None:
        """End a process and lose the end of its log, but for what flush.messages had it flush: then it returns as a member.

        Else the controller sees to it that it is in no ISR when it returns. Not the last member of the ISR: that such a loss is nobody's
        fault is for another test to show.
        """
        broker = self.brokers[broker_id]
        is_flushing = self._config.flush_messages == 1
        if broker.replica is None or (self.state.isr == (broker_id,) and not is_flushing):
            return
        log = broker.replica.log
        kept = int(keep * log.log_end_offset)
        log.truncate_to(max(kept, log.settled_end_offset) if is_flushing else kept, now_ms=NOW)
        self.kill(broker_id, checkpoints=False)
        if not is_flushing:
            self.live.discard(broker_id)
            self._remove_from_isr(broker_id)

    def flush(self, broker_id: BrokerId) -> None:
        """Let an fsync happen."""
        replica = self.brokers[broker_id].replica
        flush = None if replica is None else replica.log.start_flush()
        if replica is not None and flush is not None:
            flush.perform()
            self._perform(broker_id, replica.on_flushed(flush))

    def start(self, broker_id: BrokerId) -> None:
        """Bring a process up again; it registers anew."""
        if self.brokers[broker_id].replica is not None:
            return
        self.expire(broker_id)
        self._boot(broker_id)
        self.register(broker_id)

    def _boot(self, broker_id: BrokerId) -> None:
        broker = self.brokers[broker_id]
        log = PartitionLog.open(
            broker.disk, "/t-0", TopicPartition("t", 0), self._config, now_ms=NOW, opening=Opening(is_clean=False)
        )
        broker.replica = Partition(
            broker_id,
            log,
            high_watermark=broker.checkpoint,
            rules=ReplicationRules(lag_time_max_ms=LAG_MS),
            is_eligible=lambda other: other in self.live,
        )
        broker.life += 1
        broker.watermarks = {}

    # The controller.

    def expire(self, broker_id: BrokerId) -> None:
        """The controller takes a broker for dead, rightly or not: it leaves the ISR unless it is the last, and leads no longer."""
        if broker_id not in self.live:
            return
        self.live.discard(broker_id)
        self._remove_from_isr(broker_id)

    def register(self, broker_id: BrokerId) -> None:
        """A broker is there (again), under a new broker epoch."""
        broker = self.brokers[broker_id]
        if broker.replica is None or broker_id in self.live:
            return
        self.live.add(broker_id)
        broker.broker_epoch += 1
        broker.known_since = len(self.history) - 1
        if self.state.leader < 0:
            self._elect(self.state.isr)

    def elect(self, broker_id: BrokerId) -> None:
        """Move leadership to a live member of the ISR, without need."""
        if broker_id in self.state.isr and broker_id in self.live:
            self._write(leader=broker_id, leader_epoch=self.state.leader_epoch + 1, isr=self.state.isr)

    def hand_over(self, broker_id: BrokerId) -> None:
        """Move leadership, and everybody hears of it."""
        self.elect(broker_id)
        for each in BROKERS:
            self.tell(each)

    def tell(self, broker_id: BrokerId, *, age: int = 0) -> None:
        """Bring a broker the newest state, or one that was on its way for long."""
        replica = self.brokers[broker_id].replica
        if replica is None or broker_id not in self.live:
            return
        state = self.history[max(self.brokers[broker_id].known_since, len(self.history) - 1 - age)]
        if state.leader == broker_id:
            self._perform(broker_id, replica.become_leader(state, monotonic_ms=self.monotonic_ms))
        else:
            self._perform(broker_id, replica.become_follower(state, now_ms=NOW))

    def _remove_from_isr(self, broker_id: BrokerId) -> None:
        isr = tuple(each for each in self.state.isr if each != broker_id)
        if broker_id in self.state.isr or self.state.leader == broker_id:
            self._elect(isr or self.state.isr)

    def _elect(self, isr: tuple[BrokerId, ...]) -> None:
        is_kept = self.state.leader in isr and self.state.leader in self.live
        able = [each for each in isr if each in self.live]
        leader = self.state.leader if is_kept else able[0] if able else -1
        self._write(leader=leader, leader_epoch=self.state.leader_epoch + 1, isr=isr)

    def _write(self, *, leader: BrokerId, leader_epoch: int, isr: tuple[BrokerId, ...]) -> None:
        self.state = replace(
            self.state,
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=self.state.partition_epoch + 1,
            isr=isr,
        )
        self.history.append(self.state)

    # ISR changes.

    def decide(self, broker_id: BrokerId) -> None:
        """The controller takes a leader's ISR change, perhaps for the second time."""
        change = self.changes.get(broker_id)
        if change is not None:
            change.answer = self._decide(change.proposal)

    def answer_change(self, broker_id: BrokerId, *, is_lost: bool) -> None:
        """The answer to an ISR change arrives, or is lost."""
        broker, change = self.brokers[broker_id], self.changes.get(broker_id)
        if broker.replica is None or change is None or change.life != broker.life:
            self.changes.pop(broker_id, None)
            return
        answer = ErrorCode.NETWORK_EXCEPTION if is_lost else change.answer
        if answer is None:
            return
        del self.changes[broker_id]
        if isinstance(answer, ErrorCode):
            events = broker.replica.on_isr_refused(answer, self.monotonic_ms, proposal=change.proposal)
        else:
            events = broker.replica.on_isr_committed(
                answer.isr, answer.partition_epoch, answer.leader_epoch, self.monotonic_ms
            )
        self._perform(broker_id, events)

    def _decide(self, proposal: IsrProposal) -> Leadership | ErrorCode:
        state = self.state
        isr = tuple(broker_id for broker_id, _ in proposal.isr)
        if proposal.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if set(isr) == set(state.isr) and proposal.partition_epoch <= state.partition_epoch:
            return state
        if proposal.partition_epoch < state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for broker_id, broker_epoch in proposal.isr:
            if broker_id not in self.live or broker_epoch not in {-1, self.brokers[broker_id].broker_epoch}:
                return ErrorCode.INELIGIBLE_REPLICA
        self._write(leader=state.leader, leader_epoch=state.leader_epoch, isr=isr)
        return self.state

    # Fetching.

    def ask(self, broker_id: BrokerId) -> None:
        """A follower sends a fetch to whom it takes for the leader."""
        broker = self.brokers[broker_id]
        position = None if broker.replica is None else broker.replica.fetch_position()
        if broker.replica is None or position is None or broker.replica.leadership is None:
            return
        sent = fetch(
            broker_id,
            position.fetch_offset,
            epoch=position.leader_epoch,
            last=position.last_fetched_epoch,
            start=position.log_start_offset,
            incarnation=broker.broker_epoch,
        )
        self.fetches[broker_id] = Asked(broker.replica.leadership.leader, broker.life, position, sent)

    def serve(self, broker_id: BrokerId, *, max_bytes: int = 1 << 20) -> None:
        """The leader takes that fetch, perhaps for the second time."""
        asked = self.fetches.get(broker_id)
        leader = None if asked is None else self.brokers[asked.leader].replica
        if asked is None or leader is None:
            return
        try:
            asked.answer, events = leader.read_for_follower(
                asked.sent, max_bytes=max_bytes, at_least_one=True, monotonic_ms=self.monotonic_ms
            )
        except ApiError as error:
            asked.answer = error
            return
        self._perform(asked.leader, events)

    def receive(self, broker_id: BrokerId) -> None:
        """The follower gets its answer, and takes it if it still is where it asked from."""
        broker, asked = self.brokers[broker_id], self.fetches.pop(broker_id, None)
        if asked is None or asked.answer is None or broker.replica is None or asked.life != broker.life:
            return
        if broker.replica.fetch_position() != asked.position:
            return
        if isinstance(asked.answer, FollowerRead):
            self._perform(broker_id, apply(broker.replica, asked.answer))
        elif asked.answer.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(broker.replica, asked.leader)

    def _reset(self, follower: Partition, leader_id: BrokerId) -> None:
        leader = self.brokers[leader_id].replica
        if leader is None or not leader.is_leader or leader.leader_epoch != follower.leader_epoch:
            return
        follower.reset_to(
            leader_log_start_offset=leader.log.log_start_offset,
            leader_log_end_offset=leader.log.log_end_offset,
            now_ms=NOW,
        )

    def replicate(self, broker_id: BrokerId) -> None:
        """A fetch without trouble."""
        for step in (self.flush, self.ask, self.serve, self.receive):
            step(broker_id)

    def crawl(self, broker_id: BrokerId) -> None:
        """A fetch that gets one batch, of however many there are."""
        self.flush(broker_id)
        self.ask(broker_id)
        self.serve(broker_id, max_bytes=1)
        self.receive(broker_id)

    # Clients and time.

    def produce(self, broker_id: BrokerId, acks: Acks) -> None:
        """Somebody takes this broker for the leader, and may be wrong."""
        broker, value = self.brokers[broker_id], f"v{self._produced}"
        if broker.replica is None:
            return
        try:
            appended, events = broker.replica.append_as_leader(batch(value), acks=acks, produce_version=9, now_ms=NOW)
        except ApiError:
            return
        self._produced += 1
        if acks is Acks.ALL:
            reign = broker.replica.reign
            self.parked.append(Parked(broker_id, broker.life, reign, appended.base_offset, value))
        self._perform(broker_id, events)

    def produce_to(self, followers: Sequence[BrokerId], count: int) -> None:
        """The leader takes some records, and these followers hold them and say so."""
        if self.state.leader >= 0:
            for _ in range(count):
                self.produce(self.state.leader, Acks.ALL)
            self.flush(self.state.leader)
            for broker_id in (*followers, *followers):
                self.replicate(broker_id)

    def calm(self) -> None:
        """Everybody who is there hears the news, and every message arrives."""
        for step in (self.tell, self.flush, self.replicate, self.replicate, self.decide, self._answer_change):
            for broker_id in BROKERS:
                step(broker_id)

    def _answer_change(self, broker_id: BrokerId) -> None:
        self.answer_change(broker_id, is_lost=False)

    def forget(self, broker_id: BrokerId) -> None:
        """Delete what is committed."""
        replica = self.brokers[broker_id].replica
        if replica is not None and replica.is_leader:
            delete_records(replica, replica.high_watermark)

    def wait(self, broker_id: BrokerId, duration_ms: float) -> None:
        """Time passes, and a broker looks at its ISR."""
        self.monotonic_ms += duration_ms
        replica = self.brokers[broker_id].replica
        if replica is not None:
            self._perform(broker_id, replica.check_isr(self.monotonic_ms))

    def heal(self) -> None:
        """No more faults: everybody is up, and every message arrives."""
        for broker_id in BROKERS:
            self.start(broker_id)
            self.register(broker_id)
        for _ in range(60):
            self.calm()
            self.answer_producers()

    # What follows.

    def _perform(self, broker_id: BrokerId, events: list[PartitionEvent]) -> None:
        broker = self.brokers[broker_id]
        for event in events:
            if isinstance(event, IsrChangeWanted):
                self.changes[broker_id] = Change(event.proposal, broker.life)
            elif isinstance(event, HighWatermarkAdvanced) and broker.replica is not None and broker.replica.is_leader:
                assert len(broker.replica.isr) >= self._config.min_insync_replicas, "nothing is committed by too few"

    def answer_producers(self) -> None:
        """Whoever waits for acks=all looks whether it has them."""
        waiting = []
        for parked in self.parked:
            broker = self.brokers[parked.leader]
            if broker.replica is None or broker.life != parked.life:
                continue
            try:
                broker.replica.check_reign(parked.reign)
                is_done = broker.replica.is_settled(parked.offset + 1, Acks.ALL)
            except ApiError:
                continue
            if is_done:
                assert self.acked.setdefault(parked.offset, parked.value) == parked.value, "two records at one offset"
            else:
                waiting.append(parked)
        self.parked = waiting
