"""Who may come in: a bound on connections, on all and on those of one address. Newcomers are refused, nobody is thrown out for them."""

from __future__ import annotations


class Admission:
    """Counts connections of all listeners of a broker."""

    def __init__(self, *, connections_max: int, per_address_max: int) -> None:
        self._connections_max = connections_max
        self._per_address_max = per_address_max
        self._by_host: dict[str, int] = {}
        self.count = 0

    def enter(self, host: str) -> str | None:
        """Count a newcomer in; or the reason why not, and then it must not leave either."""
        if self.count >= self._connections_max:
            return f"max.connections is {self._connections_max}"
        of_host = self._by_host.get(host, 0)
        if of_host >= self._per_address_max:
            return f"max.connections.per.ip is {self._per_address_max}"
        self.count += 1
        self._by_host[host] = of_host + 1
        return None

    def leave(self, host: str) -> None:
        """Somebody who had entered is gone."""
        self.count -= 1
        if self._by_host[host] == 1:
            del self._by_host[host]
        else:
            self._by_host[host] -= 1
