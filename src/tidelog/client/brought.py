"""What a client brings along when it is given addresses instead of a cluster: its settings, the real world, and a cluster that ends with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.errors import WrongUse
from tidelog.runtime import Clock, Network, Randomness

C = TypeVar("C", bound=ClientConfig)

Settings: TypeAlias = Mapping[str, str | int | float | bool]
"""Settings by their Kafka names, as other clients take them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought(Generic[C]):
    """The ground a client stands on; `own` is the cluster if it is nobody else's."""

    cluster: Cluster
    config: C
    runtime: ClientRuntime
    own: Cluster | None


def brought(
    where: Cluster | str,
    config: C | Settings | None,
    runtime: ClientRuntime | None,
    kind: type[C],
    make: Callable[[C, ClientRuntime], Cluster],
) -> Brought[C]:
    """`where` is a cluster, with its settings and runtime, or host:port[,...]; then all else has defaults. Raises WrongUse, ConfigError."""
    if isinstance(where, Cluster):
        if not isinstance(config, kind) or runtime is None:
            raise WrongUse("a cluster comes with the settings and the runtime that its clients use")
        return Brought(cluster=where, config=config, runtime=runtime, own=None)
    if isinstance(config, kind):
        raise WrongUse(f"{where!r} would be left unheard: settings that are complete name their bootstrap.servers")
    settings = {name: _text(value) for name, value in (config or {}).items()}  # type: ignore[union-attr]  # a Mapping, after the line above
    read = kind.from_properties({**settings, "bootstrap.servers": where})
    world = runtime or _real_world()
    cluster = make(read, world)
    return Brought(cluster=cluster, config=read, runtime=world, own=cluster)


def _text(value: str | float) -> str:  # a bool is an int to the type checker, and true or false to Kafka
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    """What a client needs of the world."""

    clock: Clock
    network: Network
    randomness: Randomness


def _real_world() -> ClientRuntime:
    # Whoever simulates a world brings it along, and never comes here.
    from tidelog.runtime.real import RealClock, RealNetwork, RealRandomness

    return _World(clock=RealClock(), network=RealNetwork(), randomness=RealRandomness())
