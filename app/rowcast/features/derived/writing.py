"""The writer of derived tables: the only one whose writes the table takes."""

from typing import Final

from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.routes.registry import Route
from rowcast.writes.write import Step, Write

WRITER: Final = Caller(user="$server", grants=ALL)


def only_its_job(route: Route) -> Step | None:
    """Return the step that refuses the writes of everybody else, administrators too."""
    table = route.table
    if table is None or table.derived is None:
        return None
    rule, name = table.derived, table.name

    def refuse(write: Write) -> None:
        if write.caller is not WRITER:
            raise Error(
                Code.NOT_ALLOWED,
                f"only the job {rule.job} writes {name}: write the tables that it reads "
                f"({', '.join(rule.sources)}), or run it: PUT $SYS/jobs/{name} "
                '{"run": true}',
                allow=["GET", "HEAD", "OPTIONS"],
            )

    return refuse
