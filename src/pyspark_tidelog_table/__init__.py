"""Where Spark looks for the format "tidelog-table": it imports every module named pyspark_* and takes its DefaultSource."""

from tidelog.pipeline.tables.data_source import TidelogTableDataSource as DefaultSource

__all__ = ["DefaultSource"]
