"""The file that ties a partition's directory to a topic id."""

from __future__ import annotations

from tidelog.model import TopicId
from tidelog.runtime import Disk, File, FileMissing
from tidelog.storage.checkpoints import DamagedCheckpoint, decode_partition_metadata, encode_partition_metadata
from tidelog.storage.names import PARTITION_METADATA


class InconsistentTopicId(Exception):
    """The directory belongs to another topic of the same name."""


def read_topic_id(disk: Disk, directory: str) -> TopicId | None:
    """The topic id of a partition directory; None where it is missing or damaged, as a crash right after creation leaves it."""
    try:
        return decode_partition_metadata(disk.read(f"{directory}/{PARTITION_METADATA}"))
    except (FileMissing, DamagedCheckpoint):
        return None


def keep_topic_id(disk: Disk, directory: str, topic_id: TopicId) -> File | None:
    """Write the topic id unless it is there already; the open file, for the first flush to make durable. Raises InconsistentTopicId."""
    known = read_topic_id(disk, directory)
    if known == topic_id:
        return None
    if known is not None:
        raise InconsistentTopicId(f"{directory} belongs to topic id {known}, not {topic_id}")
    file = disk.open(f"{directory}/{PARTITION_METADATA}", create=True)
    content = encode_partition_metadata(topic_id)
    file.pwrite(0, (content,))
    file.truncate(len(content))
    return file
