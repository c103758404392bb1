"""How far the replicas of a partition agree, as its leader counts it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tidelog.model import BrokerId, Offset
from tidelog.partition.remote_replica import RemoteReplica


def committed_end(
    own_end_offset: Offset,
    remotes: Iterable[RemoteReplica],
    maximal_isr: Collection[BrokerId],
    is_about_to_join: Callable[[RemoteReplica], bool],
) -> Offset:
    """Exclusive end of what all who count hold; -1 while one of them has not fetched since the election.

    Those who count are the leader, the maximal ISR and whoever is about to join it: without the last, a fast producer would keep the
    high watermark ahead of a follower that needs to reach it in order to join.
    """
    end_offset = own_end_offset
    for remote in remotes:
        if remote.log_end_offset < end_offset and (remote.broker_id in maximal_isr or is_about_to_join(remote)):
            end_offset = remote.log_end_offset
    return end_offset


def lowest_start(
    own_start_offset: Offset, remotes: Iterable[RemoteReplica], is_live: Callable[[BrokerId], bool]
) -> Offset:
    """The low watermark: below it every live replica has forgotten its records; -1 while one of them has not said."""
    start_offset = own_start_offset
    for remote in remotes:
        if remote.log_start_offset < start_offset and is_live(remote.broker_id):
            start_offset = remote.log_start_offset
    return start_offset
