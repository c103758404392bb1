"""What the replica manager wants of those who keep followed replicas going, and of those who persist ISR changes."""

from __future__ import annotations

from typing import Protocol

from tidelog.model import BrokerId, TopicPartition
from tidelog.partition import IsrProposal, Partition


class Fetchers(Protocol):
    """Copies the logs of leaders into the replicas that follow them."""

    def follow(self, partition: Partition, leader_id: BrokerId) -> None:
        """Fetch from this leader from now on, under the epoch the partition was told; whatever was known of another leader is forgotten.

        Called again for every new epoch, also with the same leader: a partition that had failed starts anew.
        """
        ...

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch no more for it; an answer that is still under way is not used. Fine where nobody was followed."""
        ...


class IsrChanges(Protocol):
    """Carries a leader's wishes about the ISR to the controller."""

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Have the controller decide; the partition hears the verdict."""
        ...
