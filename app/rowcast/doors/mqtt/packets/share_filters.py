"""Filters of shared subscriptions: which group a filter asks for (MQTT 5, 4.8.2).

``$share/<name>/<filter>`` is a share of the group of that name and filter, ``$queue/<filter>`` of
the group without a name (D55); both in every version of the protocol.
"""

from dataclasses import dataclass

from rowcast.core.errors import Error
from rowcast.core.topics import SHARE_PREFIX, TopicFilter, fits_level
from rowcast.features.shared_subscriptions.groups import Group
from rowcast.mqtt.reasons import Reason
from rowcast.mqtt.violations import Violation

QUEUE_PREFIX = "$queue/"
"""What a filter for the group without a name begins with (D55)."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which group a filter asks for."""

    name: str
    topics: TopicFilter


def share_of(text: str) -> Share | None:
    """Return the group that a filter asks for; None when it asks for none.

    Raises what SUBACK and UNSUBACK say of one that is malformed (MQTT-4.8.2-1, MQTT-4.8.2-2).
    """
    if text.startswith(QUEUE_PREFIX):
        name, rest = "", text.removeprefix(QUEUE_PREFIX)
    elif text.startswith(SHARE_PREFIX):
        name, _, rest = text.removeprefix(SHARE_PREFIX).partition("/")
        if not fits_level(name):
            raise Violation(
                Reason.TOPIC_FILTER_INVALID,
                "a share needs a name without '+' and '#': $share/<name>/<filter>",
            )
    else:
        return None
    try:
        return Share(name, TopicFilter(rest))
    except Error as error:
        raise Violation(
            Reason.TOPIC_FILTER_INVALID, f"after the name of the share, {error.message}"
        ) from None


def filter_of(group: Group) -> str:
    """Return the filter that asks for a group."""
    begin = f"{SHARE_PREFIX}{group.name}/" if group.name else QUEUE_PREFIX
    return begin + group.topics.text
