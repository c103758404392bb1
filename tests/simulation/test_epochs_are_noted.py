from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.test_checkers import batches, heard, replica, says, snapshot
from tidelog.simulation.checkers import EpochsAreNoted


def test_a_leader_that_has_noted_its_epoch_is_left_alone() -> None:
    leader = replace(replica(1, batches(1, 2), hw=2, epoch=3, leads=True), epochs=((1, 0), (2, 1), (3, 2)))
    assert heard(EpochsAreNoted(), snapshot(leader)) == []


@pytest.mark.parametrize(
    ("epochs", "words"),
    [
        (((1, 0), (2, 1)), "leads in epoch 3, and has not noted that"),
        (((1, 0), (3, 0)), "out of order"),
        (((2, 0), (1, 1)), "out of order"),
        (((1, 0), (3, 7)), "begins after its log ends, at 2"),
    ],
)
def test_epochs_that_cannot_be_are_noticed(epochs: tuple[tuple[int, int], ...], words: str) -> None:
    leader = replace(replica(1, batches(1, 2), hw=2, epoch=3, leads=True), epochs=epochs)
    says(EpochsAreNoted(), words, snapshot(leader))


def test_a_batch_of_an_epoch_that_was_not_noted_is_noticed() -> None:
    follower = replace(replica(2, batches(1, 2), hw=1, epoch=3), epochs=((1, 0),))
    says(EpochsAreNoted(), "has a batch of epoch 2", snapshot(follower))
