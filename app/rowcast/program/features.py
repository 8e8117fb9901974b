"""The features of a server: one line each, in the order in which they are installed.

The order is a promise where the comment beside a line says so. A feature whose setting switches it
off is made as None, and is then on no path. ``docs/features.md`` says how to write one.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from rowcast.features.slow_subscribers.feature import SlowSubscribers
from rowcast.kernel.feature import Feature
from rowcast.program.parts import Parts


class Plug(NamedTuple):
    """A feature by the name of its folder, and how it is made; None when it is switched off."""

    name: str
    make: Callable[[Parts], Feature | None]


FEATURES: Final = (
    Plug("slow_subscribers", lambda it: SlowSubscribers(it.config.slow_subscriptions.settings)),
)
