"""Which replica is the odd one out, and in what, where copies of a batch are not the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tidelog.pipeline.audit.findings import Check, Finding
from tidelog.pipeline.audit.ranges import LogRange

Copy: TypeAlias = Mapping[str, Any]
"""A row of `checks.copies`."""

_TOLD = ("last_offset", "leader_epoch", "size", "crc")


def difference(copies: Sequence[Copy], members: Sequence[LogRange], *, count: int) -> Finding:
    """The finding for the copies of one batch in the replicas of its partition: who differs from most of them, or lacks it."""
    copies = sorted(copies, key=lambda copy: str(copy["replica"]))
    first = copies[0]
    offset, last = first["base_offset"], max(copy["last_offset"] for copy in copies)
    asked = {each.claims.replica: each for each in members if _must_have(each, offset, last)}
    held = [copy for copy in copies if copy["replica"] in asked]
    missing = [replica for replica in asked if all(copy["replica"] != replica for copy in held)]
    usual = _usual(held)
    odd = [copy for copy in held if copy["digest"] != usual["digest"]]
    named = odd[0] if odd else usual
    paths = {each.claims.replica: each.claims.files.path for each in members}
    return Finding(
        check=Check.REPLICAS,
        what=_what(usual, odd, missing),
        replicas=tuple(copy["replica"] for copy in odd) or tuple(missing),
        topic=first["topic"],
        partition=first["partition"],
        offset=offset,
        file=f"{paths[named['replica']]}/{named['segment']}",
        position=named["position"],
        count=count,
    )


def _must_have(each: LogRange, offset: int, last: int) -> bool:
    mark = each.claims.high_watermark
    return each.is_judged and mark is not None and each.start <= offset and last < mark


def _usual(held: Sequence[Copy]) -> Copy:
    """A copy such as most have; of two, one whose checksum holds."""
    counted = Counter(copy["digest"] for copy in held)
    return max(held, key=lambda copy: (counted[copy["digest"]], copy["crc_ok"] is True, -held.index(copy)))


def _what(usual: Copy, odd: Sequence[Copy], missing: Sequence[str]) -> str:
    told = [f"{copy['replica']} has other bytes than {usual['replica']} ({_how(copy, usual)})" for copy in odd]
    told += [f"{replica} lacks the batch that {usual['replica']} has" for replica in missing]
    return "; ".join(told)


def _how(copy: Copy, usual: Copy) -> str:
    told = [f"{name} {copy[name]} instead of {usual[name]}" for name in _TOLD if copy[name] != usual[name]]
    if not copy["crc_ok"]:
        told.append("its checksum does not hold")
    return ", ".join(told) or "in its header"
