"""Settings of alarms."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import Field

from rowcast.core.alarm_limits import ALARM_CLEARED_SECONDS
from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.features.alarms.webhooks import DEFAULT, Webhook
from rowcast.settings.sections import Seconds, Section
from rowcast.settings.webhooks import WebhookSecret, WebhookSection, WebhookUrl


class AlarmSection(Section):
    """What is told of alarms, and to whom."""

    webhook: WebhookUrl = Field(
        default="",
        repr=False,
        description="URL to which each change of an alarm is posted; empty: none.",
    )
    webhook_secret: WebhookSecret = Field(
        default="",
        repr=False,
        description="Secret with which these calls are signed; `whsec_` and base64, or any text.",
    )
    webhooks: tuple[WebhookSection, ...] = Field(
        default=(),
        repr=False,
        description="Further receivers, with `name`, `url` and `secret`, for alarms that name one: "
        "`@alarm(webhook:)`.",
    )
    cleared_seconds: Seconds = Field(
        default=ALARM_CLEARED_SECONDS,
        description="Time for which a cleared alarm is shown unless it is acknowledged, in "
        "seconds.",
    )

    @property
    def receivers(self) -> dict[str, Webhook]:
        """The receivers by name."""
        found = {item.name: Webhook(item.url, item.secret) for item in self.webhooks}
        if self.webhook:
            found[DEFAULT] = Webhook(self.webhook, self.webhook_secret)
        return found


SECTIONS: Final = {"alarms": AlarmSection}


def check_webhooks(tables: Sequence[Table], receivers: Mapping[str, Webhook]) -> None:
    """Raise INVALID for an alarm whose webhook is not configured."""
    for table in tables:
        for rule in table.alarms:
            if rule.webhook and rule.webhook not in receivers:
                names = sorted(set(receivers) - {DEFAULT})
                raise Error(
                    Code.INVALID,
                    f'the alarm "{rule.name}" of {table.name} has the webhook "{rule.webhook}", '
                    f"and alarms.webhooks has none of that name{did_you_mean(rule.webhook, names)}",
                )
