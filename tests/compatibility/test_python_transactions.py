"""Python clients in transactions, stock ones and ours: what is committed is read once, what is aborted never, whoever is killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.stock_clients import close_unconnected
from tests.compatibility import transaction_checks as check
from tests.compatibility.committed_readers import READERS, Reader
from tests.compatibility.our_transactions import OurOldTransactions, OurTransactions
from tests.compatibility.processes import TidelogCluster
from tests.compatibility.transactional_client import Make
from tests.compatibility.transactional_clients import CLIENTS
from tests.tiers import rest_proven

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
ALL: dict[str, Make] = {**CLIENTS, "ours": OurTransactions, "ours-of-old": OurOldTransactions}
EACH = pytest.mark.parametrize("make", ALL.values(), ids=list(ALL))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers that wait for nobody before a group's first generation, and look often for transactions that take too long."""
    with TidelogCluster(tmp_path_factory.mktemp("cluster"), check.SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def _sockets() -> Iterator[None]:
    """kafka-python leaves some open when it is done."""
    yield
    close_unconnected()


@EACH
@pytest.mark.parametrize("read", rest_proven(READERS.values()), ids=[f"read-by-{name}" for name in READERS])
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    cluster: TidelogCluster, topic: str, make: Make, read: Reader
) -> None:
    check.commit_and_abort(cluster, topic, make, read)


@EACH
def test_a_transaction_that_sent_nothing_is_committed_or_aborted_all_the_same(
    cluster: TidelogCluster, topic: str, make: Make
) -> None:
    check.end_without_records(cluster, topic, make)


@EACH
def test_the_next_producer_of_an_id_ends_what_the_last_one_left_open_and_fences_it(
    cluster: TidelogCluster, topic: str, make: Make
) -> None:
    check.fence_a_zombie(cluster, topic, make)


@EACH
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_refused(
    cluster: TidelogCluster, topic: str, make: Make
) -> None:
    check.take_too_long(cluster, topic, make)


@EACH
def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    cluster: TidelogCluster, topic: str, make: Make
) -> None:
    check.commit_offsets(cluster, topic, make)


@pytest.mark.parametrize("kind", ["confluent", "kafka-python", "ours", "ours-of-old"])
def test_a_member_that_lost_its_partitions_cannot_commit_their_offsets_with_a_transaction(
    cluster: TidelogCluster, topic: str, kind: str
) -> None:
    check.fence_a_member(cluster, topic, ALL[kind])


@pytest.mark.proof
def test_each_record_is_transformed_once_while_coordinators_and_leaders_are_killed(
    cluster: TidelogCluster, topic: str
) -> None:
    """All clients at once, but kafka-python (3.0.12): it forgets a request whose coordinator is gone, and waits for the answer for ever."""
    makes = {name: make for name, make in ALL.items() if name != "kafka-python"}
    check.transform_while_brokers_are_killed(cluster, topic, makes)
