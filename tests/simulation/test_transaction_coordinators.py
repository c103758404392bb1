"""Coordinators of transactions under faults, row by row of the fault matrix (T13, T14, T18), and what readers see meanwhile (T15)."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.by_hand import STATE, T0, ByHand, Line, bank, open_bank, seen, status_of, until_stable
from tests.simulation.clusters import heal, kills
from tests.simulation.story import passed
from tests.simulation.workload import properties
from tidelog.client import Admin, ClientConfig, Consumer, ConsumerConfig, ElectionKind, Producer, ProducerConfig
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.messages import Kind
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

pytestmark = pytest.mark.slow

VERSIONS = pytest.mark.parametrize("version", [1, 2], ids=["old", "new"])
OUTCOMES = pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
U0 = TopicPartition("u", 0)


def written_to_both(cluster: SimulatedCluster, version: int) -> ByHand:
    """A transaction with a record in each of two partitions, which have different leaders."""
    one = ByHand(cluster, version=version)
    one.init()
    one.join(one.line(), T0, U0)
    assert one.produce(b"here", line=one.line(1)) is ErrorCode.NONE
    assert one.produce(b"there", U0, line=one.line(2)) is ErrorCode.NONE
    return one


# T13.


@kills
@VERSIONS
@OUTCOMES
def test_t13_markers_that_a_coordinator_dies_over_are_written_by_the_next(version: int, *, committed: bool) -> None:
    """The outcome is decided and told; one partition has its marker, the other has not."""
    with bank() as cluster:
        open_bank(cluster)
        one = written_to_both(cluster, version)
        messages = cluster.world.fabric.watch_messages()
        gate = messages.hold(Kind(host="broker-2", api_key=ApiKey.WRITE_TXN_MARKERS, is_answer=False))
        assert one.end(one.line(), committed=committed) is ErrorCode.NONE
        cluster.until(lambda: gate.is_blocking, "the marker for t is on its way")
        until_stable(cluster, U0)
        decided = "PrepareCommit" if committed else "PrepareAbort"
        assert status_of(cluster) == decided
        cluster.world.run_for_ms(3_000)
        assert status_of(cluster) == decided
        assert seen(cluster) == [], "nobody sees half of it as long as the other half may be missing"
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(STATE).leader != 2, "another coordinates")
        until_stable(cluster, T0)
        cluster.until(lambda: status_of(cluster) == decided.replace("Prepare", "Complete"), "it is complete")
        heal(cluster, T0, U0, STATE)
        assert seen(cluster) == (["here"] if committed else [])
        assert seen(cluster, "u") == (["there"] if committed else [])
        assert one.init().error_code is ErrorCode.NONE


def marker(one: ByHand, *, coordinator_epoch: int, epoch: int | None = None) -> WriteTxnMarkersRequest:
    """That a transaction was aborted in `t`."""
    return WriteTxnMarkersRequest(
        markers=(
            WritableTxnMarker(
                producer_id=one.identity.producer_id,
                producer_epoch=one.identity.producer_epoch if epoch is None else epoch,
                transaction_result=False,
                topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(0,)),),
                coordinator_epoch=coordinator_epoch,
            ),
        )
    )


@kills
@VERSIONS
def test_t13_a_marker_of_an_earlier_coordinator_is_refused_where_a_later_one_has_written(version: int) -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = written_to_both(cluster, version)
        before = cluster.state(STATE).leader_epoch
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(STATE).leader != 2, "another coordinates")
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)
        cluster.until(lambda: status_of(cluster) == "CompleteCommit", "it is complete")
        one.join(one.line(), T0)
        sequence = 1 if version == 1 else 0
        assert one.produce(b"next", line=one.line(1), sequence=sequence) is ErrorCode.NONE
        late = marker(one, coordinator_epoch=before, epoch=one.identity.producer_epoch + 1)
        answer = one.line(1).ask(late, 1).markers[0].topics[0].partitions[0]
        assert answer.error_code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)
        assert seen(cluster) == ["here", "next"]


def open_later(one: ByHand, *, by: int) -> None:
    """Have `t` know a later epoch than the coordinator does, and something open under it, as after a power cut that took less of `t`."""
    known = one.identity
    one.identity = ProducerIdentity(known.producer_id, known.producer_epoch + by)
    answer = one.line(1).ask(marker(one, coordinator_epoch=0), 1).markers[0].topics[0].partitions[0]
    assert answer.error_code is ErrorCode.NONE
    request, _ = one.produce_request(b"forgotten", sequence=0)
    assert one.line(1).ask(request, 11).responses[0].partition_responses[0].error_code is ErrorCode.NONE
    one.identity = known


@kills
@VERSIONS
@OUTCOMES
def test_what_a_partition_has_open_under_a_forgotten_epoch_is_aborted_whoever_dies_over_it(
    version: int, *, committed: bool
) -> None:
    """Nobody else would ever end it: readers of the partition would wait until an operator found it."""
    with bank(transaction_partition_verification_enable="false") as cluster:
        open_bank(cluster)
        one = written_to_both(cluster, version)
        open_later(one, by=5)
        messages = cluster.world.fabric.watch_messages()
        kind = Kind(host="broker-2", api_key=ApiKey.WRITE_TXN_MARKERS, is_answer=False)
        gate = messages.hold(kind)
        assert one.end(one.line(), committed=committed) is ErrorCode.NONE
        cluster.until(lambda: gate.is_blocking, "the marker for t is on its way")
        messages.step(gate)  # It is refused.
        cluster.until(lambda: gate.is_blocking, "what is open there is to be aborted")
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(STATE).leader != 2, "another coordinates")
        until_stable(cluster, T0, U0)
        cluster.until(lambda: status_of(cluster) == "CompleteAbort", "the producer id is given up")
        heal(cluster, T0, U0, STATE)
        assert seen(cluster) == []
        assert seen(cluster, "u") == (["there"] if committed else [])
        former = one.identity.producer_id
        assert one.init().error_code is ErrorCode.NONE
        assert one.identity.producer_id != former
        one.join(one.line(), T0)
        assert one.produce(b"next", line=one.line(1)) is ErrorCode.NONE
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)
        assert seen(cluster) == ["next"]


@kills
@VERSIONS
def test_a_partition_that_refuses_a_marker_does_not_leave_its_transaction_in_prepare(version: int) -> None:
    """INVALID_PRODUCER_EPOCH ends it in Kafka's coordinator: the id is in Prepare until another one loads it, and then again."""
    with bank(transaction_partition_verification_enable="false") as cluster:
        open_bank(cluster)
        one = written_to_both(cluster, version)
        open_later(one, by=5)
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        until_stable(cluster, T0, U0)
        cluster.until(lambda: status_of(cluster) == "CompleteAbort", "the producer id is given up")
        assert (seen(cluster), seen(cluster, "u")) == ([], ["there"])
        assert one.init().error_code is ErrorCode.NONE


# T14.


@kills
def test_t14_a_coordinator_that_loads_says_so_and_knows_what_the_last_one_knew() -> None:
    """Asked at every broker all the time while it moves: one answer at most is not that somebody else is to be asked, or later."""
    elsewhere = {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
    with bank() as cluster:
        open_bank(cluster)
        one = written_to_both(cluster, 1)
        lines = [one.line(1), one.line(3)]
        cluster.brokers[2].kill()
        codes: set[ErrorCode] = set()
        for _ in range(4_000):
            answers = [one.add(T0, line=line)[0] for line in lines]
            codes.update(answers)
            assert answers.count(ErrorCode.NONE) <= 1
            assert set(answers) <= elsewhere | {ErrorCode.NONE}
            if ErrorCode.NONE in answers:
                break
        assert ErrorCode.NONE in codes, "somebody coordinates in the end"
        assert codes & elsewhere
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        heal(cluster, T0, U0, STATE)
        until_stable(cluster, T0, U0)
        assert seen(cluster) == ["here"]
        assert seen(cluster, "u") == ["there"]


@VERSIONS
def test_t14_a_coordinator_that_moves_in_every_phase_finishes_what_the_last_one_began(version: int) -> None:
    """It goes from broker to broker before each step of each of a few transactions."""
    with bank() as cluster:
        open_bank(cluster)
        one = ByHand(cluster, version=version)
        one.init()
        turn = 0

        def move() -> None:
            nonlocal turn
            turn += 1
            order = [1 + (turn + n) % 3 for n in range(3)]

            async def story(runtime: Runtime) -> None:
                async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
                    assert (await admin.alter_reassignments({STATE: order}))[STATE].is_ok
                    await admin.elect_leaders(ElectionKind.PREFERRED, [STATE])

            cluster.tell(story)
            cluster.until(lambda: cluster.state(STATE).leader == order[0], "another coordinates")
            cluster.until(
                lambda: status_of(cluster) not in ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"), "it can"
            )

        sequence = 0
        for number in range(3):
            move()
            one.join(one.line(), T0)
            move()
            value = b"m%d" % number
            cluster.until(
                lambda: one.produce(value, line=one.line(1), sequence=sequence) is ErrorCode.NONE,  # noqa: B023
                "the record is taken",
            )
            sequence = sequence + 1 if version == 1 else 0
            move()
            assert one.end(one.line(), committed=number != 1) is ErrorCode.NONE
            move()
        until_stable(cluster, T0)
        assert seen(cluster) == ["m0", "m2"]


# T15.


def test_t15_a_reader_that_fetches_all_the_time_is_given_nothing_that_was_aborted() -> None:
    """Each fetch waits at the leader while records come, are aborted and committed: bounds and list are of one moment."""
    with bank(seed=3) as cluster:
        open_bank(cluster)
        found: list[str] = []
        is_over = False

        async def write(runtime: Runtime) -> None:
            config = ProducerConfig.from_properties(properties(cluster, transactional_id="writer", linger_ms="0"))
            async with Producer.connect(config, runtime) as producer:
                await producer.init_transactions()
                for number in range(40):
                    producer.begin_transaction()
                    word = "bad" if number % 2 else "good"
                    for _ in range(3):
                        await (await producer.send("t", f"{word}{number}".encode(), partition=0))
                    await (producer.abort_transaction() if number % 2 else producer.commit_transaction())

        async def read(runtime: Runtime) -> None:
            config = ConsumerConfig.from_properties(
                properties(cluster, auto_offset_reset="earliest", isolation_level="read_committed")
            )
            async with Consumer.connect(config, runtime) as consumer:
                consumer.assign([T0])
                while not is_over:
                    found.extend((record.value or b"").decode() for record in await consumer.poll(timeout_ms=20))

        client = cluster.client
        reading = client.spawn(read(client.runtime))
        cluster.tell(write)
        until_stable(cluster, T0)
        cluster.world.run_for_ms(1_000)
        is_over = True

        async def ended() -> None:
            await reading

        cluster.world.run(ended())
        assert found == [f"good{number}" for number in range(0, 40, 2) for _ in range(3)]


# T18.


@VERSIONS
def test_t18_a_batch_that_could_not_be_verified_is_sent_again_and_the_next_waits_for_it(version: int) -> None:
    """The leader does not reach the coordinator. What it says is known to the client, and its numbers stay in order."""
    with bank() as cluster:
        open_bank(cluster)
        one = ByHand(cluster, version=version)
        one.init()
        one.join(one.line(), T0)
        cluster.world.fabric.faults.partition(["broker-1"], ["broker-2"])
        line = one.line(1)
        first, second = one.produce_request(b"m0", sequence=0), one.produce_request(b"m1", sequence=1)
        answers = [line.begin(*each) for each in (first, second)]
        codes = [_code(cluster, answer) for answer in answers]
        assert codes[0] is ErrorCode.NOT_ENOUGH_REPLICAS
        assert codes[1] in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        cluster.world.fabric.faults.heal()
        assert _sent_until_taken(cluster, line, first) is ErrorCode.NONE
        assert _sent_until_taken(cluster, line, second) is ErrorCode.NONE
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)
        assert seen(cluster) == ["m0", "m1"]


@VERSIONS
def test_t18_a_client_goes_on_where_its_leader_did_not_reach_the_coordinator(version: int) -> None:
    with bank() as cluster:
        open_bank(cluster)

        async def write(runtime: Runtime) -> None:
            settings = properties(cluster, transactional_id="bank", linger_ms="0")
            config = ProducerConfig.from_properties({**settings, "tidelog.transaction.version.max": str(version)})
            async with Producer.connect(config, runtime) as producer:
                await producer.init_transactions()
                producer.begin_transaction()
                cluster.world.fabric.faults.partition(["broker-1"], ["broker-2"])
                for number in range(20):
                    await producer.send("t", b"%d" % number, partition=0)
                await passed(2)
                cluster.world.fabric.faults.heal()
                await producer.commit_transaction()

        cluster.tell(write)
        until_stable(cluster, T0)
        assert seen(cluster) == [str(number) for number in range(20)]


def _code(cluster: SimulatedCluster, answer: asyncio.Future[ProduceResponse]) -> ErrorCode:
    async def wait(_: Runtime) -> ProduceResponse:
        return await answer

    return cluster.tell(wait).responses[0].partition_responses[0].error_code


def _sent_until_taken(cluster: SimulatedCluster, line: Line, request: tuple[ProduceRequest, int]) -> ErrorCode:
    code = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(100):
        code = _code(cluster, line.begin(*request))
        if code is not ErrorCode.NOT_ENOUGH_REPLICAS:
            break
        cluster.world.run_for_ms(100)
    return code
