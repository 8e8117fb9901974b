"""Settings of undeclared topics: whether they are stored, and for how long."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from rowcast.core.topic_tables import PREFIX
from rowcast.core.undeclared_topic_limits import TOPIC_TABLE_GRACE_SECONDS, TOPIC_TABLES_MAX
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.settings.sections import Count, CountFromOne, SecondsOrZero, Section
from rowcast.store.store import Keep


class Kept(Section):
    """How much history one topic table keeps."""

    keep_seconds: Count = 0
    keep_events: Count = 0
    keep_bytes: Count = 0

    @property
    def keep(self) -> Keep:
        """The limits."""
        return Keep(self.keep_seconds, self.keep_events, self.keep_bytes)


def _named(tables: Mapping[str, Kept]) -> Mapping[str, Kept]:
    for name in tables:
        if not name.startswith(PREFIX):
            raise ValueError(
                f"should name topic tables, such as {PREFIX}home for what begins with home/, not "
                f"{name!r}"
            )
    return tables


class Topics(Section):
    """What happens at topics that no table declares."""

    undeclared: Literal["table", "route", "reject"] = Field(
        default="table",
        description="`table`: log every message, in a topic table for each first level; `route`: "
        "deliver messages and store only retained values; `reject`: refuse.",
    )
    cleanup_delay: SecondsOrZero = Field(
        default=TOPIC_TABLE_GRACE_SECONDS,
        description="Time from the last unsubscribe to the removal of an empty topic table, in "
        "seconds.",
    )
    max_tables: CountFromOne = Field(
        default=TOPIC_TABLES_MAX,
        description="Number of topic tables; a message that needs another one is refused.",
    )
    keep_seconds: Count = Field(
        default=0,
        description="Age limit of messages in topic tables, in seconds. If all three limits are "
        "0, those of `history` apply.",
    )
    keep_events: Count = Field(
        default=0, description="Messages kept in each topic table; the oldest are deleted first."
    )
    keep_bytes: Count = Field(
        default=0,
        description="Payload bytes kept in each topic table; the oldest messages are deleted "
        "first.",
    )
    tables: Annotated[Mapping[str, Kept], AfterValidator(_named)] = Field(
        default={},
        description="The same three limits for single topic tables: `{mqtt_home: {keep_events: "
        "1000}}`.",
    )

    def settings(self, usual: Keep) -> TopicSettings:
        """Return the settings of topic tables; ``usual`` is the default retention."""
        own = Keep(self.keep_seconds, self.keep_events, self.keep_bytes)
        keeps = {name: kept.keep for name, kept in self.tables.items() if kept.keep != Keep()}
        return TopicSettings(
            self.cleanup_delay, self.max_tables, usual if own == Keep() else own, keeps
        )
