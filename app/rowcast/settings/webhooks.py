"""Types of settings of webhooks: the address, and the secret of signatures."""

from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field

from rowcast.net.webhook_signature import key_of
from rowcast.settings.sections import Section


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        complete = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        complete = False
    if text and (not complete or parts.username or parts.fragment or not _is_sent(parts)):
        raise ValueError(
            "should be an address such as https://ops.example/alarms, without a user, its "
            "path percent-encoded where it has spaces or other letters"
        )
    return text


def _is_sent(parts: SplitResult) -> bool:
    """Whether path and query are what a request line may have: ASCII without spaces."""
    return all("!" <= sign <= "~" for sign in parts.path + parts.query)


def _secret(text: str) -> str:
    key_of(text)
    return text


WebhookUrl = Annotated[str, AfterValidator(_url)]
WebhookSecret = Annotated[str, AfterValidator(_secret)]


class WebhookSection(Section):
    """A receiver with a name."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,64}$")]
    url: Annotated[WebhookUrl, Field(min_length=1, repr=False)]
    secret: WebhookSecret = Field(default="", repr=False)
