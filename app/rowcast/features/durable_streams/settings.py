"""Settings of durable streams."""

from typing import Final

from pydantic import Field

from rowcast.core.durable_stream_limits import DURABLE_STREAMS_MAX, DURABLE_USER_STREAMS_MAX
from rowcast.settings.sections import Count, Section


class DurableStreamsSection(Section):
    """Streams of the Durable Streams protocol, at ``/$streams/``."""

    most: Count = Field(
        default=DURABLE_STREAMS_MAX,
        description="Maximum number of streams; 0 lets nobody create one.",
    )
    most_per_user: Count = Field(
        default=DURABLE_USER_STREAMS_MAX,
        description="Maximum number of streams that one user has created; all anonymous clients "
        "are one user.",
    )


SECTIONS: Final = {"durable_streams": DurableStreamsSection}
