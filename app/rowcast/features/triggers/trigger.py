"""A trigger: a function or a webhook, and the topics for whose events it is called."""

from collections.abc import Callable
from dataclasses import dataclass

from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.topics import TopicFilter
from rowcast.core.trigger_limits import (
    TRIGGER_ATTEMPTS_MAX,
    TRIGGER_BACKOFF_FACTOR,
    TRIGGER_BACKOFF_SECONDS,
    TRIGGER_NAME_CHARS_MAX,
    TRIGGERS_MAX,
)

Action = Callable[[Event], object]
"""What is called for an event; what is awaitable is awaited, and an exception is a failure."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a failed call is repeated, and after how long, in seconds."""

    attempts_max: int = TRIGGER_ATTEMPTS_MAX
    first_seconds: float = TRIGGER_BACKOFF_SECONDS
    factor: float = TRIGGER_BACKOFF_FACTOR
    seconds_max: float = TRIGGER_BACKOFF_SECONDS * TRIGGER_BACKOFF_FACTOR**TRIGGER_ATTEMPTS_MAX

    def seconds_after(self, attempts: int) -> float:
        """Return the time to wait after so many failures."""
        return min(self.first_seconds * self.factor ** (attempts - 1), self.seconds_max)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A name, topics, and what is called for their events."""

    name: str
    filters: tuple[TopicFilter, ...]
    action: Action
    kind: str = "function"
    retries: Retries = Retries()


def check_triggers(triggers: list[Trigger], most: int = TRIGGERS_MAX) -> None:
    """Raise INVALID for a bad name, CONFLICT for a duplicate one, TOO_LARGE for too many."""
    names: set[str] = set()
    for trigger in triggers:
        if len(trigger.name) > TRIGGER_NAME_CHARS_MAX or any(sign in trigger.name for sign in ":/"):
            raise Error(
                Code.INVALID,
                f"a trigger cannot be called {trigger.name[:80]!r}: a name has at most "
                f"{TRIGGER_NAME_CHARS_MAX} characters, and no : or /",
            )
        if trigger.name in names:
            raise Error(
                Code.CONFLICT,
                f"two triggers are called {trigger.name!r}; give one of them another name",
            )
        names.add(trigger.name)
    if len(triggers) > most:
        raise Error(Code.TOO_LARGE, f"there are more than {most} triggers; let one do more")
