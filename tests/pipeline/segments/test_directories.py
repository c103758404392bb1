"""Data directories are recognised, put together by broker, and refused with a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pipeline.audit.planted import Log, log_of, run, write_directory
from tidelog.model import TopicPartition
from tidelog.pipeline.segments.directories import (
    DirectoryRefused,
    check_one_log_each,
    data_directories,
    partitions_in,
)

ORDERS = TopicPartition("orders", 0)
LOG = log_of(run(2))


def refusal(*paths: Path) -> str:
    with pytest.raises(DirectoryRefused) as refused:
        data_directories(list(map(str, paths)))
    return str(refused.value)


def test_a_directory_of_brokers_stands_for_all_of_them(tmp_path: Path) -> None:
    for broker in (1, 2):
        write_directory(tmp_path / f"broker-{broker}", broker, {ORDERS: LOG})
    (tmp_path / "registry.sqlite").touch()
    (tmp_path / "logs").mkdir()
    assert [each.replica for each in data_directories([str(tmp_path)])] == ["1", "2"]


def test_a_directory_that_does_not_say_whose_it_is_is_called_by_its_path(tmp_path: Path) -> None:
    write_directory(tmp_path / "copy", None, {ORDERS: LOG})
    (found,) = data_directories([str(tmp_path / "copy")])
    assert (found.replica, found.broker) == (str(tmp_path / "copy"), None)


def test_directories_of_one_broker_are_one_replica_unless_both_hold_a_partition(tmp_path: Path) -> None:
    write_directory(tmp_path / "a", 1, {ORDERS: LOG})
    write_directory(tmp_path / "b", 1, {TopicPartition("orders", 1): LOG})
    write_directory(tmp_path / "c", 1, {ORDERS: LOG})
    a, b, c = data_directories([str(tmp_path)])
    check_one_log_each([*partitions_in(a), *partitions_in(b)])
    with pytest.raises(DirectoryRefused, match="both say that they belong to broker 1, and both hold orders-0"):
        check_one_log_each([*partitions_in(a), *partitions_in(b), *partitions_in(c)])


def test_segments_are_listed_in_order_and_leftovers_apart(tmp_path: Path) -> None:
    log = Log(
        segments=[(10, b"b"), (0, b"a")],
        high_watermark=0,
        files={
            "00000000000000000000.log.deleted": b"",
            "00000000000000000005.log.swap": b"",
            "00000000000000000000.index": b"",
        },
    )
    write_directory(tmp_path, 1, {ORDERS: log})
    for name in ("orders-0.0123456789abcdef0123456789abcdef-delete", "orders-7.aa-stray", "orders-8.bb-future"):
        (tmp_path / name).mkdir()
    (found,) = partitions_in(data_directories([str(tmp_path)])[0])
    assert [(each.base_offset, each.size) for each in found.segments] == [(0, 1), (10, 1)]
    assert found.unfinished == ("00000000000000000000.log.deleted", "00000000000000000005.log.swap")


def test_only_topics_that_were_asked_for_are_listed(tmp_path: Path) -> None:
    write_directory(tmp_path, 1, {ORDERS: LOG, TopicPartition("other", 0): LOG})
    (directory,) = data_directories([str(tmp_path)])
    assert [each.topic_partition for each in partitions_in(directory, ["orders"])] == [ORDERS]


class TestRefusals:
    """What cannot be read says why, and what is accepted."""

    def test_nothing_there(self, tmp_path: Path) -> None:
        assert "there is no such directory; give the data directory of a broker" in refusal(tmp_path / "none")

    def test_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert "is a file" in refusal(tmp_path / "file")

    def test_a_directory_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "photos-2024").mkdir()
        assert "no data directory: there is neither meta.properties nor" in refusal(tmp_path)

    def test_the_directory_of_a_partition(self, tmp_path: Path) -> None:
        write_directory(tmp_path, 1, {ORDERS: LOG})
        assert re.search(
            rf"the log of one partition; give .* {re.escape(str(tmp_path))}$", refusal(tmp_path / "orders-0")
        )

    def test_the_same_directory_twice_also_by_another_name(self, tmp_path: Path) -> None:
        write_directory(tmp_path / "a", 1, {ORDERS: LOG})
        (tmp_path / "b").symlink_to(tmp_path / "a")
        assert "given twice" in refusal(tmp_path / "a", tmp_path / "a")
        assert "given twice" in refusal(tmp_path / "a", tmp_path / "b")

    def test_directories_of_two_clusters(self, tmp_path: Path) -> None:
        write_directory(tmp_path / "a", 1, {ORDERS: LOG}, cluster_id="one")
        write_directory(tmp_path / "b", 2, {ORDERS: LOG}, cluster_id="two")
        assert "belongs to cluster two" in refusal(tmp_path / "a", tmp_path / "b")

    def test_damaged_properties(self, tmp_path: Path) -> None:
        (tmp_path / "meta.properties").write_text("version=7\n")
        assert "version '7' of meta.properties is neither 0 nor 1" in refusal(tmp_path)
