"""How long to wait before trying again."""

from __future__ import annotations

from tidelog.client.backoff import Backoff
from tidelog.simulation.randomness import SimulatedRandomness


def test_delay_doubles_from_the_first_failure_and_is_capped() -> None:
    backoff = Backoff(initial_ms=100, max_ms=1000, jitter=0)
    delays = [backoff.delay_ms(failures, SimulatedRandomness(0)) for failures in (1, 2, 3, 4, 5, 1000)]
    assert delays == [100, 200, 400, 800, 1000, 1000]


def test_jitter_spreads_delays_by_a_fifth_either_way_but_never_over_the_cap() -> None:
    backoff = Backoff(initial_ms=100, max_ms=1000)
    randomness = SimulatedRandomness(3)
    first = [backoff.delay_ms(1, randomness) for _ in range(200)]
    assert 80 <= min(first) < 90
    assert 110 < max(first) < 120
    assert max(backoff.delay_ms(9, randomness) for _ in range(50)) == 1000
