"""Who reaches the simulated registry, and whom its words reach: faults that say no."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.simulation.registry_session import CutToCome


class RegistryReach:
    """What stands between the registry and its nodes."""

    def __init__(self) -> None:
        self._cut: set[str] = set()
        self._deaf: list[str] = []
        self._is_available = True
        self._cut_to_come: CutToCome | None = None

    @property
    def is_available(self) -> bool:
        """A fault turns this off: every call then raises RegistryUnavailable, no watch is told, no session expires."""
        return self._is_available

    @is_available.setter
    def is_available(self, is_available: bool) -> None:
        self._is_available = is_available
        self._let_through()

    def cut_after_writes(self, count: int, *, next_write_happens: bool = False) -> CutToCome:
        """A fault to come: after `count` more writes the registry is gone. The next one may still happen, unanswered."""
        self._cut_to_come = CutToCome(writes_left=count, is_last_write_done=next_write_happens)
        return self._cut_to_come

    def cut(self, node_name: str) -> None:
        """The handles of one node cannot reach the registry; if that lasts, their sessions expire."""
        self._cut.add(node_name)

    def deafen(self, node_name: str) -> Callable[[], None]:
        """No word of a watch reaches a node, which knows nothing of it and is served; what is returned ends that."""
        self._deaf.append(node_name)

        def hear_again() -> None:
            self._deaf.remove(node_name)
            self._let_through()

        return hear_again

    def heal(self, node_name: str | None = None) -> None:
        """The registry can be reached again: by that node, or by all."""
        if node_name is None:
            self._cut.clear()
            self._cut_to_come = None
            self.is_available = True
        else:
            self._cut.discard(node_name)
            self._let_through()

    def _is_reachable(self, node_name: str) -> bool:
        """Whether a node's calls arrive."""
        return self._is_available and node_name not in self._cut

    def _is_deaf(self, node_name: str) -> bool:
        return node_name in self._deaf

    def _let_through(self) -> None:
        """Somebody may be reached again. For the registry to act upon."""
        raise NotImplementedError
