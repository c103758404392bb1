"""What happened during a step, in the words of the production log, with brokers called by their letters.

Left out are times, numbers that say nothing to a reader, and what every start brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_BROKER_NODE: Final = re.compile(r"broker-(\d+)")
_ADDRESS: Final = re.compile(r"\bbroker-(\d+)(?::\d+)?")
_FIELD: Final = re.compile(r' (\w+)=("(?:[^"\\]|\\.)*"|\S+)')
_NUMBER: Final = re.compile(r"-?\d+")
_BROKERS: Final = ("broker_id", "leader", "isr", "brokers", "replicas", "assignment", "leader_id", "controller_id")
_UNTOLD_FIELDS: Final = ("incarnation", "broker_epoch", "cluster_id", "partition_count", "controller_epoch")
_UNTOLD: Final = ("log directory opened", "broker registered", "broker ready")


def events_of(lines: Iterable[str], names: Sequence[str]) -> list[str]:
    """The events in these lines of the trace, `B  log truncated partition=t-0 ...`, in the order of time."""
    found = []
    for line in lines:
        _, node, text = line.split(None, 2)
        broker = _BROKER_NODE.fullmatch(node)
        if broker is not None and not text.startswith(_UNTOLD):
            found.append(f"{_letter(int(broker[1]), names)}  {_told(text, names)}")
    return found


def by_broker(events: Iterable[str]) -> list[str]:
    """The same events, those of each broker together: between brokers the order is chance."""
    return sorted(events, key=lambda event: event.split(None, 1)[0])


def _told(text: str, names: Sequence[str]) -> str:
    lettered = _ADDRESS.sub(lambda address: _letter(int(address[1]), names), text)
    return _FIELD.sub(lambda field: _field(field[1], field[2], names), lettered)


def _field(name: str, value: str, names: Sequence[str]) -> str:
    if name in _UNTOLD_FIELDS or (name, value) == ("is_intact", "True"):
        return ""
    if name in _BROKERS:
        letters = [_letter(int(number), names) for number in _NUMBER.findall(value)]
        return f" {name.removesuffix('_id')}={','.join(letters) or 'nobody'}"
    return f" {name}={value}"


def _letter(broker_id: int, names: Sequence[str]) -> str:
    return names[broker_id - 1] if 0 < broker_id <= len(names) else "nobody"
