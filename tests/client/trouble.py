"""What befalls a client and its one broker: connections are reset, a line is cut in one direction, the broker dies and comes back."""

from __future__ import annotations

from tests.client.broker_world import BROKER, CLIENT, BrokerWorld


class Trouble:
    """Draws faults, one at a time; a line is cut for up to `cut_ms`."""

    def __init__(self, world: BrokerWorld, *, cut_ms: float) -> None:
        self._world = world
        self._cut_ms = cut_ms

    def chance_ms(self, below_ms: float) -> float:
        """A time that is drawn."""
        return self._world.world.faults.fraction() * below_ms

    def strike(self) -> None:
        """One fault, from its beginning to its end."""
        match self._world.world.faults.below(4):
            case 0:
                self._world.network.reset(CLIENT, BROKER)
            case 1:
                self._cut(CLIENT, BROKER)
            case 2:
                self._cut(BROKER, CLIENT)
            case _:
                self._world.kill_broker()
                self._world.world.run_for_ms(self.chance_ms(1000))
                self._world.start_broker()

    def _cut(self, source: str, target: str) -> None:
        self._world.network.cut(source, target)
        self._world.world.run_for_ms(self.chance_ms(self._cut_ms))
        self._world.network.mend(source, target)
