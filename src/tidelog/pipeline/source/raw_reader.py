"""Raw record batches for the ranges of one task, fetched from the leaders, ahead of whoever decodes them.

Every leader has at most one fetch of ours in flight, which asks for all ranges it leads that are not finished. Chunks of a range arrive in
order; those of different ranges as the brokers send them. What is fetched and not yet taken is bounded. A range that gets nowhere is
bounded too: it fails after `read_timeout_ms`, with what the brokers said meanwhile; time in which whoever decodes had enough to do does
not count. An answer has a bound, and many ranges of one leader do not all find room in it: those that were served least come first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.client import BrokersUnreachable, ClientError, Cluster, ConnectionLost, Lane, Leader
from tidelog.client.position_checks import EpochEnd, PositionCheck
from tidelog.client.position_questions import PositionQuestions
from tidelog.client.verdict import SAYS_METADATA_IS_STALE
from tidelog.model import BrokerEndpoint, BrokerId, ErrorCode, IsolationLevel, Offset
from tidelog.pipeline.source.batch_walk import walk
from tidelog.pipeline.source.errors import DataLost, ReadStuck
from tidelog.pipeline.source.fetch_questions import Answers, Question, ask
from tidelog.pipeline.source.options import SourceOptions
from tidelog.pipeline.source.planning import Range
from tidelog.pipeline.source.ranges_left import RangeLeft
from tidelog.pipeline.source.survey import Survey
from tidelog.runtime import Runtime
from tidelog.wire.messages.fetch import PartitionData
from tidelog.wire.primitives import Buffer

AHEAD_BYTES_MAX: Final = 16 << 20
"""What may lie fetched and not yet decoded; one answer may come on top."""

_GONE_MS: Final = 5_000.0
"""A topic that no broker has known for so long was deleted; one that they know under another id was made anew; a leader that has had
nothing for so long is asked whether its log was cut. Until then a broker may be late to hear, or a new leader to know what is committed."""

_PAUSE_MAX_MS: Final = 1_000.0
_LEADER_TIMEOUT_MS: Final = 2_000.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of one fetch: whole batches, the last of which may be torn."""

    at: int  # which of the task's ranges
    fetch_offset: Offset  # what comes before it, though it be in the same batch, was deleted, or handed out before
    data: Buffer
    aborted: Sequence[tuple[int, int]]  # producer id and first offset
    next_offset: Offset  # after the last whole batch


class RawReader:
    """Reads the ranges of one task. `run` fetches until all is fetched; `next_chunk` hands out; both on the loop of the client."""

    def __init__(self, cluster: Cluster, options: SourceOptions, runtime: Runtime, ranges: Sequence[Range]) -> None:
        self._cluster = cluster
        self._options = options
        self._config = options.client
        self._runtime = runtime
        self._survey = Survey(cluster, options, runtime)
        self._questions = PositionQuestions(cluster)
        self._left = [RangeLeft(at, each) for at, each in enumerate(ranges)]
        self._busy: set[BrokerId] = set()
        self._chunks: deque[Chunk] = deque()
        self._ahead_bytes = 0
        self._full_since_ms: float | None = None
        self._news = asyncio.Event()  # something was taken, answered or found
        self._arrived = asyncio.Event()
        self._is_over = False

    @property
    def ahead_bytes(self) -> int:
        """What lies fetched and not yet taken."""
        return self._ahead_bytes

    async def run(self) -> None:
        """Fetch everything. Raises DataLost or ReadStuck."""
        self._cluster.track(*{left.topic_partition.topic: None for left in self._left})
        try:
            async with asyncio.TaskGroup() as group:
                while unfinished := [left for left in self._left if not left.is_done]:
                    self._news.clear()
                    self._begin(unfinished, group)
                    await self._until_news(unfinished)
        finally:
            self._is_over = True
            self._arrived.set()

    async def next_chunk(self) -> Chunk | None:
        """The next bytes, None when there are no more. What kept `run` from going on, `run` raises."""
        while not self._chunks:
            if self._is_over:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        chunk = self._chunks.popleft()
        self._ahead_bytes -= len(chunk.data)
        self._news.set()
        return chunk

    def _begin(self, unfinished: Iterable[RangeLeft], group: asyncio.TaskGroup) -> None:
        """Begin all questions that can be asked now."""
        now_ms = self._now_ms()
        if self._ahead_bytes >= AHEAD_BYTES_MAX:
            self._full_since_ms = now_ms if self._full_since_ms is None else self._full_since_ms
            return
        if self._full_since_ms is not None:
            for left in self._left:
                left.forgive(self._full_since_ms, now_ms)
            self._full_since_ms = None
        by_leader: dict[BrokerId, list[tuple[RangeLeft, Leader]]] = {}
        for left in unfinished:
            self._check_patience(left, now_ms)
            if left.is_asked or left.not_before_ms > now_ms:
                continue
            leader = self._cluster.metadata.leader_of(left.topic_partition)
            if self._is_of_another(left):
                self._on_another(left)
            elif leader is None:
                left.is_asked = True
                group.create_task(self._find_leader(left))
            elif leader.broker_id not in self._busy:
                by_leader.setdefault(leader.broker_id, []).append((left, leader))
        for node, led in by_leader.items():
            led.sort(key=lambda each: each[0].served)
            self._busy.add(node)
            for left, _ in led:
                left.is_asked = True
            group.create_task(self._fetch(node, led))

    async def _until_news(self, unfinished: Iterable[RangeLeft]) -> None:
        """Wait for something to change; a range that is to be asked again later changes by itself."""
        now_ms = self._now_ms()
        pauses = [left.not_before_ms - now_ms for left in unfinished if not left.is_done and not left.is_asked]
        # A pause that is over already waits for something else: for a busy broker, or for room.
        pause_ms = min((pause for pause in pauses if pause > 0), default=_PAUSE_MAX_MS)
        try:
            async with asyncio.timeout(min(pause_ms, _PAUSE_MAX_MS) / 1000):
                await self._news.wait()
        except TimeoutError:
            return

    async def _find_leader(self, left: RangeLeft) -> None:
        try:
            await self._cluster.leader_of(left.topic_partition, timeout_ms=_LEADER_TIMEOUT_MS)
        except ClientError as error:
            left.trouble(self._now_ms(), str(error))
            self._pause(left)
            self._check_still_there(left)
        finally:
            left.is_asked = False
            self._news.set()

    def _check_still_there(self, left: RangeLeft) -> None:
        code = self._cluster.metadata.error_of(left.topic_partition.topic)
        is_unknown = code in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
        if is_unknown and left.stuck_ms(self._now_ms()) >= _GONE_MS:
            self._lose(left, left.end, f"topic {left.topic_partition.topic!r} is gone")

    def _is_of_another(self, left: RangeLeft) -> bool:
        """Whether the topic that has the name now is not the one that the range was planned for, as far as both are known."""
        topic_id = self._cluster.metadata.topic_id(left.topic_partition.topic)
        return topic_id is not None and left.topic_id is not None and topic_id != left.topic_id

    def _on_another(self, left: RangeLeft) -> None:
        topic = left.topic_partition.topic
        left.trouble(self._now_ms(), f"topic {topic!r} has another id than when this was planned")
        self._cluster.want_refresh(topic)
        self._pause(left)
        if left.stuck_ms(self._now_ms()) >= _GONE_MS:
            self._lose(left, left.end, f"topic {topic!r} was deleted and made anew before it was read")

    async def _fetch(self, node: BrokerId, led: list[tuple[RangeLeft, Leader]]) -> None:
        """One fetch from one leader, from the question to the chunks."""
        questions = [
            Question(left.topic_partition, left.position, leader.leader_epoch, left.bytes_wanted(self._bytes_max))
            for left, leader in led
        ]
        try:
            connection = await self._cluster.connect(node, Lane.FETCH)
            answers = await ask(connection, self._cluster.metadata, self._config, questions)
        except (ConnectionLost, BrokersUnreachable) as error:
            self._cluster.want_refresh(*{left.topic_partition.topic: None for left, _ in led})
            for left, _ in led:
                left.trouble(self._now_ms(), f"broker {node}: {error}")
                self._pause(left)
        else:
            await self._on_answer(node, [left for left, _ in led], answers)
        finally:
            self._busy.discard(node)
            for left, _ in led:
                left.is_asked = False
            self._news.set()

    @property
    def _bytes_max(self) -> int:
        return self._config.max_partition_fetch_bytes

    async def _on_answer(self, node: BrokerId, asked: Sequence[RangeLeft], answers: Answers) -> None:
        has_records = any(row.records for row in answers.partitions.values())
        for left in asked:
            answer = answers.partitions.get(left.topic_partition)
            if answers.code is not ErrorCode.NONE or answer is None:
                left.trouble(self._now_ms(), f"broker {node} answered {answers.code.name} and nothing more")
                self._pause(left)
            elif answer.error_code is ErrorCode.NONE and answer.records:
                self._on_records(node, left, answer.records, answer)
            elif (
                answer.error_code is ErrorCode.NONE and has_records and left is not asked[0] and self._has(left, answer)
            ):
                left.calm()  # The answer was full before it was this one's turn.
            elif answer.error_code is ErrorCode.NONE:
                await self._on_nothing(node, left, answer)
            elif answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._on_out_of_range(node, left)
            else:
                self._on_error(node, left, answer, answers.endpoints)
            if answers.throttle_ms:
                left.not_before_ms = max(left.not_before_ms, self._now_ms() + answers.throttle_ms)

    def _has(self, left: RangeLeft, answer: PartitionData) -> bool:
        is_committed = self._config.isolation_level is IsolationLevel.READ_COMMITTED
        return left.position < (answer.last_stable_offset if is_committed else answer.high_watermark)

    def _on_records(self, node: BrokerId, left: RangeLeft, data: Buffer, answer: PartitionData) -> None:
        walked = walk(data, left.topic_partition, left.position)
        if walked.next_offset > left.position:
            aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
            chunk = Chunk(left.at, left.position, data, aborted, walked.next_offset)
            left.advance(walked.next_offset, len(data))
            self._chunks.append(chunk)
            self._ahead_bytes += len(data)
            self._arrived.set()
        else:
            left.bytes_min = min(2 * max(len(data), left.bytes_min), self._config.receive_message_max_bytes)
            left.trouble(self._now_ms(), f"broker {node} sent {len(data)} bytes, less than one batch")
            self._pause(left)

    async def _on_nothing(self, node: BrokerId, left: RangeLeft, answer: PartitionData) -> None:
        """The leader has, or knows of, less than there was when the range was planned."""
        ends = f"it ends at {answer.high_watermark}, what is decided of it at {answer.last_stable_offset}"
        left.trouble(self._now_ms(), f"broker {node} has nothing at offset {left.position}: {ends}")
        self._pause(left)
        if answer.high_watermark <= left.position and left.stuck_ms(self._now_ms()) >= _GONE_MS:
            await self._check_not_cut(left)

    async def _check_not_cut(self, left: RangeLeft) -> None:
        """Ask the leader where its log ends, committed or not: what it does not have, nobody will ever read."""
        leader = self._cluster.metadata.leader_of(left.topic_partition)
        if leader is None:
            return
        check = PositionCheck(left.topic_partition, 0, left.position, leader.leader_epoch, leader.leader_epoch)
        end = (await self._questions.ask([check])).get(check)
        if isinstance(end, EpochEnd) and 0 <= end.end_offset <= left.position:
            what = f"{left.topic_partition} ends at offset {end.end_offset}, and {left.position} to {left.end - 1} are not there any more"
            self._lose(left, left.end, f"{what}: an election lost records, or the topic was made anew")

    async def _on_out_of_range(self, node: BrokerId, left: RangeLeft) -> None:
        """Records were deleted, or the log was cut or made anew: they are lost, or this broker does not know all of the log yet."""
        key = left.topic_partition
        earliest, latest = (await self._survey.earliest([key]))[key], (await self._survey.latest([key]))[key]
        if left.position < earliest:
            what = (
                f"{key} begins at offset {earliest}, and {left.position} to {min(earliest, left.end) - 1} are deleted"
            )
            self._lose(left, earliest, what)
        elif left.position > latest:
            self._lose(
                left, left.end, f"{key} ends at offset {latest}, and {left.position} to {left.end - 1} are not there"
            )
        else:
            left.trouble(self._now_ms(), f"broker {node} says that offset {left.position} is out of range")
            self._cluster.want_refresh(key.topic)
            self._pause(left)

    def _on_error(
        self, node: BrokerId, left: RangeLeft, answer: PartitionData, endpoints: Sequence[BrokerEndpoint]
    ) -> None:
        code = answer.error_code
        left.trouble(self._now_ms(), f"broker {node} answered {code.name}")
        if code in SAYS_METADATA_IS_STALE:
            hint = Leader(answer.current_leader.leader_id, answer.current_leader.leader_epoch)
            if self._cluster.metadata.on_leader_hint(left.topic_partition, hint, endpoints):
                return
            self._cluster.want_refresh(left.topic_partition.topic)
        elif not code.is_retriable:
            raise ReadStuck(left.topic_partition, left.story())
        self._pause(left)

    def _lose(self, left: RangeLeft, go_on_at: Offset, what: str) -> None:
        """Records of a range are gone: that ends the query, or they are passed over."""
        if self._options.fails_on_data_loss:
            raise DataLost(what)
        left.skip_to(go_on_at, what)

    def _check_patience(self, left: RangeLeft, now_ms: float) -> None:
        timeout_ms = self._options.read_timeout_ms
        if left.stuck_ms(now_ms) >= timeout_ms:
            what = (
                f"offsets {left.position} to {left.end - 1} did not come within {timeout_ms / 1000:g} s: {left.story()}"
            )
            raise ReadStuck(left.topic_partition, what)

    def _pause(self, left: RangeLeft) -> None:
        delay_ms = self._config.retry_backoff.delay_ms(left.failures, self._runtime.randomness)
        left.not_before_ms = self._now_ms() + delay_ms

    def _now_ms(self) -> float:
        return self._runtime.clock.monotonic_ms()
