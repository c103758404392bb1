"""Where Spark looks for the format "tidelog-segments": it imports every module named pyspark_* and takes its DefaultSource."""

from tidelog.pipeline.segments.data_source import SegmentsDataSource as DefaultSource

__all__ = ["DefaultSource"]
