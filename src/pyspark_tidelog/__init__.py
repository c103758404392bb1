"""Where Spark looks for the format "tidelog": it imports every module named pyspark_* and takes its DefaultSource."""

from tidelog.pipeline.data_source import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
