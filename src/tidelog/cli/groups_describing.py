"""Groups as tables, with the columns of Kafka's own tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidelog.cli.failure import CommandFailed, WrongUsage
from tidelog.cli.output import Cell, Row, Table
from tidelog.client import (
    Admin,
    Cluster,
    Committed,
    Consumer,
    ConsumerConfig,
    GroupDescription,
    MemberDescription,
    TopicMetadata,
    VisibleRecords,
)
from tidelog.model import ErrorCode, Offset, TopicPartition
from tidelog.runtime import Runtime

_OFFSETS: Final = {
    "group": "GROUP",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "leader_epoch": "LEADER-EPOCH",
    "current_offset": "CURRENT-OFFSET",
    "log_end_offset": "LOG-END-OFFSET",
    "lag": "LAG",
    "visible_lag": "VISIBLE-LAG",
    "consumer_id": "CONSUMER-ID",
    "host": "HOST",
    "client_id": "CLIENT-ID",
}
_MEMBERS: Final = {
    "group": "GROUP",
    "consumer_id": "CONSUMER-ID",
    "group_instance_id": "GROUP-INSTANCE-ID",
    "host": "HOST",
    "client_id": "CLIENT-ID",
    "partition_count": "#PARTITIONS",
    "current_epoch": "CURRENT-EPOCH",
    "current_assignment": "CURRENT-ASSIGNMENT",
    "target_epoch": "TARGET-EPOCH",
    "target_assignment": "TARGET-ASSIGNMENT",
}
_STATES: Final = {
    "group": "GROUP",
    "coordinator": "COORDINATOR (ID)",
    "assignment_strategy": "ASSIGNMENT-STRATEGY",
    "state": "STATE",
    "group_epoch": "GROUP-EPOCH",
    "target_assignment_epoch": "TARGET-ASSIGNMENT-EPOCH",
    "member_count": "#MEMBERS",
}
_VERBOSE: Final = frozenset(
    {
        "leader_epoch",
        "current_epoch",
        "current_assignment",
        "target_epoch",
        "target_assignment",
        "group_epoch",
        "target_assignment_epoch",
    }
)


class GroupTables:
    """Asks a cluster about groups and makes tables of the answers."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> None:
        self._admin = Admin(cluster, config, runtime)
        self._cluster = cluster
        self._config = config
        self._runtime = runtime

    async def names(self, named: Sequence[str], *, wants_all: bool) -> list[str]:
        """The groups that are meant. Raises WrongUsage if that is unclear."""
        if bool(named) == wants_all:
            raise WrongUsage("name groups, or say --all")
        return list(named) or [group.group_id for group in await self._admin.groups.list_groups()]

    async def offsets(self, names: Sequence[str], *, is_verbose: bool) -> Table:
        """Where each group stands in each partition it reads or has read."""
        described = await self._described(names)
        committed = await self._admin.groups.committed_offsets(described)
        positions = {name: found for name, found in committed.items() if not isinstance(found, ErrorCode)}
        owners = {name: _owners(group) for name, group in described.items()}
        keys = {name: sorted({*positions.get(name, {}), *owners[name]}) for name in described}
        ends = await self._ends({key for some in keys.values() for key in some})
        visible = await self._visible(positions, ends)
        rows = [
            {
                **_offset_row(name, key, positions.get(name, {}).get(key), ends.get(key), visible.get((name, key))),
                **_identity(owners[name].get(key)),
            }
            for name in described
            for key in keys[name]
        ]
        idle = [row for name, group in described.items() for row in _idle_rows(group)]
        failed = [f"{name}: {code.name}" for name, code in committed.items() if isinstance(code, ErrorCode)]
        return Table(
            headings=_shown(_OFFSETS, rows, is_verbose=is_verbose),
            rows=[*rows, *idle],
            notes=[*failed, *_notes(names, described)],
            has_failed=bool(failed) or len(described) < len(set(names)),
        )

    async def members(self, names: Sequence[str], *, is_verbose: bool) -> Table:
        """Who is in each group, and what each has."""
        described = await self._described(names)
        rows = [_member_row(group, member) for group in described.values() for member in group.members]
        return Table(
            headings=_shown(_MEMBERS, rows, is_verbose=is_verbose),
            rows=rows,
            notes=_notes(names, described),
            has_failed=len(described) < len(set(names)),
        )

    async def states(self, names: Sequence[str], *, is_verbose: bool) -> Table:
        """State, coordinator and assignor of each group."""
        described = await self._described(names)
        rows: list[Row] = [
            {
                "group": group.group_id,
                "type": group.kind,
                "coordinator": self._address_of(group.coordinator),
                "assignment_strategy": group.assignor,
                "state": group.state,
                "group_epoch": group.epoch,
                "target_assignment_epoch": group.assignment_epoch,
                "member_count": len(group.members),
            }
            for group in described.values()
        ]
        return Table(
            headings=_shown(_STATES, rows, is_verbose=is_verbose),
            rows=rows,
            notes=_missing(names, described),
            has_failed=len(described) < len(set(names)),
        )

    async def _described(self, names: Sequence[str]) -> dict[str, GroupDescription]:
        """Those groups that are there. Raises CommandFailed for what is worse than not being there."""
        found = await self._admin.groups.describe_groups(names)
        for name, group in found.items():
            if isinstance(group, ErrorCode) and group is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise CommandFailed(f"group {name!r}: {group.name}")
        return {name: group for name, group in found.items() if not isinstance(group, ErrorCode)}

    async def _ends(self, keys: set[TopicPartition]) -> dict[TopicPartition, Offset]:
        """The end of each log whose leader can be asked; a topic may be gone, and what was committed to it not yet."""
        known = await self._admin.describe_topics(sorted({key.topic for key in keys}))
        led = [
            TopicPartition(topic.name, each.index)
            for topic in known.values()
            if isinstance(topic, TopicMetadata)
            for each in topic.partitions
            if each.has_leader and TopicPartition(topic.name, each.index) in keys
        ]
        async with Consumer(self._cluster, self._config, self._runtime) as consumer:
            return await consumer.end_offsets(led)

    async def _visible(
        self, positions: Mapping[str, Mapping[TopicPartition, Committed]], ends: Mapping[TopicPartition, Offset]
    ) -> dict[tuple[str, TopicPartition], VisibleRecords]:
        """The records before each group, group by group, where leaders can tell: Kafka's cannot, and need be asked only once."""
        found: dict[tuple[str, TopicPartition], VisibleRecords] = {}
        for name, committed in positions.items():
            offsets = {key: position.offset for key, position in committed.items() if key in ends}
            told = await self._admin.groups.visible_records(offsets)
            found |= {(name, key): counted for key, counted in told.items() if isinstance(counted, VisibleRecords)}
            if told and all(counted is ErrorCode.UNSUPPORTED_VERSION for counted in told.values()):
                break
        return found

    def _address_of(self, node: int) -> str:
        endpoint = self._cluster.metadata.brokers.get(node)
        return f"({node})" if endpoint is None else f"{endpoint.host}:{endpoint.port} ({node})"


def _owners(group: GroupDescription) -> dict[TopicPartition, MemberDescription]:
    return {key: member for member in group.members for key in member.assignment}


def _offset_row(
    name: str,
    key: TopicPartition,
    position: Committed | None,
    end: Offset | None,
    visible: VisibleRecords | None,
) -> Row:
    lag = None if position is None or end is None else end - position.offset
    epoch = None if position is None or position.leader_epoch < 0 else position.leader_epoch
    return {
        "group": name,
        "topic": key.topic,
        "partition": key.index,
        "leader_epoch": epoch,
        "current_offset": None if position is None else position.offset,
        "log_end_offset": end,
        "lag": lag,
        "visible_lag": None if visible is None else visible.visible_count,
        "is_visible_lag_exact": None if visible is None else visible.is_exact,
        "metadata": None if position is None else position.metadata,
    }


def _idle_rows(group: GroupDescription) -> list[Row]:
    """Members that have nothing: Kafka's tool shows them without a topic, so that all are in one list."""
    return [{"group": group.group_id, **_identity(each)} for each in group.members if not each.assignment]


def _identity(member: MemberDescription | None) -> dict[str, Cell]:
    return {
        "consumer_id": None if member is None else member.member_id,
        "host": None if member is None else member.host,
        "client_id": None if member is None else member.client_id,
    }


def _member_row(group: GroupDescription, member: MemberDescription) -> Row:
    return {
        "group": group.group_id,
        "consumer_id": member.member_id,
        "group_instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partition_count": len(member.assignment),
        "current_epoch": member.epoch,
        "current_assignment": _compactly(member.assignment),
        "target_epoch": group.assignment_epoch,
        "target_assignment": None if member.target is None else _compactly(member.target),
    }


def _compactly(partitions: Iterable[TopicPartition]) -> str:
    """`orders:0,1;payments:2`, as Kafka's tool writes it."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return ";".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in topics.items())


def _shown(headings: Mapping[str, str], rows: Sequence[Row], *, is_verbose: bool) -> dict[str, str]:
    """The columns: some only for who asks for them, and static members only where there are any."""
    has_instances = any(row.get("group_instance_id") for row in rows)
    return {
        field: heading
        for field, heading in headings.items()
        if (is_verbose or field not in _VERBOSE) and (has_instances or field != "group_instance_id")
    }


def _missing(names: Sequence[str], described: Mapping[str, GroupDescription]) -> list[str]:
    return [f"group {name!r} does not exist" for name in dict.fromkeys(names) if name not in described]


def _notes(names: Sequence[str], described: Mapping[str, GroupDescription]) -> list[str]:
    """What the tables do not say: groups that are not there, have no members, or are sharing out."""
    notes = _missing(names, described)
    for name, group in described.items():
        if not group.members:
            notes.append(f"group {name!r} has no active members")
        elif group.state not in {"Stable", "Empty"}:
            notes.append(f"group {name!r} is rebalancing ({group.state})")
    return notes
