"""Settings of overload protection: memory and watermarks."""

from typing import Annotated, Final

from pydantic import Field

from rowcast.features.overload.overload import Watermarks
from rowcast.settings.sections import Count, Number, Section

Percent = Annotated[Number, Field(ge=0, le=100)]


class OverloadSection(Section):
    """What is refused when memory is short, in this order; 0 refuses nothing."""

    memory_bytes: Count = Field(
        default=0, description="Memory limit in bytes; 0: that of the container or machine."
    )
    messages_percent: Percent = Field(
        default=75,
        description="Share of the memory limit from which unlogged messages to slow readers are "
        "dropped, in percent; 0 means never.",
    )
    connects_percent: Percent = Field(
        default=85,
        description="Share of the memory limit from which new connections are refused too, in "
        "percent; 0 means never.",
    )
    subscribes_percent: Percent = Field(
        default=92,
        description="Share of the memory limit from which new subscriptions are refused too, in "
        "percent; 0 means never.",
    )

    @property
    def watermarks(self) -> Watermarks:
        """The settings as watermarks."""
        return Watermarks(
            self.memory_bytes,
            self.messages_percent,
            self.connects_percent,
            self.subscribes_percent,
        )


SECTIONS: Final = {"overload": OverloadSection}
