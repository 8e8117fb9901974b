"""Exclusive subscriptions: ``$exclusive/topic`` belongs to one client at a time (D53).

As in EMQX: the prefix is no part of the filter, so publishers and other subscribers use the plain
topic; a second client that asks for the same filter with the prefix is refused (0x97); wildcards
are allowed, and two filters exclude each other only if they are the same text. A session keeps a
filter until it unsubscribes or ends, also while offline.
"""

EXCLUSIVE_PREFIX = "$exclusive/"


class Exclusives:
    """Exclusive filters by client id."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        self._held: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def may_take(self, topics: str, client_id: str) -> bool:
        """Whether no other client has a filter."""
        return self._owners.get(topics, client_id) == client_id

    def take(self, topics: str, client_id: str) -> None:
        """Assign a free filter to a client."""
        self._owners[topics] = client_id
        self._held.setdefault(client_id, set()).add(topics)

    def release(self, topics: str, client_id: str) -> bool:
        """Release a filter; return whether this client had it."""
        if self._owners.get(topics) != client_id:
            return False
        del self._owners[topics]
        held = self._held[client_id]
        held.discard(topics)
        if not held:
            del self._held[client_id]
        return True

    def release_all(self, client_id: str) -> None:
        """Release all filters of an ended session."""
        for topics in self._held.pop(client_id, ()):
            del self._owners[topics]
