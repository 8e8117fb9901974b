"""Places for connections that have proved nothing yet: bounded, and shared fairly by networks.

Who opens many and stays silent would keep out everybody else. So where all places are taken, the
oldest of the network with the most makes room for another network's newcomer.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class FairPlaces(Generic[T]):
    """At most so many, by network (``core/peers.py:network``)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._networks: dict[T, str] = {}
        self._by_network: dict[str, dict[T, None]] = {}
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._networks)

    def __contains__(self, one: object) -> bool:
        return one in self._networks

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._networks))

    @property
    def full(self) -> bool:
        """Whether the next one needs another's place."""
        return len(self._networks) >= self._most

    def enter(self, one: T, network: str) -> tuple[bool, T | None]:
        """Return whether there is a place, and who has lost it, whom the caller closes."""
        own, displaced = self._by_network.get(network, {}), None
        if self.full:
            # Without a look at all networks where no other can have more.
            most = own if len(own) > self._most // 2 else self._largest()
            if len(most) <= len(own) + 1:
                return False, None
            displaced = next(iter(most))
            self.leave(displaced)
        self._networks[one] = network
        self._by_network.setdefault(network, own)[one] = None
        return True, displaced

    def leave(self, one: T) -> None:
        """Give its place back, if it has one."""
        network = self._networks.pop(one, None)
        if network is not None:
            own = self._by_network[network]
            del own[one]
            if not own:
                del self._by_network[network]

    def _largest(self) -> dict[T, None]:
        return max(self._by_network.values(), key=len)
