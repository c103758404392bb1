"""Cut the power after every single file operation of a log's life, and compare what recovery finds with a model (rows D01 to D09)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from tests.storage.crash_story import CONFIG, NOW, PARTITION, PATH, Story, World, content_of, replay
from tests.tiers import rest_proven
from tidelog.records import MarkerType, RecordBatchBuilder, read_header, read_marker
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_faults import PowerCut
from tidelog.simulation.disk_image import Loss
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log import PartitionLog
from tidelog.storage.producer_snapshot import SnapshotEntry
from tidelog.storage.transaction_index import AbortedTransaction

Way = Loss | int
"""How the crash goes: what exactly is lost, or the seed by which it is lost, kept and torn."""

WAYS: list[Way] = [Loss.NOTHING, Loss.ALL, Loss.CONTENTS, Loss.NAMES, 1, 2]
SLICES = 8


def operation_count() -> int:
    disk = SimulatedDisk()
    Story(disk).tell()
    return disk.operation_count


OPERATIONS = operation_count()


def stories(numbers: Iterator[int] | range) -> Iterator[tuple[Story, SimulatedDisk, Way]]:
    """The story ended after each of these operations, in each way; every one with a disk of its own."""
    for number in numbers:
        disk = SimulatedDisk()
        story = Story(disk)
        disk.cut_power_after(number)
        with pytest.raises(PowerCut):
            story.tell()
        frozen = pickle.dumps(disk)  # thawed five times as fast as the disk is copied
        for way in WAYS:
            crashed: SimulatedDisk = pickle.loads(frozen)  # noqa: S301 our own
            crash(crashed, way, number)
            try:
                yield story, crashed, way
            except GeneratorExit:
                print(f"the story ended after operation {number}, way {way}")  # noqa: T201 (shown by a failing test)
                raise


def crash(disk: SimulatedDisk, way: Way, number: int = 0) -> None:
    if isinstance(way, Loss):
        disk.crash(lose=way)
    else:
        disk.crash(seed=1_000 * way + number)


def recover(disk: SimulatedDisk) -> PartitionLog:
    return LogDirectory.open(disk, PATH, broker_id=1, cluster_id="c").open_log(PARTITION, CONFIG, now_ms=NOW)


def check(story: Story, log: PartitionLog, way: Way) -> None:
    """What was promised is there, nothing is invented, and everything derived from it agrees."""
    content = content_of(log)
    promised = story.told_end if way is Loss.NOTHING else story.durable_end
    assert log.log_end_offset >= promised
    explanations = [world for world in story.worlds if explains(world, content, log, promised)]
    assert explanations, (
        [(read_header(batch).base_offset, read_header(batch).leader_epoch) for batch in content],
        (log.log_start_offset, log.log_end_offset, promised),
        [[read_header(batch).base_offset for batch in world.batches] for world in story.worlds],
    )
    check_epochs(log, content)
    # A log found empty may be the old one cut short or the new one just begun; what is derived must agree with one of them.
    # One that is being dropped as a whole may end where compaction has been: it keeps the state at its end, not at every offset.
    if all(log.log_end_offset >= world.compacted_end for world in explanations):
        assert any(remembers_producers(log, world) for world in explanations), log.producers.to_snapshot()
        assert any(decides_transactions(log, content, world) for world in explanations)


def explains(world: World, content: list[bytes], log: PartitionLog, promised: int) -> bool:
    """Whether the content is the world's, less what a crash may take at its end.

    What retention has deleted may come back, whole segments of it, until the names are flushed: then it is in its place.
    """
    start = max(world.log_start, log.log_start_offset)
    wanted = [batch for batch in world.batches if read_header(batch).last_offset >= start]
    deleted = [batch for batch in content if read_header(batch).last_offset < start]
    found = content[len(deleted) :]
    return (
        found == wanted[: len(found)]
        and all(read_header(batch).base_offset >= promised for batch in wanted[len(found) :])
        and deleted == [batch for batch in world.batches if batch in deleted]
    )


def check_epochs(log: PartitionLog, content: list[bytes]) -> None:
    for batch in content:
        header = read_header(batch)
        if header.base_offset >= log.log_start_offset:
            assert log.epoch_at(header.base_offset) == header.leader_epoch
    if content:
        assert log.latest_leader_epoch >= read_header(content[-1]).leader_epoch


def remembers_producers(log: PartitionLog, world: World) -> bool:
    """Sequences are those of the whole history; only producers whose records retention took may be forgotten."""
    history = [batch for batch in world.history if read_header(batch).base_offset < log.log_end_offset]
    expected = {entry.producer_id: entry for entry in replay(history).to_snapshot()}
    found = {entry.producer_id: entry for entry in log.producers.to_snapshot()}
    needed = {key for key, entry in expected.items() if entry.last_offset >= log.log_start_offset}
    return found.keys() >= needed and all(
        key in expected and is_same_producer(expected[key], entry, log.log_start_offset) for key, entry in found.items()
    )


def is_same_producer(expected: SnapshotEntry, found: SnapshotEntry, log_start: int) -> bool:
    """Retention may have taken the beginning of its transaction, and the marker that told the coordinator's epoch."""
    if 0 <= expected.transaction_first_offset < log_start <= found.transaction_first_offset:
        expected = expected._replace(transaction_first_offset=found.transaction_first_offset)
    if log_start and found.coordinator_epoch == -1:
        expected = expected._replace(coordinator_epoch=-1)
    return expected == found


def decides_transactions(log: PartitionLog, content: list[bytes], world: World) -> bool:
    """The last stable offset is where it was, and a reader of committed records sees neither more nor less."""
    history = [batch for batch in world.history if read_header(batch).base_offset < log.log_end_offset]
    ongoing = replay(history).first_ongoing_offset()
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    stable = log.last_stable_offset(log.log_end_offset)
    if ongoing is not None and ongoing < log.log_start_offset:
        is_stable = (
            log.log_start_offset <= stable
        )  # Retention has taken the beginning of the transaction, or all of it.
    else:
        is_stable = stable == (log.log_end_offset if ongoing is None else ongoing)
    return is_stable and (
        visible(content, aborted) == [batch for batch in content if not is_hidden(batch, told_aborted(history))]
    )


def told_aborted(history: list[bytes]) -> list[tuple[int, int, int]]:
    """Producer, first and last offset of every aborted transaction."""
    aborted = []
    open_since: dict[int, int] = {}
    for batch in history:
        header = read_header(batch)
        if header.is_control:
            first = open_since.pop(header.producer_id, None)
            if first is not None and read_marker(batch).type is MarkerType.ABORT:
                aborted.append((header.producer_id, first, header.base_offset))
        elif header.is_transactional:
            open_since.setdefault(header.producer_id, header.base_offset)
    return aborted


def is_hidden(batch: bytes, aborted: list[tuple[int, int, int]]) -> bool:
    """Whether a reader of committed records must not see it: a marker, an emptied batch, or aborted."""
    header = read_header(batch)
    return (
        header.is_control
        or not header.record_count
        or (
            header.is_transactional
            and any(
                header.producer_id == producer and first <= header.base_offset <= last
                for producer, first, last in aborted
            )
        )
    )


def visible(content: list[bytes], aborted: list[AbortedTransaction]) -> list[bytes]:
    """What a consumer shows that reads committed records only, by the rule every client follows."""
    waiting = sorted(aborted, key=lambda entry: entry.first_offset)
    skipping: set[int] = set()
    shown = []
    for batch in content:
        header = read_header(batch)
        while waiting and waiting[0].first_offset <= header.last_offset:
            skipping.add(waiting.pop(0).producer_id)
        if header.is_control:
            skipping.discard(header.producer_id)
        elif header.record_count and not (header.is_transactional and header.producer_id in skipping):
            shown.append(batch)
    return shown


def check_goes_on(disk: SimulatedDisk, log: PartitionLog) -> None:
    """The recovered log takes appends, is closed cleanly, and is found as it was."""
    builder = RecordBatchBuilder()
    builder.append(timestamp_ms=NOW, key=b"k", value=b"after the crash")
    before = content_of(log)
    log.append_as_leader(builder.build(), leader_epoch=log.latest_leader_epoch + 1, now_ms=NOW)
    after = content_of(log)
    assert after[:-1] == before
    flush = log.start_flush()
    assert flush is not None
    flush.perform()
    log.on_flushed(flush)
    disk.crash(lose=Loss.ALL)
    assert content_of(recover(disk))[-len(after) :] == after


def facts(log: PartitionLog) -> tuple[object, ...]:
    return (
        content_of(log),
        log.log_start_offset,
        log.log_end_offset,
        log.producers.to_snapshot(),
        log.latest_leader_epoch,
        log.aborted_transactions(log.log_start_offset, log.log_end_offset),
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", rest_proven(range(SLICES), now=2))
def test_power_cut_after_any_operation_loses_nothing_promised_and_invents_nothing(part: int) -> None:
    for story, disk, way in stories(range(part, OPERATIONS, SLICES)):
        log = recover(disk)
        check(story, log, way)
        check_goes_on(disk, log)


@pytest.mark.slow
@pytest.mark.parametrize("part", rest_proven(range(SLICES), now=2))
def test_recovering_twice_is_recovering_once(part: int) -> None:
    for _, disk, way in stories(range(part, OPERATIONS, 3 * SLICES)):
        first = facts(recover(disk))
        # After a power cut all that was found is on the platter, so a second cut takes nothing; page cache outlives a killed process.
        disk.crash(lose=Loss.NOTHING if way is Loss.NOTHING else Loss.ALL)
        assert facts(recover(disk)) == first


@pytest.mark.proof
@pytest.mark.parametrize("part", range(4 * SLICES))
def test_power_cut_after_any_operation_of_recovery_changes_nothing(part: int) -> None:
    for story, disk, way in stories(range(part, OPERATIONS, 4 * SLICES)):
        frozen = pickle.dumps(disk)
        for number in range(1_000):
            again: SimulatedDisk = pickle.loads(frozen)  # noqa: S301 our own
            again.cut_power_after(number)
            try:
                recover(again)
            except PowerCut:
                crash(again, way, number)
                check(story, recover(again), way)
            else:
                break


def check_story_by_chance(seed: int, cut_count: int) -> None:
    """A story of random steps, ended at some of its operations in several ways."""
    disk = SimulatedDisk()
    Story(disk).tell_by_chance(seed, STEPS)
    randomness = SimulatedRandomness(f"cuts/{seed}")
    for number in (randomness.below(disk.operation_count) for _ in range(cut_count)):
        ended = SimulatedDisk()
        story = Story(ended)
        ended.cut_power_after(number)
        with pytest.raises(PowerCut):
            story.tell_by_chance(seed, STEPS)
        frozen = pickle.dumps(ended)
        for way in (Loss.NOTHING, Loss.ALL, 1, 2):
            crashed: SimulatedDisk = pickle.loads(frozen)  # noqa: S301 our own
            crash(crashed, way, number)
            log = recover(crashed)
            check(story, log, way)
            check_goes_on(crashed, log)


STEPS = 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_story_survives_crashes(seed: int) -> None:
    check_story_by_chance(seed, cut_count=8)


@pytest.mark.proof
@pytest.mark.parametrize("part", range(16))
def test_many_random_stories_survive_crashes(part: int) -> None:
    for seed in range(24 + part, 224, 16):
        check_story_by_chance(seed, cut_count=12)
