"""What the bus offers events to: apart from it, since interpreted classes derive from it."""

from typing import Protocol

from rowcast.core.events import Event


class Subscriber(Protocol):
    """Receives events; ``offer`` must not block, raise or call back into the bus."""

    def offer(self, event: Event) -> None:
        """Take an event or refuse it."""

    def offer_run(self, events: list[Event], size: int) -> None:  # noqa: ARG002
        """Take events of one topic, in order; their payloads have ``size`` bytes together."""
        for event in events:
            self.offer(event)

    def fall_behind(self, event: Event) -> None:
        """Know that the log has events that are not offered: those of a result, from this one on.

        Without more to do, as for one that reads the log once it hears of anything, take the first.
        """
        self.offer(event)
