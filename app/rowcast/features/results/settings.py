"""Settings of the results that jobs bring."""

from typing import Annotated, Final

from pydantic import Field

from rowcast.core.result_limits import (
    RESULT_BYTES_MAX,
    RESULT_CHANGES_MAX,
    RESULT_CHANGES_MAX_MAX,
)
from rowcast.settings.sections import CountFromOne, Number, Section


class ResultSection(Section):
    """Results of jobs: of Spark and of derived tables."""

    bytes_max: CountFromOne = Field(
        default=RESULT_BYTES_MAX,
        description="Bytes of one result, and of all that one user uploads at the same time; all "
        "users together have twice as many. They are in files until the commit.",
    )
    changes_max: Annotated[Number, Field(ge=1, le=RESULT_CHANGES_MAX_MAX)] = Field(
        default=RESULT_CHANGES_MAX,
        description="Rows that one result writes or removes, also in other tables; rows that are "
        "as before do not count.",
    )


SECTIONS: Final = {"results": ResultSection}
