"""Settings of live queries."""

from typing import Annotated, Final

from pydantic import Field

from rowcast.core.query_limits import LIVE_QUERIES_MAX
from rowcast.settings.sections import Number, Section


class LiveQuerySection(Section):
    """Subscriptions by conditions."""

    max_per_user: Annotated[Number, Field(ge=0, le=1_000_000)] = Field(
        default=LIVE_QUERIES_MAX,
        description="Live queries that one user may have at a time, and of anonymous clients those "
        "of one address; 0 allows none.",
    )


SECTIONS: Final = {"live_queries": LiveQuerySection}
