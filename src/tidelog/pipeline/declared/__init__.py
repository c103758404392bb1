"""Pipelines declared in files: read the spec, run it on Spark, triggered or always on, tell how it gets on, and say in words why it failed."""
