"""What may never happen, one invariant a file. A checker looks at snapshots of a running cluster and names what it finds broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from tidelog.simulation.checkers.aborted_lists_agree import AbortedListsAgree
from tidelog.simulation.checkers.acknowledged_stays import AcknowledgedStayed, AcknowledgedStays
from tidelog.simulation.checkers.bounds_hold import BoundsHold
from tidelog.simulation.checkers.commits_need_minimum import CommitsNeedMinimum
from tidelog.simulation.checkers.committed_never_changes import CommittedNeverChanges
from tidelog.simulation.checkers.committed_offsets_stay import CommittedOffsetsStay, OffsetsSurvive
from tidelog.simulation.checkers.delivered_once import DeliveredOnce
from tidelog.simulation.checkers.ending import EndChecker
from tidelog.simulation.checkers.epochs_are_noted import EpochsAreNoted
from tidelog.simulation.checkers.equal_below_watermark import EqualBelowWatermark
from tidelog.simulation.checkers.everything_is_read import EverythingIsRead
from tidelog.simulation.checkers.files_are_there import FilesAreThere
from tidelog.simulation.checkers.flushed_stays import FlushedStays
from tidelog.simulation.checkers.groups_process_everything import GroupsProcessEverything
from tidelog.simulation.checkers.isr_has_committed import IsrHasCommitted
from tidelog.simulation.checkers.no_aborted_read import NoAbortedRead, NothingAbortedWasRead
from tidelog.simulation.checkers.no_holes import NoHoles
from tidelog.simulation.checkers.no_torn_transaction import NoTornTransaction
from tidelog.simulation.checkers.nothing_read_vanishes import NothingReadVanishes
from tidelog.simulation.checkers.offsets_move_with_output import OffsetsMoveWithOutput
from tidelog.simulation.checkers.one_history_per_epoch import OneHistoryPerEpoch
from tidelog.simulation.checkers.one_leader_per_epoch import OneLeaderPerEpoch
from tidelog.simulation.checkers.one_owner import OneOwner
from tidelog.simulation.checkers.producers_follow_log import ProducersFollowLog
from tidelog.simulation.checkers.readers_skip_nothing import ReadersSkipNothing, ReadersSkippedNothing
from tidelog.simulation.checkers.recovered_is_sound import RecoveredIsSound
from tidelog.simulation.checkers.recovery_invents_nothing import RecoveryInventsNothing
from tidelog.simulation.checkers.resources_bounded import ResourcesBounded, ResourcesReturned
from tidelog.simulation.checkers.sequences_contiguous import SequencesContiguous
from tidelog.simulation.checkers.standing_has_committed import StandingHasCommitted
from tidelog.simulation.checkers.transaction_states import TransactionStates
from tidelog.simulation.checkers.transactions_apart import TransactionsApart
from tidelog.simulation.checkers.transactions_end import TransactionsEnded
from tidelog.simulation.checkers.transactions_once import TransactionsOnce
from tidelog.simulation.checkers.zombies_change_nothing import ZombiesChangeNothing
from tidelog.simulation.checkers.zombies_commit_nothing import ZombiesCommitNothing
from tidelog.simulation.checkers.zombies_end_nothing import ZombiesEndNothing
from tidelog.simulation.failures import told
from tidelog.simulation.observer import Snapshot

if TYPE_CHECKING:  # Both import the checkers.
    from tidelog.simulation.cluster import SimulatedCluster
    from tidelog.simulation.workloads.history import History

__all__ = [
    "AbortedListsAgree",
    "AcknowledgedStayed",
    "AcknowledgedStays",
    "BoundsHold",
    "Checker",
    "CheckerDied",
    "CommitsNeedMinimum",
    "CommittedNeverChanges",
    "CommittedOffsetsStay",
    "DeliveredOnce",
    "EndChecker",
    "EpochsAreNoted",
    "EqualBelowWatermark",
    "EverythingIsRead",
    "FilesAreThere",
    "FlushedStays",
    "GroupsProcessEverything",
    "InvariantBroken",
    "IsrHasCommitted",
    "NoAbortedRead",
    "NoHoles",
    "NoTornTransaction",
    "NothingAbortedWasRead",
    "NothingReadVanishes",
    "OffsetsMoveWithOutput",
    "OffsetsSurvive",
    "OneHistoryPerEpoch",
    "OneLeaderPerEpoch",
    "OneOwner",
    "ProducersFollowLog",
    "ReadersSkipNothing",
    "ReadersSkippedNothing",
    "RecoveredIsSound",
    "RecoveryInventsNothing",
    "ResourcesBounded",
    "ResourcesReturned",
    "SequencesContiguous",
    "StandingHasCommitted",
    "TransactionStates",
    "TransactionsApart",
    "TransactionsEnded",
    "TransactionsOnce",
    "ZombiesChangeNothing",
    "ZombiesCommitNothing",
    "ZombiesEndNothing",
    "all_checkers",
    "check",
    "cluster_checkers",
    "end_checkers",
    "named",
]


class Checker(Protocol):
    """One invariant."""

    @property
    def name(self) -> str:
        """How reports call it, e.g. `I4 bounds hold`."""
        ...

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """What is broken now, or with regard to what was seen before."""
        ...


class CheckerDied(Exception):
    """A checker broke, so nothing is known about its invariant; the message tells which, and of what."""


class InvariantBroken(Exception):
    """The first thing that may never happen, and did: which checker says so, what it saw, and when."""

    def __init__(self, checker: str, sentence: str, at_ms: float) -> None:
        super().__init__(f"at {at_ms:.3f} ms, {checker}: {sentence}")
        self.checker = checker
        self.sentence = sentence
        self.at_ms = at_ms


def all_checkers(may_lose: Callable[[str], bool] = lambda _: False) -> list[Checker]:
    """Files, I2 to I7 and I13, log matching, and no holes; I1 needs to know what was acknowledged and is made by the workload.

    `may_lose` names the topics of unclean elections, which give up a part of I2, I3 and I5; each of these says what holds all the same.
    """
    return [
        FilesAreThere(),
        CommittedNeverChanges(may_lose),
        EqualBelowWatermark(may_lose),
        BoundsHold(),
        IsrHasCommitted(may_lose),
        StandingHasCommitted(may_lose),
        OneLeaderPerEpoch(),
        OneHistoryPerEpoch(),
        EpochsAreNoted(),
        NoHoles(),
        SequencesContiguous(),
        RecoveryInventsNothing(),
    ]


def cluster_checkers(cluster: SimulatedCluster, history: History) -> list[Checker]:
    """I8, I11, I14, what readers are given, and the parts of I5, I7 and I13 for which one must look at more than the replicas."""
    brokers = cluster.brokers.values()
    return [
        CommitsNeedMinimum(brokers),
        ProducersFollowLog(brokers),
        FlushedStays(brokers),
        RecoveredIsSound(brokers),
        ZombiesChangeNothing(cluster.store.tree),
        ResourcesBounded.of(cluster),
        ReadersSkipNothing(history),
        OneOwner(history.groups),
        CommittedOffsetsStay(history.groups),
        ZombiesCommitNothing(history.groups),
        TransactionStates(brokers),
        NoAbortedRead(history.transactions),
        ZombiesEndNothing(history.transactions),
    ]


def end_checkers() -> list[EndChecker]:
    """What can be judged only when everything is over: I1, I8, I9, what readers saw, and what is left of the load."""
    return [
        EverythingIsRead(),
        AcknowledgedStayed(),
        DeliveredOnce(),
        NothingReadVanishes(),
        ReadersSkippedNothing(),
        OffsetsSurvive(),
        GroupsProcessEverything(),
        NothingAbortedWasRead(),
        NoTornTransaction(),
        TransactionsOnce(),
        TransactionsApart(),
        AbortedListsAgree(),
        TransactionsEnded(),
        OffsetsMoveWithOutput(),
        ResourcesReturned(),
    ]


def check(checkers: Sequence[Checker], snapshot: Snapshot) -> None:
    """Raise InvariantBroken for the first violation."""
    checker = None
    try:
        for checker in checkers:
            for violation in checker.look(snapshot):
                raise InvariantBroken(checker.name, violation, snapshot.now_ms)
    except InvariantBroken:
        raise
    except Exception as error:
        raise _died("" if checker is None else checker.name, error) from error


@contextmanager
def named(checker: str) -> Iterator[None]:
    """Raise CheckerDied where the checker in the block breaks."""
    try:
        yield
    except InvariantBroken:
        raise
    except Exception as error:
        raise _died(checker, error) from error


def _died(checker: str, error: Exception) -> CheckerDied:
    return CheckerDied(f"the checker {checker} died of {told(error)}")
