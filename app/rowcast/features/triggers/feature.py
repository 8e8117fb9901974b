"""The feature: calls functions of ``resources/``, and webhooks, for events (G23, G24)."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.features.triggers.dead_events import OWNER as DEAD
from rowcast.features.triggers.dead_events import DeadEvents
from rowcast.features.triggers.runner import OWNER, Bounds, Runner
from rowcast.features.triggers.settings import TriggerSection
from rowcast.features.triggers.trigger import Trigger, check_triggers
from rowcast.features.triggers.trigger_rows import FAILURES, TRIGGERS, failure_rows
from rowcast.features.triggers.webhook_action import RETRIES, WebhookAction
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel
from rowcast.routes.figure_rows import listed_rows
from rowcast.seams.seams import Facts

FIGURES: Final = ("calls", "failures", "circles", "missed")
"""Counters of a runner, summed up."""


class TriggersOfEvents(Feature):
    """The triggers of a server: of its code, then of its settings. Raises INVALID, CONFLICT."""

    def __init__(
        self, functions: Sequence[Trigger], settings: TriggerSection, bounds: Bounds | None = None
    ) -> None:
        self._bounds = bounds
        webhooks = [
            Trigger(
                item.name,
                tuple(map(TopicFilter, item.topics)),
                WebhookAction(item.url, item.secret),
                "webhook",
                RETRIES,
            )
            for item in settings.webhooks
        ]
        self._triggers = [*functions, *webhooks]
        check_triggers(self._triggers)
        self._background = Background()
        self._begun: list[Runner] = []

    def install(self, kernel: Kernel) -> None:
        """Add the rows, and have positions restored."""
        self._kernel = kernel
        self.dead = DeadEvents(kernel.committer.keep)
        for trigger in self._triggers:
            if isinstance(trigger.action, WebhookAction):
                trigger.action.bind(kernel)
        self.runners = {
            trigger.name: Runner(kernel, trigger, self.dead, kernel.now, self._bounds)
            for trigger in self._triggers
        }
        kernel.rows(TRIGGERS, listed_rows(TRIGGERS, self._rows))
        failures = failure_rows(self.dead, self._again, kernel.cursor)
        self.dead.changed = kernel.rows(FAILURES, failures)
        kernel.facts(OWNER, self._restore)
        kernel.facts(DEAD, self.dead.restore)
        kernel.figures["triggers/dead"] = lambda: len(self.dead)
        for name in FIGURES:
            kernel.figures[f"triggers/{name}"] = partial(self._sum, name)

    def _sum(self, name: str) -> int:
        return sum(getattr(runner, name) for runner in self.runners.values())

    def _restore(self, facts: Facts) -> None:
        for owner, name, value in facts:
            if owner == OWNER and name in self.runners:
                self.runners[name].restore(int.from_bytes(value, "big"))

    def _rows(self) -> dict[str, dict[str, object]]:
        return {name: runner.row() for name, runner in self.runners.items()}

    async def _again(self, name: str) -> None:
        """Have a failed event called again; raises NOT_FOUND, and GONE when the log lacks it."""
        found = self.dead.get(name)
        runner = None if found is None else self.runners.get(found.trigger)
        if found is None or runner is None:
            raise Error(Code.NOT_FOUND, f"there is no failed event {name!r} of a trigger")
        source = self._kernel.reader.sources(TopicFilter(found.topic))
        events = await self._kernel.reader.read(found.seq - 1, 1, source) if found.seq else []
        if not events or events[0].seq != found.seq:
            raise Error(Code.GONE, f"the log has the event of {name!r} no more; discard it")
        runner.call_again(events[0])

    async def start(self) -> None:
        """Subscribe, before anybody can write."""
        for runner in self.runners.values():
            runner.begin()
            self._begun.append(runner)

    async def opened(self) -> None:
        """Start calling; functions may use the server like any client."""
        for runner in self.runners.values():
            self._background.run(runner.run())

    async def stop(self) -> None:
        """Cancel running calls, which are repeated after the next start."""
        await self._background.stop()
        for runner in self._begun:
            runner.close()
