"""Settings of what the server tells its operator."""

from typing import Literal

from pydantic import Field

from rowcast.settings.sections import Section


class Logging(Section):
    """What the server tells its operator."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Lowest severity that is written: `debug`, `info`, `warning` or `error`.",
    )
    format: Literal["text", "json"] = Field(
        default="text", description="`text`, or `json`: an object on each line."
    )
