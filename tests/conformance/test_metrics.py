"""What every metrics promises."""

from __future__ import annotations

import pytest

from tests.conformance.worlds import Twin
from tidelog.model import InvariantBroken


def test_what_was_never_counted_reads_zero(one_loop_twin: Twin) -> None:
    assert one_loop_twin.runtime.metrics.value("kafka_server_nothing_total", topic="t") == 0


def test_same_name_and_labels_are_the_same_instrument(one_loop_twin: Twin) -> None:
    metrics = one_loop_twin.runtime.metrics
    metrics.counter("requests_total", api="Fetch", version="3").add()
    metrics.counter("requests_total", version="3", api="Fetch").add(2)
    metrics.counter("requests_total", api="Produce", version="3").add(5)
    assert metrics.value("requests_total", api="Fetch", version="3") == 3


def test_a_gauge_holds_the_last_value(one_loop_twin: Twin) -> None:
    gauge = one_loop_twin.runtime.metrics.gauge("connections")
    gauge.set(7)
    gauge.set(3)
    assert one_loop_twin.runtime.metrics.value("connections") == 3


def test_a_histogram_reads_as_the_count_of_its_observations(one_loop_twin: Twin) -> None:
    histogram = one_loop_twin.runtime.metrics.histogram("request_ms")
    histogram.observe(0.2)
    histogram.observe(1e9)
    assert one_loop_twin.runtime.metrics.value("request_ms") == 2


def test_a_counter_refuses_to_shrink(one_loop_twin: Twin) -> None:
    with pytest.raises(InvariantBroken):
        one_loop_twin.runtime.metrics.counter("requests_total").add(-1)


def test_a_name_has_one_kind(one_loop_twin: Twin) -> None:
    one_loop_twin.runtime.metrics.counter("requests_total", api="Fetch")
    with pytest.raises(InvariantBroken):
        one_loop_twin.runtime.metrics.gauge("requests_total", api="Fetch")
    with pytest.raises(InvariantBroken):
        one_loop_twin.runtime.metrics.gauge("requests_total")
