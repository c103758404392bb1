"""The processes of brokers on this machine: found by the port they listen on, or, where one is paused and nobody tells its port, by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.failure import CommandFailed
from tidelog.cli.output import shown
from tidelog.cli.port_holder import Holder, command_of, port_holder, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.model import BrokerEndpoint, BrokerId

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_OURS: Final = "tidelog"
_STOPPED: Final = "T"


def endpoint_of(broker_id: BrokerId, brokers: Sequence[BrokerEndpoint]) -> BrokerEndpoint:
    """That one of the live brokers. Raises CommandFailed where it is none of them."""
    for broker in brokers:
        if broker.broker_id == broker_id:
            return broker
    raise CommandFailed(f"broker {broker_id} is not there; there are {shown([each.broker_id for each in brokers])}")


def holder_of(broker: BrokerEndpoint) -> Holder:
    """The process of a broker of ours on this machine. Raises CommandFailed where it is not, or cannot be told."""
    if broker.host not in _LOOPBACK:
        raise CommandFailed(
            f"broker {broker.broker_id} is at {broker.host}: only one at a loopback address is killed from here"
        )
    holder = port_holder(broker.port)
    if holder is None:
        raise CommandFailed(f"no process that we may look at listens on port {broker.port} of this machine")
    if not any(_OURS in word for word in words_of(Path(f"/proc/{holder.pid}"))):
        raise CommandFailed(f"broker {broker.broker_id} is not one of Tidelog's: its port is held by {holder}")
    return holder


def paused_brokers(broker_id: BrokerId, *, proc: Path = Path("/proc")) -> list[Holder]:
    """Stopped processes of this machine that a supervisor of ours gave the name of this broker, of whatever cluster."""
    return [
        Holder(int(process.name), command_of(process))
        for process in sorted(proc.iterdir())
        if process.name.isdigit() and _name_and_state(process) == (f"{_OURS}-{broker_id}", _STOPPED)
    ]


def _name_and_state(process: Path) -> tuple[str, str] | None:
    try:
        before, _, after = (process / "stat").read_text().rpartition(")")
    except OSError:  # gone meanwhile
        return None
    return before.partition("(")[2], after.split()[0]
