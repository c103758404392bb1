"""Spark: our source and sink for PySpark, exactly once end to end. An ordinary client of the cluster.

Nothing is imported here: Spark imports this room in every planner and worker process, and most need only a part of it.
"""
