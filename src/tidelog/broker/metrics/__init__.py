"""What a broker tells those who watch it: series whose names stock dashboards know, gathered when somebody asks.

What happens is counted where it happens (`runtime.metrics`, `broker.topic_traffic`); what is, is looked up here, at the moment of the look.
"""

from tidelog.broker.metrics.page import MetricsPage, metrics_url

__all__ = ["MetricsPage", "metrics_url"]
