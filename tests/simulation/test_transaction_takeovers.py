"""Who takes over the transactions of another (T13, T14): what was decided comes true whoever dies, and nobody answers who does not know."""

from __future__ import annotations

import pytest

from tests.simulation.by_hand import ID, STATE, T0, ByHand, Line, bank, open_bank, seen, status_of, until_stable
from tests.simulation.clusters import heal, kills, make_topic
from tidelog.controller import layout
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.records import MarkerType, read_marker
from tidelog.records.batch import headers
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

pytestmark = [kills, pytest.mark.slow]

U0, V0 = TopicPartition("u", 0), TopicPartition("v", 0)
VERSIONS = pytest.mark.parametrize("version", [1, 2], ids=["old", "new"])
OUTCOMES = pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])
NOT_MINE = {
    ErrorCode.NOT_COORDINATOR.name,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name,
    ErrorCode.COORDINATOR_NOT_AVAILABLE.name,
}


def quick_bank() -> SimulatedCluster:
    """One in which nobody waits long for a follower that is cut off."""
    return bank(replica_lag_time_max_ms="1500")


def markers(cluster: SimulatedCluster, topic_partition: TopicPartition) -> list[tuple[int, int, MarkerType, int]]:
    """Producer id, epoch, decision and coordinator's epoch of all markers of a partition, as its leader has them."""
    broker = cluster.leader(topic_partition)
    (log,) = [one.log for one in broker.partitions() if one.topic_partition == topic_partition]
    data = log.read(log.log_start_offset, max_bytes=1 << 20, end_offset=log.log_end_offset)
    found: list[tuple[int, int, MarkerType, int]] = []
    for position, header in headers(data):
        if header.is_control:
            marker = read_marker(data[position : position + header.size])
            found.append((header.producer_id, header.producer_epoch, marker.type, marker.coordinator_epoch))
    return found


def three_partitions(cluster: SimulatedCluster, version: int) -> ByHand:
    """A producer with a transaction that wrote to `t`, led by broker 1, `u`, led by its coordinator 2, and `v`, led by 3."""
    open_bank(cluster)
    make_topic(cluster, (3, 1, 2), name="v")
    producer = ByHand(cluster, version=version)
    producer.init()
    producer.join(producer.line(), T0, U0, V0)
    for number, place in enumerate((T0, U0, V0), 1):
        assert producer.produce(b"x", place, line=producer.line(number)) is ErrorCode.NONE
    return producer


@VERSIONS
@OUTCOMES
def test_t13_a_coordinator_that_dies_between_its_markers_is_succeeded_by_one_that_sends_the_rest(
    version: int, *, is_committed: bool
) -> None:
    with quick_bank() as cluster:
        producer = three_partitions(cluster, version)
        cluster.world.fabric.faults.partition(["broker-2"], ["broker-3"])
        assert producer.end(producer.line(), committed=is_committed) is ErrorCode.NONE
        cluster.until(lambda: len(markers(cluster, T0)) == len(markers(cluster, U0)) == 1, "two of three are told")
        assert markers(cluster, V0) == []
        decided = "PrepareCommit" if is_committed else "PrepareAbort"
        assert status_of(cluster) == decided

        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(STATE).leader == 1, "another coordinates")
        cluster.until(lambda: status_of(cluster) == decided.replace("Prepare", "Complete"), "all are told")
        cluster.world.fabric.faults.heal()
        until_stable(cluster, T0, U0, V0)
        outcome = MarkerType.COMMIT if is_committed else MarkerType.ABORT
        for place in (T0, U0, V0):
            told = markers(cluster, place)
            assert {one[2] for one in told} == {outcome}
            assert len(told) == 1 or version == 1, "with an epoch of its own it is written once"
        assert seen(cluster) == seen(cluster, "u") == seen(cluster, "v") == (["x"] if is_committed else [])


@VERSIONS
def test_t13_a_coordinator_that_dies_before_it_has_sent_any_marker_is_succeeded_likewise(version: int) -> None:
    with quick_bank() as cluster:
        producer = three_partitions(cluster, version)
        cluster.world.fabric.faults.partition(["broker-2"], ["broker-1"])
        request, of_version = producer.end_request(committed=True)
        producer.line().begin(request, of_version)
        cluster.until(lambda: len(cluster.state(STATE).isr) == 2, "its log can be written again")
        cluster.until(lambda: status_of(cluster) == "PrepareCommit", "it is decided")
        assert markers(cluster, T0) == []
        cluster.brokers[2].kill()
        cluster.world.fabric.faults.heal()
        cluster.until(lambda: cluster.state(STATE).leader == 3, "another coordinates")
        cluster.until(lambda: status_of(cluster) == "CompleteCommit", "all are told")
        until_stable(cluster, T0, U0, V0)
        assert seen(cluster) == seen(cluster, "u") == seen(cluster, "v") == ["x"]
        assert len(markers(cluster, T0)) == 1
        assert len(markers(cluster, V0)) == 1 or version == 1


def test_t13_a_marker_of_the_former_coordinator_comes_too_late() -> None:
    """It was on its way while leadership moved, and everybody has been told by the new one since."""
    with quick_bank() as cluster:
        producer = three_partitions(cluster, 1)
        former_epoch = cluster.state(STATE).leader_epoch
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(STATE).leader != 2, "another coordinates")
        cluster.until(lambda: status_of(cluster) == "Ongoing", "it knows the transaction")
        assert producer.end(producer.line(), committed=True) is ErrorCode.NONE
        cluster.until(lambda: status_of(cluster) == "CompleteCommit", "all are told")
        late = WritableTxnMarker(
            producer_id=producer.identity.producer_id,
            producer_epoch=producer.identity.producer_epoch,
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(0,)),),
            coordinator_epoch=former_epoch,
        )
        answer = Line.to(cluster, 1).ask(WriteTxnMarkersRequest(markers=(late,)), 1)
        code = answer.markers[0].topics[0].partitions[0].error_code
        assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert [one[2] for one in markers(cluster, T0)] == [MarkerType.COMMIT]


@VERSIONS
def test_leaders_that_move_while_markers_are_sent_are_found_again(version: int) -> None:
    with quick_bank() as cluster:
        producer = three_partitions(cluster, version)
        cluster.brokers[3].kill()
        assert producer.end(producer.line(), committed=True) is ErrorCode.NONE
        cluster.until(lambda: status_of(cluster) == "CompleteCommit", "all are told")
        assert cluster.state(V0).leader != 3
        heal(cluster, T0, U0, V0)
        until_stable(cluster, T0, U0, V0)
        assert seen(cluster, "v") == ["x"]
        assert [len(markers(cluster, place)) for place in (T0, U0, V0)] == [1, 1, 1]


@VERSIONS
def test_t14_whoever_takes_over_answers_nothing_before_it_knows(version: int) -> None:
    with quick_bank() as cluster:
        open_bank(cluster)
        producers = [ByHand(cluster, version=version, transactional_id=f"{ID}-{number}") for number in range(20)]
        line = Line.to(cluster, 2)
        for producer in producers:
            producer.init(line)
            producer.join(line, T0)
            if version == 2:
                assert producer.produce(b"x", line=producer.line(1)) is ErrorCode.NONE
        lines = {broker_id: Line.to(cluster, broker_id) for broker_id in (1, 3)}
        cluster.brokers[2].kill()
        answers: dict[BrokerId, list[str]] = {1: [], 3: []}
        request = DescribeTransactionsRequest(transactional_ids=tuple(one.transactional_id for one in producers))

        def is_answered() -> bool:
            for broker_id, one in lines.items():
                states = one.ask(request, 0).transaction_states
                answers[broker_id] += [state.transaction_state or state.error_code.name for state in states]
            return any(said[-1] == "Ongoing" for said in answers.values())

        cluster.until(is_answered, "somebody took over")
        said = {word for words in answers.values() for word in words}
        assert said <= NOT_MINE | {"Ongoing"}, "never Empty, never unknown"
        assert ErrorCode.NOT_COORDINATOR.name in said
        coordinator = cluster.state(STATE).leader
        for producer in producers:
            assert producer.end(lines[coordinator], committed=True) is ErrorCode.NONE
        until_stable(cluster, T0)


def test_t14_a_broker_that_does_not_coordinate_says_so_to_every_request() -> None:
    with bank() as cluster:
        open_bank(cluster)
        producer = ByHand(cluster)
        producer.init()
        stranger = Line.to(cluster, 1)
        assert producer.init_once(stranger).error_code is ErrorCode.NOT_COORDINATOR
        assert producer.add(T0, line=stranger) == [ErrorCode.NOT_COORDINATOR]
        assert producer.add_offsets(stranger) is ErrorCode.NOT_COORDINATOR
        request, version = producer.end_request(committed=True)
        assert stranger.ask(request, version).error_code is ErrorCode.NOT_COORDINATOR
        described = stranger.ask(DescribeTransactionsRequest(transactional_ids=(ID,)), 0)
        assert described.transaction_states[0].error_code is ErrorCode.NOT_COORDINATOR
        assert status_of(cluster) == "Empty"


def find(cluster: SimulatedCluster) -> Coordinator:
    (found,) = Line.to(cluster, 1).ask(FindCoordinatorRequest(key_type=1, coordinator_keys=(ID,)), 4).coordinators
    return found


def test_the_topic_is_not_made_before_enough_brokers_live() -> None:
    with bank() as cluster:
        cluster.until_ready()
        cluster.brokers[3].kill()
        cluster.until(lambda: len(Line.to(cluster, 1).ask(MetadataRequest(topics=()), 12).brokers) == 2, "it is gone")
        assert find(cluster).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "transaction.state.log.replication.factor is 3, and 2 brokers live" in (
            find(cluster).error_message or ""
        )
        cluster.world.run_for_ms(3_000)
        assert find(cluster).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert cluster.store.tree.peek(layout.topic_path(STATE.topic)) is None
        cluster.brokers[3].restart()
        cluster.until(lambda: find(cluster).error_code is ErrorCode.NONE, "it is made")
        assert len(cluster.state(STATE).assignment) == 3


def test_an_id_goes_on_where_it_was_after_its_coordinator_is_gone() -> None:
    with quick_bank() as cluster:
        open_bank(cluster)
        producer = ByHand(cluster, version=2)
        producer.init()
        first = producer.identity
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(STATE).leader == 3, "another coordinates")
        producer.init()
        assert producer.identity == (first.producer_id, first.producer_epoch + 1)
        heal(cluster, STATE)
        cluster.brokers[3].kill()
        cluster.until(lambda: cluster.state(STATE).leader != 3, "a third coordinates")
        producer.init()
        assert producer.identity == (first.producer_id, first.producer_epoch + 2)


@VERSIONS
def test_while_the_registry_is_away_transactions_end_and_known_ids_go_on_and_only_new_ones_wait(version: int) -> None:
    with quick_bank() as cluster:
        producer = three_partitions(cluster, version)
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(STATE).leader == 3, "another coordinates, which has no producer ids yet")
        cluster.until(lambda: status_of(cluster) == "Ongoing", "it knows the transaction")
        cluster.store.is_available = False
        line = producer.line(3)
        assert producer.end(line, committed=True) is ErrorCode.NONE
        cluster.until(lambda: status_of(cluster) == "CompleteCommit", "all are told")
        before = producer.identity
        assert producer.init(line).error_code is ErrorCode.NONE
        assert producer.identity == (before.producer_id, before.producer_epoch + 1)
        other = ByHand(cluster, transactional_id="other")
        assert other.init_once(line).error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        cluster.store.is_available = True
        assert other.init(line).error_code is ErrorCode.NONE


def test_t13_a_coordinator_that_was_away_has_forgotten_what_it_was_about_to_send() -> None:
    """Its errand was finished by another, and the next transaction, of the same epoch, is open when it wakes up and when it leads again."""
    with quick_bank() as cluster:
        producer = three_partitions(cluster, 1)
        cluster.world.fabric.faults.partition(["broker-2"], ["broker-3"])
        assert producer.end(producer.line(), committed=True) is ErrorCode.NONE
        cluster.until(lambda: status_of(cluster) == "PrepareCommit" and len(markers(cluster, T0)) == 1, "one is told")
        cluster.brokers[2].pause()
        cluster.until(lambda: cluster.state(STATE).leader == 1, "another coordinates")
        cluster.until(lambda: status_of(cluster) == "CompleteCommit", "all are told")
        line = producer.line()
        producer.join(line, T0, V0)
        assert producer.produce(b"y", line=producer.line(1)) is ErrorCode.NONE
        assert producer.produce(b"y", V0, line=producer.line(3)) is ErrorCode.NONE
        told = [markers(cluster, place) for place in (T0, V0)]

        cluster.world.fabric.faults.heal()
        cluster.brokers[2].resume()
        cluster.world.run_for_ms(5_000)
        assert (status_of(cluster), [markers(cluster, place) for place in (T0, V0)]) == ("Ongoing", told)
        heal(cluster, STATE, T0, V0)
        cluster.brokers[1].kill()
        cluster.until(lambda: cluster.state(STATE).leader == 2, "it coordinates again")
        cluster.until(lambda: status_of(cluster) == "Ongoing", "it knows the transaction")
        cluster.world.run_for_ms(5_000)
        assert (status_of(cluster), [markers(cluster, place) for place in (T0, V0)]) == ("Ongoing", told)
        assert producer.end(producer.line(), committed=False) is ErrorCode.NONE
        heal(cluster, T0, U0, V0)
        until_stable(cluster, T0, U0, V0)
        assert seen(cluster) == seen(cluster, "v") == ["x"]
