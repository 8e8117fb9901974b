"""Settings of triggers."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from rowcast.core.errors import Error
from rowcast.core.topics import TopicFilter
from rowcast.settings.sections import Section
from rowcast.settings.webhooks import WebhookSection


def _filter(text: str) -> str:
    try:
        TopicFilter(text)
    except Error as error:
        raise ValueError(f"should be a topic filter such as Sensor/+: {error.message}") from None
    return text


class EventWebhookSection(WebhookSection):
    """A receiver of all events at some topics."""

    topics: Annotated[tuple[Annotated[str, AfterValidator(_filter)], ...], Field(min_length=1)]


class TriggerSection(Section):
    """Webhooks that are called for events."""

    webhooks: tuple[EventWebhookSection, ...] = Field(
        default=(),
        repr=False,
        description="URLs to which each event at some topics is posted, with `name`, `topics` "
        "(filters), `url` and `secret`.",
    )


SECTIONS: Final = {"triggers": TriggerSection}
