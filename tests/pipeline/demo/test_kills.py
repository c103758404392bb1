"""The schedule of kills is the seed's."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from tidelog.pipeline.demo.kills import PAUSE_S, Victim, kills_of


@pytest.mark.parametrize("seed", [0, 1, 7, 1 << 62])
def test_every_kind_comes_once_among_the_first(seed: int) -> None:
    first = [kill.victim for kill in islice(kills_of(seed), len(Victim))]
    assert sorted(first) == sorted(Victim)


def test_a_seed_draws_the_same_kills_again() -> None:
    assert list(islice(kills_of(5), 40)) == list(islice(kills_of(5), 40))
    assert list(islice(kills_of(5), 40)) != list(islice(kills_of(6), 40))


def test_the_order_of_the_first_is_not_always_the_same() -> None:
    assert len({next(kills_of(seed)).victim for seed in range(40)}) == len(Victim)


def test_pauses_keep_their_bounds_and_later_kills_their_shares() -> None:
    drawn = list(islice(kills_of(3), 2000))
    assert all(PAUSE_S[0] <= kill.after_s < PAUSE_S[1] for kill in drawn)
    shares = Counter(kill.victim for kill in drawn)
    assert shares[Victim.BROKER] > shares[Victim.DRIVER] > 200
