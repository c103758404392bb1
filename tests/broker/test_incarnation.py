"""When a broker that starts still knows all it knew: the table of its standing."""

from __future__ import annotations

import asyncio

import pytest

from tests.broker.test_directory_threads import world
from tidelog.broker.incarnation import FILE, Incarnations, decode
from tidelog.broker.log_directories import open_directories
from tidelog.config import BrokerConfig
from tidelog.model import BrokerEpoch
from tidelog.runtime import StorageFailure
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage import LogDirectory

CONFIG = BrokerConfig.from_properties({"node.id": "1", "log.dirs": "/a,/b"})


class Machine:
    """A broker's disk, and its lives on it."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.failures: list[StorageFailure] = []

    def live(self, remembered: BrokerEpoch | None, broker_epoch: BrokerEpoch, *, is_clean: bool = False) -> bool:
        """Start, register, and end; whether it was intact."""
        return asyncio.run(self._live(remembered, broker_epoch, is_clean=is_clean))

    async def _live(self, remembered: BrokerEpoch | None, broker_epoch: BrokerEpoch, *, is_clean: bool) -> bool:
        directories = await open_directories(CONFIG, world(self.disk), "c")
        incarnations = Incarnations(1, world(self.disk))
        is_intact = incarnations.is_intact(directories, remembered)
        await incarnations.remember(directories, broker_epoch, self._on_failed)
        for directory in directories:
            if is_clean:
                directory.close_cleanly({}, broker_epoch=broker_epoch)
            else:
                directory.release()
        return is_intact

    def _on_failed(self, _: LogDirectory, failure: StorageFailure) -> None:
        self.failures.append(failure)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_broker_that_was_never_registered_has_forgotten_nothing(machine: Machine) -> None:
    assert machine.live(None, 10)


def test_killed_process_keeps_its_standing(machine: Machine) -> None:
    machine.live(None, 10)
    assert machine.live(10, 20)
    assert machine.live(20, 30)


def test_power_cut_costs_the_standing_and_a_clean_shutdown_before_it_does_not(machine: Machine) -> None:
    machine.live(None, 10)
    machine.disk.cut_power()
    assert not machine.live(10, 20)
    machine.live(20, 30, is_clean=True)
    machine.disk.cut_power()
    assert machine.live(30, 40)


def test_older_copy_of_a_directory_has_no_standing(machine: Machine) -> None:
    machine.live(None, 10, is_clean=True)
    assert not machine.live(15, 20)


def test_registry_that_has_forgotten_the_broker_does_not_vouch_for_it(machine: Machine) -> None:
    machine.live(None, 10)
    assert not machine.live(None, 20)


def test_empty_directory_among_the_others_costs_the_standing(machine: Machine) -> None:
    machine.live(None, 10)
    machine.disk.rmtree("/b")
    assert not machine.live(10, 20)


def test_note_that_makes_no_sense_costs_the_standing(machine: Machine) -> None:
    machine.live(None, 10)
    machine.disk.replace(f"/a/{FILE}", b"{}")
    assert not machine.live(10, 20)
    assert machine.live(20, 30)


def test_directory_keeps_its_id(machine: Machine) -> None:
    machine.live(None, 10)
    first = decode(machine.disk.read(f"/a/{FILE}"))
    machine.live(10, 20)
    second = decode(machine.disk.read(f"/a/{FILE}"))
    assert first is not None
    assert second is not None
    assert (first.directory_id, first.broker_epoch, second.broker_epoch) == (second.directory_id, 10, 20)


def test_disk_that_cannot_be_written_to_is_reported(machine: Machine) -> None:
    machine.live(None, 10)
    machine.disk.faults.fail("create", path=f"/a/{FILE}*")
    machine.live(10, 20)
    assert len(machine.failures) == 1
