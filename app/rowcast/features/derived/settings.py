"""Settings of the jobs of derived tables."""

from typing import Annotated, Final

from pydantic import Field

from rowcast.core.derived_limits import JOB_TIMEOUT_SECONDS, JOBS_AT_ONCE_MAX
from rowcast.settings.sections import Number, PlaceOrNone, Seconds, Section


class JobSection(Section):
    """Jobs that make the rows of tables with ``@derived``."""

    enabled: bool = Field(
        default=True,
        description="Whether the server runs the jobs of tables with `@derived`; without, their "
        "rows stay as they are.",
    )
    directory: PlaceOrNone = Field(
        default=None,
        description="Directory of jobs, for which `jobs/` stands in `@derived`; by default `jobs` "
        "beside the schema.",
    )
    timeout_seconds: Seconds = Field(
        default=JOB_TIMEOUT_SECONDS,
        description="Time after which a run is ended, in seconds, with its snapshot.",
    )
    at_once: Annotated[Number, Field(ge=1, le=JOBS_AT_ONCE_MAX)] = Field(
        default=1, description="Runs at the same time; others wait."
    )
    master: str = Field(
        default="",
        description="Spark cluster to which jobs are submitted with `spark-submit`, such as "
        "`spark://10.0.0.1:7077` or `yarn`; empty: each job is a process of this machine.",
    )


SECTIONS: Final = {"jobs": JobSection}
