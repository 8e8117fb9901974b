"""Settings of overload protection: memory and watermarks."""

from typing import Annotated, Final

from pydantic import Field

from rowcast.features.overload.overload import Watermarks
from rowcast.kernel.settings import Count, Number, Section

Percent = Annotated[Number, Field(ge=0, le=100)]


class OverloadSection(Section):
    """What is refused when memory is short, in this order; 0 refuses nothing."""

    memory_bytes: Count = Field(
        default=0, description="Memory to stay below; 0 is what the container or machine has."
    )
    messages_percent: Percent = Field(
        default=75,
        description="From here on, messages that are not logged are dropped for slow readers; 0 "
        "never.",
    )
    connects_percent: Percent = Field(
        default=85, description="From here on, new connections are refused too; 0 never."
    )
    subscribes_percent: Percent = Field(
        default=92, description="From here on, new subscriptions are refused too; 0 never."
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
