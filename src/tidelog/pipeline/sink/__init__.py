"""Writing rows of Spark to topics: exactly once (modes batch and 2pc) or at least once.

Nothing is imported here: tasks need the codec and no committing, the driver's processes need the reverse.
"""
