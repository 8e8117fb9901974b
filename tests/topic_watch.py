"""Topic tables for tests: who subscribes, which there are, in memory and on disk."""

from build import ANN
from rowcast.core.topic_tables import TopicRoot
from rowcast.core.topics import TopicFilter
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

AT_ONCE = TopicSettings(grace_seconds=0)
"""Without a grace period."""


def watch(room, *filters, owner=None):
    """Subscribe; return the subscription."""
    subscription = Subscription(room.reader)
    if owner is not None:
        subscription.owner = owner
    for text in filters:
        room.kernel.watch(subscription, SubscribedFilter(TopicFilter(text)), ANN)
    return subscription


def names(room):
    return sorted(entry.table.name for entry in room.topic_tables)


def on_disk(room):
    return sorted(table.name for table in room.store.topic_tables())


def count(room, level="home"):
    return room.topic_tables.subscribers(TopicRoot(level))
