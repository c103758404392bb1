"""Disks that are slow, full, broken, rotten or new."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from tidelog.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, crc_holds, headers, read_header
from tidelog.simulation.cluster import LOG_DIR, SimulatedBroker
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.faults.menu import Family
from tidelog.simulation.faults.plan import Fault
from tidelog.simulation.faults.site import Act, Effect, Site

_LATENCY_MS: Final = (0.2, 5.0)
_OPERATIONS: Final = {"write-error": "write", "fsync-error": "fsync", "read-error": "read"}


def disk_slow(site: Site, fault: Fault) -> Effect | None:
    """As slow as the worst of the faults that slow it."""
    broker = site.broker(fault)
    key = f"slow {broker.node.name}"

    def apply() -> None:
        slowest = max((each.amount for each in site.disks.of(key)), default=0.0)
        low, high = _LATENCY_MS
        broker.node.disk.thread_latency_ms = (low, max(high, slowest))

    def undo() -> None:
        site.disks.remove(key, fault)
        apply()

    site.disks.add(key, fault)
    apply()
    return Effect(undo=undo)


def disk_stall(site: Site, fault: Fault) -> Effect | None:
    """It ends by itself, or with the process."""
    broker = site.broker(fault)
    if not broker.node.is_running:
        return None
    broker.node.disk.stall(LOG_DIR, duration_ms=fault.for_ms)
    return Effect()


def disk_full(site: Site, fault: Fault) -> Effect | None:
    """It has acted once something found no room."""
    broker = site.broker(fault)
    disk, key = broker.node.disk, f"full {broker.node.name}"
    before = disk.refused_count
    disk.fill_up(after_bytes=int(fault.amount))
    site.disks.add(key, fault)
    site.supervisor.trouble_begins(Family.DISK, broker.node.name)

    def undo() -> None:
        if site.disks.remove(key, fault):
            disk.free_up()
        site.supervisor.trouble_ends(Family.DISK, broker.node.name)
        site.supervisor.revive(broker)

    return Effect(undo=undo, has_acted=lambda: disk.refused_count > before)


def io_error(site: Site, fault: Fault) -> Effect | None:
    """A broker without a directory that works ends; it stays down until the machine is rebooted with what its platters hold."""
    broker = site.broker(fault)
    if not broker.node.is_running:
        return None
    disk = broker.node.disk
    rule = disk.faults.fail(_OPERATIONS[fault.kind], path=f"{LOG_DIR}/*", times=int(fault.amount))
    site.supervisor.trouble_begins(Family.DISK, broker.node.name)
    site.supervisor.hold_down(broker)

    def undo() -> None:
        disk.faults.withdraw(rule)
        site.supervisor.trouble_ends(Family.DISK, broker.node.name)
        if rule.injected:
            _go_dark(broker)
        site.supervisor.let_up(broker)

    return Effect(undo=undo, has_acted=lambda: rule.injected > 0)


def wipe(site: Site, fault: Fault) -> Effect | None:
    """The machine goes dark, and somebody puts an empty disk into it."""
    broker = site.broker(fault)
    _replace_disk(broker)
    site.supervisor.hold_down(broker)
    return Effect(undo=partial(site.supervisor.let_up, broker))


def bit_flip(site: Site, fault: Fault) -> Effect | None:
    """Among the records of a batch, where its checksum tells. If the rot is still there at the end, the disk is replaced."""
    broker = site.broker(fault)
    disk = broker.node.disk
    batches = [
        (path, position)
        for path, content in disk.look_at(f"{LOG_DIR}/*-*/*.log").items()
        for position, header in _batches(content)
        if header.size > HEADER_SIZE and crc_holds(content, position, header)
    ]
    if not batches:
        return None
    path, start = batches[min(int(fault.amount * len(batches)), len(batches) - 1)]
    size = read_header(disk.look_at(path)[path], start).size
    position = start + HEADER_SIZE + site.chance.below(size - HEADER_SIZE)
    disk.flip_bit(path, position=position, bit=site.chance.below(8))
    site.supervisor.trouble_begins(Family.DISK, broker.node.name)

    def undo() -> None:
        site.supervisor.trouble_ends(Family.DISK, broker.node.name)
        if _is_rotten(disk, path, start):
            _replace_disk(broker)
        site.supervisor.revive(broker)

    return Effect(undo=undo)


def _is_rotten(disk: SimulatedDisk, path: str, start: int) -> bool:
    """Whether the batch that rotted is still there, and still wrong."""
    content = disk.look_at(path).get(path, b"")
    return any(position == start and not crc_holds(content, position, header) for position, header in _batches(content))


def _batches(content: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of a file; one that a power cut has torn ends them."""
    with suppress(CorruptBatch):
        yield from headers(content)


def _replace_disk(broker: SimulatedBroker) -> None:
    _go_dark(broker)
    broker.node.disk.wipe()


def _go_dark(broker: SimulatedBroker) -> None:
    """Of the broker's machine, whether its process still runs or not."""
    if broker.node.is_running:
        broker.power_cut()
    else:
        broker.node.lose_power()


ACTS: Final[dict[str, Act]] = {
    "disk-slow": disk_slow,
    "disk-stall": disk_stall,
    "disk-full": disk_full,
    "write-error": io_error,
    "fsync-error": io_error,
    "read-error": io_error,
    "bit-flip": bit_flip,
    "wipe": wipe,
}
