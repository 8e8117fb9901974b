"""``$SYS/proposal``: a schema for undeclared topics, computed on request."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from rowcast.core.events import Event
from rowcast.core.limits import LOG_PAGE_EVENTS
from rowcast.core.metric_limits import PROPOSAL_EVENTS_MAX
from rowcast.core.queries import Query
from rowcast.core.topic_tables import TopicRoot
from rowcast.features.schema_proposal.proposal import propose
from rowcast.kernel.kernel import Kernel
from rowcast.routes.resource import Resource

PATH: Final = "$SYS/proposal"


def proposal_resource(branches: Callable[[], Sequence[TopicRoot]]) -> type[Resource]:
    """Return the resource class; ``branches`` are those with logged messages."""

    class Proposed(Resource):
        """Reads the newest messages of each branch, and proposes tables."""

        path = PATH
        kernel: Kernel

        async def get(self, query: Query | None = None) -> object:  # noqa: ARG002 - there is one
            """Return the schema and its statistics."""
            self.kernel.rights.check_administer(self.topic, self.caller)
            self.kernel.authorise_read(self.topic, self.caller)
            events: list[Event] = []
            for branch in branches():
                if branch.level is not None and branch.level[:1] != "$":
                    events += await newest(self.kernel, branch)
            taken = [*self.kernel.registry.shapes]
            proposal = await asyncio.to_thread(propose, events, taken)
            return {
                "schema": proposal.text,
                "tables": [
                    {
                        "name": table.name,
                        "path": table.path,
                        "messages": table.messages,
                        "accepted": table.accepted,
                        "topics": table.topics,
                        "rate": round(table.rate, 3),
                    }
                    for table in proposal.tables
                ],
            }

    return Proposed


async def newest(kernel: Kernel, branch: TopicRoot) -> list[Event]:
    """Return the newest events of a branch, page by page; also what is announced and not stored."""
    found: list[Event] = []
    before = kernel.committer.reach + 1
    while len(found) < PROPOSAL_EVENTS_MAX:
        page = await kernel.reader.read_back(before, LOG_PAGE_EVENTS, [branch])
        found += [event for event in page if branch.has(event.topic)]
        if len(page) < LOG_PAGE_EVENTS:
            break
        before = page[-1].seq
    return found
