"""A replay as an interest has it: which part of the past, and how fast (M6)."""

from dataclasses import dataclass

from rowcast.core.moments import Moment
from rowcast.core.topics import TopicFilter


@dataclass(slots=True, eq=False)
class LiveReplay:
    """What an interest replays; positions are -1 until they are found in the log."""

    topics: TopicFilter
    """What it selects."""
    prefix: str
    """What the topics of its messages begin with over MQTT."""
    start: Moment
    end: Moment | None = None
    speed: float = 1.0
    """A multiple of the events' own speed; 0: as fast as the reader takes them."""
    records: bool = True
    """Whether it begins with the records as of its start."""
    events: bool = True
    """Whether the events after its start follow."""
    shared: str = ""
    """The id of the shared replay that it follows; empty: it is its reader's own."""
    after: int = -1
    """The position that it begins after."""
    until: int = -1
    """The position of its last event, at most."""

    @property
    def over(self) -> bool:
        """Whether it has no event, and no records either."""
        return not self.records and self.after >= self.until
