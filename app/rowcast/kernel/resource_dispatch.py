"""The handover of a write to the resource class at its topic, which carries it out in its own way.

The class is user code that may wait, so each such write is a task, kept until it ends; what is
raised but an Error is a mistake of the class and told by an incident id. It knows no protocol and
no store: what the class writes comes back through the kernel.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from rowcast.core.errors import Code, Error, stopping
from rowcast.core.events import DELETE
from rowcast.kernel.registry import VERB_OF_KIND, Route
from rowcast.kernel.resource import Resource
from rowcast.kernel.write import Outcome, Receipt, Step, Write, resolver
from rowcast.store.store import Change

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.kernel")


class ResourceDispatch:
    """Writes that resource classes are carrying out."""

    def __init__(self, kernel: "Kernel") -> None:
        self._kernel = kernel
        self._tasks: set[asyncio.Task[Outcome]] = set()

    def step(self, route: Route) -> Step | None:
        """Return the step that hands over what the class at a route does in its own way."""
        entry = route.entry
        if entry is None or not entry.overrides:
            return None
        overrides = entry.overrides

        def hand_over(write: Write) -> bool:
            if write.direct or VERB_OF_KIND[write.event.kind] not in overrides:
                return False
            check_alone(route, write)
            self.start(route, write)
            return True

        return hand_over

    def start(self, route: Route, write: Write) -> None:
        """Let the class at a route carry out a write that it overrides."""
        done = write.done

        def ended(task: asyncio.Task[Outcome]) -> None:
            self._tasks.discard(task)
            done(stopping() if task.cancelled() else task.result())

        task = asyncio.get_running_loop().create_task(self._carry_out(route, write))
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def stop(self) -> None:
        """End what is running."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, route: Route, write: Write) -> Outcome:
        """Call the class's verb, then keep the changes that come with the write.

        They come after it, because the class may write much or nothing, and may fail having
        written: then they must not be true.
        """
        kernel, event, caller = self._kernel, write.event, write.caller
        verb = VERB_OF_KIND[event.kind]
        value: object = None
        outcome: Outcome
        try:
            resource = cast("Resource", kernel.resource(route.topic, caller))
            resource.sent, resource.condition = event, write.condition
            if event.kind == DELETE:
                await resource.delete()
            else:
                value = kernel.transcoder.value(event)
                await getattr(resource, verb)(value)
            if write.changes:
                await self._keep(write.changes)
            outcome = resource.receipt or Receipt(event)
        except Error as error:
            outcome = error
        except Exception:
            incident = uuid4().hex[:8]
            log.exception("incident %s: %s of %r failed", incident, verb, route.topic)
            outcome = Error(Code.INTERNAL, f"the resource failed; the server's log has {incident}")
        refused = outcome if isinstance(outcome, Error) else None
        kernel.listeners.administered(caller, verb, route.topic, value, refused)
        return outcome

    async def _keep(self, changes: Sequence[Change]) -> None:
        future: asyncio.Future[Error | None] = asyncio.get_running_loop().create_future()
        self._kernel.committer.keep(changes, resolver(future))
        error = await future
        if error is not None:
            raise error


def check_alone(route: Route, write: Write) -> None:
    """Raise NOT_ALLOWED for a write of a whole that a class would carry out by itself."""
    if write.part_of:
        raise Error(
            Code.NOT_ALLOWED,
            f"the resource at {route.topic!r} has its own {VERB_OF_KIND[write.event.kind]}, which "
            f"cannot be part of {write.part_of}",
        )
