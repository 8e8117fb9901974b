"""Filters of shared subscriptions: which group a filter asks for (MQTT 5, 4.8.2).

``$share/<name>/<filter>`` is a share of the group of that name and filter, ``$queue/<filter>`` of
the group without a name (D55); both in every version of the protocol.
"""

from dataclasses import dataclass

from rowcast.core.errors import Error
from rowcast.core.topics import QUEUE_PREFIX, SHARE_PREFIX, TopicFilter, fits_level
from rowcast.features.shared_subscriptions.group_table import Groups
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.reasons import Reason
from rowcast.mqtt.violations import Violation


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


def groups_in(kernel: Kernel) -> Groups:
    """Return the groups of a server; raises what SUBACK says if there are none (MQTT 5, 3.9.3)."""
    groups = kernel.service(Groups)
    if groups is None:
        raise Violation(
            Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
            "this server has no shared subscriptions; SUBSCRIBE to the filter by itself",
        )
    return groups
