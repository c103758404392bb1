"""Our own client in transactions with Apache Kafka, in both versions of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.compatibility import transaction_checks as check
from tests.compatibility.apache_kafka import KafkaProcess
from tests.compatibility.committed_readers import read_by_confluent
from tests.compatibility.our_transactions import OurOldTransactions, OurTransactions
from tests.compatibility.transactional_client import Make

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.usefixtures("kafka_jars")]
OURS: Final[dict[str, Make]] = {"ours": OurTransactions, "ours-of-old": OurOldTransactions}


@pytest.fixture(scope="module")
def broker(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    """Kafka that looks often for transactions that take too long."""
    with KafkaProcess(tmp_path_factory.mktemp("kafka"), properties=check.SETTINGS) as process:
        yield process


@pytest.fixture(params=OURS.values(), ids=list(OURS))
def make(request: pytest.FixtureRequest) -> Make:
    """Each version of the protocol in turn."""
    made: Make = request.param
    return made


def test_what_we_commit_is_read_and_what_we_abort_is_not(broker: KafkaProcess, topic: str, make: Make) -> None:
    check.commit_and_abort(broker, topic, make, read_by_confluent)


def test_a_transaction_in_which_we_sent_nothing_ends_all_the_same(broker: KafkaProcess, topic: str, make: Make) -> None:
    check.end_without_records(broker, topic, make)


def test_our_next_producer_of_an_id_fences_the_last_one(broker: KafkaProcess, topic: str, make: Make) -> None:
    check.fence_a_zombie(broker, topic, make)


def test_we_are_refused_when_we_take_too_long(broker: KafkaProcess, topic: str, make: Make) -> None:
    check.take_too_long(broker, topic, make)


def test_our_offsets_are_committed_with_the_transaction_or_not_at_all(
    broker: KafkaProcess, topic: str, make: Make
) -> None:
    check.commit_offsets(broker, topic, make)


def test_our_member_that_lost_its_partitions_cannot_commit_their_offsets(
    broker: KafkaProcess, topic: str, make: Make
) -> None:
    check.fence_a_member(broker, topic, make)
