"""Every segment of a log that a broker has open lies on its disk.

A bit that has turned is a fault, and what it changed is not judged. A file that is gone is none: disks lose names in a power cut, when
nobody runs, and whoever starts afterwards opens what is there. So a broker whose log has lost a file has removed it itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import Snapshot


class FilesAreThere:
    """Says what the observer has not found."""

    name = "files of a log are there"

    def __init__(self) -> None:
        self._changes = Changes()

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Logs that lack a segment."""
        for topic_partition in self._changes.since_last(snapshot):
            for view in snapshot.replicas.get(topic_partition, ()):
                if view.log.missing:
                    yield f"{topic_partition}: broker {view.broker_id} has a log without {view.log.missing}"
