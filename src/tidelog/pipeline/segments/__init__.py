"""Segment files as rows of Spark, one per record batch: which files there are, who reads which part of them, and what a row holds."""
