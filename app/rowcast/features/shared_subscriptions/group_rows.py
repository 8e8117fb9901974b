"""Rows of ``$SYS/shared``: the shared subscriptions (F33)."""

from typing import Final
from urllib.parse import quote

from rowcast.features.shared_subscriptions.group_table import Groups, filter_of
from rowcast.kernel.kernel import Kernel
from rowcast.routes.figure_rows import Facts, listed_rows
from rowcast.routes.resource import Resource

PATH: Final = "$SYS/shared"


def group_rows(kernel: Kernel, groups: Groups) -> type[Resource]:
    """Return the resource class that lists groups."""
    return listed_rows(PATH, lambda: _listed(kernel, groups))


def _listed(kernel: Kernel, groups: Groups) -> dict[str, Facts]:
    """Return the members of each shared subscription, and their unacknowledged events.

    The id is a topic, so wildcards are percent-encoded.
    """
    committer = kernel.committer
    return {
        quote(filter_of(group), safe="$/"): {
            "name": group.name,
            "filter": group.topics.text,
            "durable": group.durable,
            **group.figures,
            "position": kernel.cursor(group.position),
            "lag": committer.events_after(group.position),
            "dropped": group.losses.total,
        }
        for group in groups
    }
