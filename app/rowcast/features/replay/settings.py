"""Settings of replays."""

from typing import Annotated, Final

from pydantic import Field

from rowcast.core.replay_limits import REPLAYS_MAX, REPLAYS_PER_USER_MAX
from rowcast.settings.sections import Number, Section


class ReplaySection(Section):
    """The past, sent again as if live."""

    max_per_user: Annotated[Number, Field(ge=0, le=10_000)] = Field(
        default=REPLAYS_PER_USER_MAX,
        description="Replays that one user may have at a time, and of anonymous clients those of "
        "one address; 0 allows none.",
    )
    max: Annotated[Number, Field(ge=0, le=100_000)] = Field(
        default=REPLAYS_MAX,
        description="Replays of all users at a time, and likewise shared replays.",
    )


SECTIONS: Final = {"replay": ReplaySection}
