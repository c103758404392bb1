"""The exposition is what Prometheus reads."""

from __future__ import annotations

from tidelog.runtime.instruments import SUMMARY_KEEPS, MemoryMetrics
from tidelog.runtime.real import RealMetrics


def test_counters_and_gauges_render_with_type_and_sorted_labels() -> None:
    metrics = MemoryMetrics()
    metrics.counter("requests_total", version="3", api="Fetch").add(2)
    metrics.counter("requests_total", api="Fetch", version="12").add(1.5)
    metrics.gauge("connections").set(7)
    assert metrics.render() == (
        "# TYPE connections gauge\n"
        "connections 7\n"
        "# TYPE requests_total counter\n"
        'requests_total{api="Fetch",version="12"} 1.5\n'
        'requests_total{api="Fetch",version="3"} 2\n'
    )


def test_histogram_buckets_are_cumulative_and_end_in_infinity() -> None:
    metrics = MemoryMetrics()
    for value in (0.1, 3, 1e6):
        metrics.histogram("request_ms").observe(value)
    lines = metrics.render().splitlines()
    assert 'request_ms_bucket{le="0.1"} 1' in lines
    assert 'request_ms_bucket{le="5"} 2' in lines
    assert 'request_ms_bucket{le="30000"} 2' in lines
    assert lines[-3:] == ['request_ms_bucket{le="+Inf"} 3', "request_ms_sum 1000003.1", "request_ms_count 3"]


def test_histograms_of_bytes_have_buckets_of_bytes() -> None:
    metrics = MemoryMetrics()
    metrics.histogram("fetch_bytes").observe(100)
    assert 'fetch_bytes_bucket{le="64"} 0\nfetch_bytes_bucket{le="256"} 1\n' in metrics.render()


def test_label_values_cannot_break_the_exposition() -> None:
    metrics = MemoryMetrics()
    metrics.gauge("clients", client_id='a"b\\c\nd').set(1)
    assert metrics.render().splitlines()[1] == 'clients{client_id="a\\"b\\\\c\\nd"} 1'


def test_summaries_tell_quantiles_of_what_they_keep_and_count_everything() -> None:
    metrics = MemoryMetrics()
    took = metrics.summary("took_ms", request="Fetch")
    for value in [1_000.0] * 100 + [float(each) for each in range(SUMMARY_KEEPS)]:
        took.observe(value)
    assert metrics.render().splitlines() == [
        "# TYPE took_ms summary",
        'took_ms{request="Fetch",quantile="0.50"} 512',
        'took_ms{request="Fetch",quantile="0.75"} 768',
        'took_ms{request="Fetch",quantile="0.95"} 972',
        'took_ms{request="Fetch",quantile="0.99"} 1013',
        'took_ms{request="Fetch",quantile="0.999"} 1022',
        'took_ms_sum{request="Fetch"} 623776',
        'took_ms_count{request="Fetch"} 1124',
    ]
    assert metrics.value("took_ms", request="Fetch") == 1124


def test_a_summary_of_nothing_has_no_quantiles() -> None:
    metrics = MemoryMetrics()
    metrics.summary("took_ms")
    assert metrics.render() == "# TYPE took_ms summary\ntook_ms_sum 0\ntook_ms_count 0\n"


def test_a_process_tells_what_it_costs() -> None:
    lines = "\n".join(RealMetrics().lines())
    for name in (
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ):
        assert f"\n{name} " in f"\n{lines}"
