"""The position of a query as its consumer group gets it: of topics that are in the cluster that the query writes to, and of no others.

A query that copies from one cluster to another reads topics that often have the same names here. Where it is there says nothing about what
is left to read here, and would be a lag that nobody has.
"""

from __future__ import annotations

from tidelog.client import Committed
from tidelog.model import TopicPartition
from tidelog.pipeline.sink.driver_client import DriverClient
from tidelog.pipeline.sink.source_offsets import SourceOffsets, merged


def position_here(client: DriverClient, source: SourceOffsets) -> dict[TopicPartition, Committed]:
    """What to commit for the group.

    Our source tells of which cluster its topics are. Spark's own does not, nor do old checkpoints of ours: what they have read may be taken
    for ours as long as our logs reach so far.
    """
    told = any(each.cluster_id is not None for each in source.sources)
    cluster_id = client.cluster_id() if told else None
    ours = [each for each in source.sources if each.may_be_of(cluster_id)]
    if not ours:
        return {}
    counts = client.partition_counts({key.topic for each in ours for key in each.positions})
    doubtful = [each for each in ours if each.cluster_id is None or cluster_id is None]
    asked = {key for each in doubtful for key in each.positions if key.index < counts[key.topic]}
    ends = client.log_ends(asked) if asked else {}
    sure = [each.positions for each in ours if each not in doubtful]
    found = merged([*sure, *(each.within(ends) for each in doubtful)])
    return {key: Committed(offset) for key, offset in found.items() if key.index < counts[key.topic]}
