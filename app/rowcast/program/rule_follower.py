"""Applies topic rules that another process of this server has written, in the order of the log."""

from rowcast.bus.subscriber import Subscriber
from rowcast.core.events import RETAINED, Event
from rowcast.features.rights.rule_rows import RuleTable


class RuleFollower(Subscriber):
    """A subscriber to the rows of rules."""

    def __init__(self, rules: RuleTable) -> None:
        self._rules = rules

    def offer(self, event: Event) -> None:
        """Apply a row."""
        if event.kind in RETAINED:
            self._rules.follow(event)
