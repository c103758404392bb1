"""What a consumer does for its group when it polls, and while it does not: partitions come and go, positions are found and committed."""

from __future__ import annotations

import asyncio
import base64
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidelog.client.assignment import Assignment
from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ConsumerConfig
from tidelog.client.config_kinds import GroupProtocol
from tidelog.client.coordinators import Coordinators
from tidelog.client.errors import ClientError, CommitFailed, NoPosition, WrongUse
from tidelog.client.groups.classic_membership import ClassicMembership
from tidelog.client.groups.consumer_membership import ConsumerMembership
from tidelog.client.groups.membership import Change, Identity, Membership, MembershipSettings
from tidelog.client.groups.offset_calls import OffsetCalls
from tidelog.client.groups.offset_commits import AutoCommit, Committed, Offsets
from tidelog.client.groups.session import GroupSession, Subscribed
from tidelog.client.groups.starting_points import StartingPoints
from tidelog.client.scope import TaskScope
from tidelog.model import ErrorCode, TopicPartition

Listener: TypeAlias = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""Is told of partitions that come or go, between two records; plain or async."""
OnCommitted: TypeAlias = Callable[[Offsets, ClientError | None], None]


_SHARE_OF_COMMIT: Final = 0.75
"""Of the time for a departure: some must be left to say goodbye, which spares the others the wait for a session to lapse."""


class Listeners(NamedTuple):
    """Who is told of partitions that come and go."""

    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None


class GroupDriver:
    """The group's side of one consumer. `on_news` is called when there may be something to fetch or to tell."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        runtime: ClientRuntime,
        *,
        assignment: Assignment,
        on_news: Callable[[], None],
    ) -> None:
        self.has_no_group = config.group_id is None
        """Then there is nothing to look after."""
        self._config = config
        self._runtime = runtime
        self._assignment = assignment
        self._points = StartingPoints(assignment)
        self._on_news = on_news
        coordinators = Coordinators(cluster, config, runtime)
        self._membership = _membership(config, runtime)
        self._session = GroupSession(
            cluster,
            config,
            runtime,
            membership=self._membership,
            coordinators=coordinators,
            on_attention=on_news,
        )
        self._calls = OffsetCalls(cluster, config, runtime, coordinators)
        self._auto = AutoCommit(is_enabled=config.enable_auto_commit, interval_ms=config.auto_commit_interval_ms)
        self._listeners = Listeners()
        self._scope: TaskScope | None = None
        self._is_subscribed = False
        self._telling: Change | None = None
        self._parting: asyncio.Event | None = None  # set when what is given up has been committed, or will not be
        self._is_committing = False
        self._is_beginning = False
        self._polled_identity = Identity()

    @property
    def identity(self) -> Identity:
        """Who commits: nobody in particular where partitions are assigned by hand."""
        return self._membership.identity if self._is_subscribed else Identity()

    @property
    def polled_identity(self) -> Identity:
        """Who the program was when it last polled, or was told of partitions: in whose name it may commit what it was given.

        It stays so when the member is put out. Such a member has no name until it joins again, and what is committed in nobody's name
        nobody refuses.
        """
        return self._polled_identity if self._is_subscribed else Identity()

    @property
    def is_subscribed(self) -> bool:
        """Whether the group says what is read."""
        return self._is_subscribed

    @property
    def due_ms(self) -> float | None:
        """When a poll that waits should look after the group again."""
        return None if self.has_no_group else self._auto.due_ms

    def start(self, scope: TaskScope) -> None:
        """Work in the consumer's scope from now on."""
        self._scope = scope
        if not self.has_no_group:
            scope.spawn(self._session.run(), name=f"consumer of group {self._config.group_id}")

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """The program says what is read; where a group is named, from what it has committed on."""
        if self._is_subscribed:
            raise WrongUse("partitions cannot be assigned while topics are subscribed to: unsubscribe first")
        self._assignment.assign(topic_partitions, awaits_committed=not self.has_no_group)
        self._begin_positions()

    def subscribe(self, wish: Subscribed, listeners: Listeners) -> None:
        """The group says what is read from now on."""
        if not self._is_subscribed:
            self._assignment.assign(())
        self._is_subscribed = True
        self._listeners = listeners
        self._membership.on_polled(self._now_ms())
        self._session.subscribe(wish)

    async def depart(self, *, commits: bool, timeout_ms: float) -> None:
        """Give everything up: commit if that is wanted, tell the program, leave the group; all within the timeout."""
        deadline_ms = self._now_ms() + timeout_ms
        if commits and self._auto.is_enabled and not self.has_no_group:
            await self._commit_quietly(self._auto.news(self._points.positions()), timeout_ms * _SHARE_OF_COMMIT)
        if not self._is_subscribed:
            return
        change = self._telling or self._membership.begin_change() or Change()
        lost = change.as_lost().lost if self._membership.is_lost else change.lost
        owned = [each for each in self._membership.owned if each not in set(lost)]
        try:
            await _tell(self._listeners.on_lost, lost)
            await _tell(self._listeners.on_revoked, owned)
        finally:
            self._is_subscribed, self._telling, self._parting = False, None, None
            self._assignment.assign(())
            self._auto.forget([*lost, *owned])
            await self._session.leave(max(deadline_ms - self._now_ms(), 1))
            self._session.subscribe(None)

    async def advance(self, deadline_s: float) -> bool:
        """Look after the group before records are handed out; False if that has to wait for a commit longer than until the deadline.

        Raises GroupRefused, RequestRefused or UnsupportedApi where the consumer cannot be in its group, and what listeners raise.
        """
        if self._is_subscribed:
            if self._membership.on_polled(self._now_ms()):
                self._session.wake()
            while self._telling is not None or self._membership.has_change:
                if not self._membership.is_lost:
                    self._polled_identity = self._membership.identity
                if not await self._commit_before_change(deadline_s):
                    return False
                await self._tell_change()
            if self._session.failure is not None:
                raise self._session.failure
            self._polled_identity = self._membership.identity
        self._begin_auto_commit()
        self._begin_positions()
        return True

    async def commit(self, offsets: Offsets | None, timeout_ms: float) -> None:
        """Commit these, or where the program stands. Raises CommitFailed."""
        self._check_group()
        wanted = dict(self._points.positions() if offsets is None else offsets)
        if not wanted:
            return
        if self._is_subscribed and self.identity.epoch <= 0:
            raise CommitFailed(dict.fromkeys(wanted, ErrorCode.UNKNOWN_MEMBER_ID))
        await self._calls.commit(
            wanted,
            self.identity,
            timeout_ms=timeout_ms,
            renewed=self._identity_of_owner,
            on_refused=self._on_commit_refused,
        )
        self._auto.on_known(wanted)

    def begin_commit(self, offsets: Offsets | None, on_committed: OnCommitted | None) -> None:
        """The same without waiting; commits are sent in the order in which they are begun."""
        self._check_group()
        wanted = dict(self._points.positions() if offsets is None else offsets)

        async def commit() -> None:
            failure: ClientError | None = None
            try:
                await self.commit(wanted, self._config.default_api_timeout_ms)
            except ClientError as error:
                failure = error
            if on_committed is not None:
                on_committed(wanted, failure)

        if self._scope is not None:
            self._scope.spawn(commit(), name="consumer commits")

    async def committed(
        self, topic_partitions: Iterable[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, Committed | None]:
        """What the group has committed. Raises NoPosition, GroupRefused, FetchFailed or RequestRefused."""
        self._check_group()
        return await self._calls.fetch(topic_partitions, self._fetcher_identity, timeout_ms=timeout_ms)

    def _check_group(self) -> None:
        if self.has_no_group:
            raise WrongUse("group.id is not set")

    def _fetcher_identity(self) -> Identity:
        """Only members of the new protocol say who asks."""
        is_new = self._config.group_protocol is GroupProtocol.CONSUMER
        return self.identity if is_new and self.identity.epoch > 0 else Identity()

    def _identity_of_owner(self, partitions: Iterable[TopicPartition]) -> Identity | None:
        """Who commits for these, unless others may by now."""
        return self.identity if set(partitions) <= set(self._membership.owned) else None

    def _on_commit_refused(self, code: ErrorCode, identity: Identity) -> None:
        if self._is_subscribed:
            self._membership.on_commit_refused(code, identity)
            self._session.wake()

    async def _commit_before_change(self, deadline_s: float) -> bool:
        """Commit before partitions are given up; a poll waits for that no longer than it has time, and the next poll goes on waiting."""
        if self._telling is None:
            self._telling = self._membership.begin_change()
            if self._telling is not None and self._telling.needs_commit and self._auto.is_enabled:
                self._parting = asyncio.Event()
                self._spawn(self._commit_at_parting(self._parting), name="consumer commits before a rebalance")
        if self._parting is None or self._parting.is_set():
            return True
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._parting.wait()
        except TimeoutError:
            return False
        return True

    async def _commit_at_parting(self, parting: asyncio.Event) -> None:
        timeout_ms = min(self._config.default_api_timeout_ms, self._config.max_poll_interval_ms / 2)
        await self._commit_quietly(self._auto.news(self._points.positions()), timeout_ms)
        parting.set()
        self._on_news()

    async def _tell_change(self) -> None:
        change, self._telling, self._parting = self._telling, None, None
        if change is None:
            return
        if self._membership.is_lost:
            change = change.as_lost()  # It was put out while its offsets were being committed.
        try:
            try:
                await _tell(self._listeners.on_lost, change.lost)
                await _tell(self._listeners.on_revoked, change.revoked)
            finally:
                self._give_up(change.lost + change.revoked)
            self._take_over(change.assigned)
            await _tell(self._listeners.on_assigned, change.assigned)
        finally:
            # Whatever the program made of it: what was given up is given up, what was taken over is taken over.
            self._take_over(change.assigned)
            self._membership.on_changed(change)
            self._session.wake()

    def _give_up(self, partitions: Sequence[TopicPartition]) -> None:
        gone = set(partitions)
        self._assignment.assign([each for each in self._assignment.topic_partitions if each not in gone])
        self._auto.forget(partitions)

    def _take_over(self, partitions: Sequence[TopicPartition]) -> None:
        self._assignment.assign([*self._assignment.topic_partitions, *partitions], awaits_committed=True)
        self._begin_positions()
        self._on_news()

    def _begin_auto_commit(self) -> None:
        now_ms = self._now_ms()
        if not self._auto.is_due(now_ms) or self._is_committing:
            return
        self._auto.on_begun(now_ms)
        news = self._auto.news(self._points.positions())
        if news:
            self._is_committing = True
            self._spawn(self._auto_commit(news), name="consumer commits now and then")

    async def _auto_commit(self, offsets: Offsets) -> None:
        try:
            await self._commit_quietly(offsets, self._config.default_api_timeout_ms)
        finally:
            self._is_committing = False

    async def _commit_quietly(self, offsets: Offsets, timeout_ms: float) -> None:
        """Nobody asked for this commit, so nobody is told that it failed: others read again what it would have spared them."""
        try:
            await self.commit(offsets, timeout_ms)
        except ClientError:
            return

    def _begin_positions(self) -> None:
        if not self._is_beginning and self._points.waiting():
            self._is_beginning = True
            self._spawn(self._find_positions(), name="consumer looks up committed offsets")

    async def _find_positions(self) -> None:
        """Until no partition waits any more; what cannot be found out is the partition's error."""
        try:
            while waiting := self._points.waiting():
                keys = [state.topic_partition for state in waiting]
                found: dict[TopicPartition, Committed | None] = {}
                failure: ClientError | None = None
                try:
                    found = await self.committed(keys, self._config.default_api_timeout_ms)
                except NoPosition:
                    continue  # It is asked again for as long as somebody wants to read.
                except ClientError as error:
                    failure = error
                self._points.begin(waiting, found, failure)
                self._auto.on_known({key: each for key, each in found.items() if each is not None})
                self._on_news()
        finally:
            self._is_beginning = False

    def _spawn(self, work: Coroutine[None, None, None], *, name: str) -> None:
        if self._scope is None:
            work.close()
            raise WrongUse("the consumer is not open yet: use it as `async with`")
        self._scope.spawn(work, name=name)

    def _now_ms(self) -> float:
        return self._runtime.clock.monotonic_ms()


async def _tell(listener: Listener | None, partitions: Sequence[TopicPartition]) -> None:
    if listener is not None and partitions:
        waits = listener(list(partitions))
        if inspect.isawaitable(waits):
            await waits


def _membership(config: ConsumerConfig, runtime: ClientRuntime) -> Membership:
    settings = MembershipSettings(
        group_id=config.group_id or "",
        instance_id=config.group_instance_id,
        rack=config.client_rack,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        assignors=config.partition_assignment_strategy,
        remote_assignor=config.group_remote_assignor,
    )
    if config.group_protocol is GroupProtocol.CLASSIC:
        return ClassicMembership(settings)
    # Made by the member and written as Kafka's clients write theirs (KIP-1082).
    member_id = base64.urlsafe_b64encode(runtime.randomness.uuid().bytes).decode().rstrip("=")
    return ConsumerMembership(settings, member_id)
