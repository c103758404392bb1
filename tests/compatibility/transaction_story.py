"""What is done to transactions in the story that is told to Apache Kafka and to Tidelog: every refusal there is, and every log that results.

Each chapter has ids and topics of its own. `one` stands for the protocol up to Kafka 3.9, `two` for that of 4.0 (KIP-890).
"""

from __future__ import annotations

from typing import Final

from tests.compatibility.transaction_teller import Producer, Teller

TOPICS: Final = ("story", "other", "fenced", "offsets", "two", "two-offsets", "hanging", "slow", "aborted")
NOBODY: Final = Producer("nobody", 4_711_000, 0)


def tell_all(teller: Teller) -> list[str]:
    """The whole story."""
    teller.prepare(*TOPICS)
    for chapter in (
        ids,
        joining_in_one,
        producing_in_one,
        ending_in_one,
        fencing_in_one,
        offsets_in_one,
        verification,
        producing_in_two,
        ending_in_two,
        fencing_in_two,
        offsets_in_two,
        time_outs,
        markers_by_hand,
        overview,
    ):
        teller.tell("---", chapter.__name__)
        chapter(teller)
    return teller.lines


def ids(teller: Teller) -> None:
    """InitProducerId: who is given what, and who is refused."""
    teller.init("")
    for timeout_ms in (0, -1, 900_001, 2**31 - 1):
        teller.init("ids", timeout_ms=timeout_ms)
    teller.init("ids", timeout_ms=900_000)
    first = teller.init("ids")
    second = teller.init("ids")
    teller.init("ids", Producer("ids", first.producer_id, -1))
    teller.init("ids", Producer("ids", -1, 0))
    third = teller.init("ids", second)
    teller.init("ids", second)
    teller.init("ids", third.at(0))
    teller.init("ids", third.at(0), version=3)
    teller.init("ids", third.at(99))
    teller.init("ids", Producer("ids", NOBODY.producer_id, 0))
    teller.init("ids", version=0)
    teller.init("ids", version=5)
    teller.init("ids-unknown", NOBODY)
    for plain in (teller.init(None), teller.init(None, timeout_ms=-1)):
        teller.tell("plain", plain.epoch)
    teller.describe("ids")


def joining_in_one(teller: Teller) -> None:
    """AddPartitionsToTxn and AddOffsetsToTxn."""
    producer = teller.init("join")
    for version in (1, 2, 3):
        teller.add(NOBODY, "story", 0, version=version)
        teller.add(producer.at(9), "story", 0, version=version)
        teller.add_offsets(producer.at(9), "group", version=version)
        teller.add_offsets(NOBODY, "group", version=version)
    teller.add(Producer("join", NOBODY.producer_id, 0), "story", 0)
    teller.add(Producer("", producer.producer_id, 0), "story", 0)
    teller.add(producer, "nowhere", 0)
    teller.add(producer, "story", 7)
    teller.add(producer, "story")
    teller.describe("join")
    teller.add(producer, "story", 0)
    teller.add(producer, "story", 0, 1)
    teller.describe("join")
    teller.add_offsets(producer, "group")
    teller.add_offsets(producer, "")
    teller.describe("join")
    teller.end(producer, commit=True)
    teller.describe("join")
    teller.read("story")


def producing_in_one(teller: Teller) -> None:
    """Produce: sequences, epochs, and what is not part of the transaction."""
    producer = teller.init("produce")
    for version in (8, 10, 11):
        teller.produce(producer, "story", "not added", version=version)
    teller.add(producer, "story", 0)
    teller.produce(producer, "story", "one")
    teller.produce(producer, "story", "one", sequence=0)
    teller.produce(producer, "story", "gap", sequence=5)
    teller.produce(producer, "story", "plain", sequence=1, is_transactional=False)
    teller.produce(producer, "other", "not added there")
    teller.produce(producer, "story", "two", version=11)
    teller.produce(producer.at(producer.epoch + 3), "story", "from the future")
    teller.producers("story")
    teller.read("story")
    teller.end(producer, commit=True)
    teller.produce(producer, "story", "late")
    teller.produce(producer, "story", "late", version=11)
    teller.read("story")
    teller.producers("story")


def ending_in_one(teller: Teller) -> None:
    """EndTxn: in every state, twice, and by strangers."""
    producer = teller.init("end")
    for version in (1, 2, 4):
        teller.end(NOBODY, commit=True, version=version)
        teller.end(producer.at(9), commit=True, version=version)
        teller.end(producer, commit=True, version=version)
        teller.end(producer, commit=False, version=version)
    teller.end(Producer("end", NOBODY.producer_id, 0), commit=True)
    teller.end(Producer("", producer.producer_id, 0), commit=True)
    for commit in (True, False):
        teller.add(producer, "aborted", 0)
        teller.produce(producer, "aborted", "committed" if commit else "aborted")
        for _ in range(2):
            teller.end(producer, commit=commit)
        teller.end(producer, commit=not commit)
        teller.describe("end")
    teller.read("aborted")


def fencing_in_one(teller: Teller) -> None:
    """The next incarnation ends what the last one left open."""
    zombie = teller.init("fence")
    teller.add(zombie, "fenced", 0)
    teller.produce(zombie, "fenced", "left open")
    teller.read("fenced")
    teller.init("fence")
    teller.settle("fence")
    teller.describe("fence")
    heir = teller.init("fence")
    for version in (1, 3):
        teller.add(zombie, "fenced", 0, version=version)
        teller.end(zombie, commit=True, version=version)
        teller.add_offsets(zombie, "group", version=version)
    teller.produce(zombie, "fenced", "from the grave")
    teller.init("fence", zombie)
    teller.add(heir, "fenced", 0)
    teller.produce(heir, "fenced", "from the heir")
    teller.produce(zombie, "fenced", "from the grave", sequence=1)
    teller.end(heir, commit=True)
    bumped = teller.init("fence", heir)
    teller.add(bumped, "fenced", 0)
    teller.produce(bumped, "fenced", "sequence", sequence=4)
    teller.produce(bumped, "fenced", "bumped")
    teller.init("fence", bumped)
    teller.settle("fence")
    teller.init("fence", bumped)
    teller.read("fenced")
    teller.producers("fenced")


def offsets_in_one(teller: Teller) -> None:
    """Offsets wait for the transaction."""
    producer = teller.init("offsets")
    teller.commit_offset(producer, "offsets", "offsets", 1)
    teller.commit_offset(producer, "offsets", "offsets", 1, version=4)
    teller.add_offsets(producer, "offsets")
    teller.committed("offsets", "offsets")
    teller.commit_offset(producer, "offsets", "offsets", 5)
    teller.committed("offsets", "offsets")
    teller.commit_offset(producer, "offsets", "offsets", 6, member=("stranger", 1))
    teller.commit_offset(producer, "offsets", "offsets", 6, member=("", 1))
    teller.commit_offset(producer, "", "offsets", 6)
    teller.commit_offset(producer, "offsets", "nowhere", 6)
    teller.commit_offset(producer.at(9), "offsets", "offsets", 6)
    teller.end(producer, commit=False)
    teller.committed("offsets", "offsets")
    teller.add_offsets(producer, "offsets")
    teller.commit_offset(producer, "offsets", "offsets", 7)
    teller.commit_offset(producer, "offsets", "offsets", 8)
    teller.end(producer, commit=True)
    teller.committed("offsets", "offsets")
    teller.commit_offset(producer, "offsets", "offsets", 9)
    teller.committed("offsets", "offsets")


def verification(teller: Teller) -> None:
    """AddPartitionsToTxn as leaders ask it, some of it only to know."""
    producer, other = teller.init("verify"), teller.init("verify-other")
    for version in (4, 5):
        teller.add_as_broker(producer, NOBODY, topic="story", verify=True, version=version)
        teller.add_as_broker(producer.at(9), topic="story", verify=True, version=version)
        teller.add_as_broker(producer.at(9), topic="story", verify=False, version=version)
    teller.add(producer, "story", 0)
    for version in (4, 5):
        teller.add_as_broker(producer, other, topic="story", verify=True, version=version)
        teller.add_as_broker(producer, topic="other", verify=True, version=version)
    teller.add_as_broker(other, topic="story", verify=False)
    teller.describe("verify-other")
    teller.end(producer, commit=False)
    teller.end(other, commit=False)
    teller.describe("verify")


def producing_in_two(teller: Teller) -> None:
    """Partitions are added by the leader, and each transaction has an epoch."""
    producer = teller.init("two", version=5)
    teller.produce(producer.at(9), "two", "from the future", version=12)
    teller.produce(NOBODY, "two", "from nobody", version=12)
    teller.produce(producer, "two", "gap", version=12, sequence=3)
    teller.produce(producer, "two", "one", version=12)
    teller.produce(producer, "two", "one", version=12, sequence=0)
    teller.produce(producer, "two", "two", version=12)
    teller.describe("two")
    following = teller.end(producer, commit=True, version=5)
    teller.describe("two")
    teller.produce(producer, "two", "late", version=12)
    teller.produce(following, "two", "next", version=12)
    teller.produce(producer, "two", "late", version=12, sequence=2)
    teller.read("two")
    last = teller.end(following, commit=False, version=5)
    teller.produce(following, "two", "late", version=12)
    teller.produce(last, "two", "gap", version=12, sequence=1)
    teller.read("two")
    teller.producers("two")


def ending_in_two(teller: Teller) -> None:
    """A retry is told from the end of another transaction."""
    producer = teller.init("two-end", version=5)
    teller.end(producer, commit=True, version=5)
    again = teller.end(producer, commit=False, version=5)
    teller.end(producer, commit=False, version=5)
    teller.end(producer, commit=True, version=5)
    for commit in (True, False):
        teller.produce(again, "two", "x", version=12)
        following = teller.end(again, commit=commit, version=5)
        teller.end(again, commit=commit, version=5)
        teller.end(again, commit=not commit, version=5)
        teller.end(following.at(following.epoch + 1), commit=commit, version=5)
        teller.describe("two-end")
        again = following
    teller.end(again, commit=False, version=5)
    teller.describe("two-end")


def fencing_in_two(teller: Teller) -> None:
    """The next incarnation, and a change of protocol."""
    zombie = teller.init("two-fence", version=5)
    teller.produce(zombie, "fenced", "left open too", version=12)
    teller.init("two-fence", version=5)
    teller.settle("two-fence")
    heir = teller.init("two-fence", version=5)
    teller.end(zombie, commit=True, version=5)
    teller.produce(zombie, "fenced", "from the grave", version=12)
    teller.produce(heir, "fenced", "from the second heir", version=12)
    teller.end(zombie, commit=True, version=5)
    following = teller.end(heir, commit=True, version=5)
    teller.add(following, "fenced", 0)
    teller.produce(following, "fenced", "as in the old days")
    teller.end(following, commit=True)
    teller.describe("two-fence")
    teller.add(following, "fenced", 0)
    teller.produce(following, "fenced", "and again")
    modern = teller.end(following, commit=True, version=5)
    teller.produce(modern, "fenced", "as of today", version=12)
    teller.end(modern, commit=False, version=5)
    teller.read("fenced")


def offsets_in_two(teller: Teller) -> None:
    """The group's coordinator adds its partition."""
    producer = teller.init("two-offsets", version=5)
    teller.commit_offset(producer.at(9), "two-offsets", "two-offsets", 3, version=5)
    teller.commit_offset(NOBODY, "two-offsets", "two-offsets", 3, version=5)
    teller.commit_offset(producer, "two-offsets", "two-offsets", 3, version=5, member=("stranger", 1))
    teller.commit_offset(producer, "two-offsets", "two-offsets", 3, version=5)
    teller.describe("two-offsets")
    teller.committed("two-offsets", "two-offsets")
    following = teller.end(producer, commit=True, version=5)
    teller.committed("two-offsets", "two-offsets")
    teller.commit_offset(producer, "two-offsets", "two-offsets", 4, version=5)
    teller.commit_offset(following, "two-offsets", "two-offsets", 5, version=5)
    teller.end(following, commit=False, version=5)
    teller.committed("two-offsets", "two-offsets")


def time_outs(teller: Teller) -> None:
    """A transaction that takes too long is aborted, and its producer fenced."""
    one, two = teller.init("slow", timeout_ms=300), teller.init("slow-two", timeout_ms=300, version=5)
    teller.add(one, "slow", 0)
    teller.produce(one, "slow", "too slow")
    teller.produce(two, "slow", "too slow as well", version=12)
    for transactional_id in ("slow", "slow-two"):
        teller.await_state(transactional_id, "CompleteAbort")
        teller.describe(transactional_id)
    teller.end(one, commit=True)
    teller.add(one, "slow", 0)
    teller.produce(one, "slow", "much too slow")
    teller.init("slow", one)
    teller.end(two, commit=True, version=5)
    teller.produce(two, "slow", "much too slow", version=12)
    teller.init("slow-two", two, version=5)
    teller.read("slow")


def markers_by_hand(teller: Teller) -> None:
    """WriteTxnMarkers as coordinators send it, and as an operator does to whom a transaction hangs."""
    teller.init("hanging")
    producer = teller.init("hanging")
    teller.add(producer, "hanging", 0)
    teller.produce(producer, "hanging", "hangs")
    teller.write_marker(producer, "nowhere", commit=False, coordinator_epoch=0)
    teller.write_marker(NOBODY, "hanging", commit=False, coordinator_epoch=0)
    teller.write_marker(producer, "hanging", commit=False, coordinator_epoch=5)
    teller.produce(producer, "hanging", "after the marker")
    teller.write_marker(producer, "hanging", commit=True, coordinator_epoch=4)
    teller.write_marker(producer.at(producer.epoch - 1), "hanging", commit=True, coordinator_epoch=5)
    teller.producers("hanging")
    teller.read("hanging")


def overview(teller: Teller) -> None:
    """ListTransactions and DescribeTransactions."""
    producer = teller.init("listed")
    teller.list_all()
    teller.list_all("Ongoing")
    teller.list_all("Ongoing", "Empty", "Nonsense")
    teller.list_all(producer=producer)
    teller.list_all("Ongoing", duration_ms=600_000)
    teller.list_all("Ongoing", duration_ms=0)
    teller.list_all(pattern="two-.*")
    teller.list_all(pattern="two")
    teller.list_all(pattern="two-(")
    teller.describe("unknown")
    teller.describe("")
    teller.producers("nowhere")
