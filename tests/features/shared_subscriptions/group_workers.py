"""A group of workers whose room, connection and acknowledgements a test decides."""

from rowcast.bus.durable_filters import DurableFilters
from rowcast.core.events import MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.shared_subscriptions.assignments import GroupLimits
from rowcast.features.shared_subscriptions.group_table import Groups
from rowcast.kernel.row_views import Views
from rowcast.routes.registry import Registry
from rowcast.subscriptions.gaps import Gap
from rowcast.subscriptions.subscription import SubscribedFilter
from subscription_world import SMALL, World


class Worker:
    """A member that takes what it is given and completes it when the test says so."""

    def __init__(self, world, name, qos=1, *, durable=False, room=1_000, sends=True):
        self.world, self.name, self.qos = world, name, qos
        self.durable = durable
        self.free = room
        self.sends = sends
        self.forbidden = ()
        """Payloads that it may not be given."""
        self.assigned = []
        """What it has and did not complete."""
        self.received = []
        """The payloads of all that it was sent, ever."""
        self.gaps = []
        """Reason and count of what it was told is missing."""

    def room(self):
        return self.free - len(self.assigned)

    def takes(self, event):
        return event.payload not in self.forbidden

    def assign(self, assignment):
        self.assigned.append(assignment)
        if self.sends:
            self.send()

    def send(self):
        """Send what it was given and not sent."""
        for assignment in list(self.assigned):
            if not assignment.sent:
                assignment.sent = True
                if isinstance(assignment.event, Gap):
                    self.gaps.append((assignment.event.why.value, assignment.event.count))
                else:
                    self.received.append(assignment.event.payload)
                if not assignment.qos:
                    self.done(assignment)

    def withdraw(self, assignment):
        self.assigned.remove(assignment)

    def done(self, assignment):
        """Acknowledge something."""
        self.assigned.remove(assignment)
        assignment.group.done(assignment)

    def finish(self):
        """Acknowledge everything."""
        for assignment in list(self.assigned):
            self.done(assignment)

    def join(self, since=None, *, connected=True):
        """Subscribe, or come back."""
        interest = SubscribedFilter(self.world.topics, self.qos, identifiers=(self.name,))
        self.group.join(self, interest, since, connected=connected)
        return self

    @property
    def group(self):
        return self.world.groups.group("g", self.world.topics)

    def rest(self):
        """Lose the connection; the session lasts."""
        self._unsent()
        self.group.rest(self)

    def leave(self):
        """Unsubscribe."""
        self._unsent()
        self.group.leave(self)

    def end(self):
        """Lose the session."""
        self.assigned.clear()
        self.group.end(self)

    def _unsent(self):
        self.assigned = [assignment for assignment in self.assigned if assignment.sent]

    def back(self):
        """Connect again, and send again what is in flight."""
        self.join()
        for assignment in self.assigned:
            self.received.append(assignment.event.payload)

    @property
    def payloads(self):
        """What it has and did not complete."""
        return [assignment.event.payload for assignment in self.assigned]


class GroupWorld(World):
    """Groups on a world of steps.

    Queues and pages are so small that a group often goes back to the log; ``limits`` are those of
    the groups.
    """

    def __init__(self, text="Dog/#", **limits):
        super().__init__(**SMALL)
        self.limits = limits
        self.topics = TopicFilter(text)
        self.refusal = None
        """The Error that keeps facts off the disk."""
        self.kept = []
        """Each lot of changes that was to be written."""
        self.durable = DurableFilters()
        views = Views(self.bus, Registry(()))
        self.groups = Groups(self.reader, views, self.keep, self.durable, GroupLimits(**limits))

    def keep(self, changes, done):
        """Write facts, as the committer does."""
        self.kept.append(changes)
        if self.refusal is None:
            self.store.commit([], changes)
        done(self.refusal)

    def worker(self, name, qos=1, **options):
        """Return a worker that has joined."""
        since = options.pop("since", None)
        return Worker(self, name, qos, **options).join(since)

    def put(self, *payloads, topic="Dog/1", qos=1):
        """Write and announce logged events."""
        for payload in payloads:
            event = self.commit(topic, value=payload)
            event.qos = qos
            self.announce()

    def tell(self, *payloads, qos=1):
        """Announce events that are not logged."""
        for payload in payloads:
            self.bus.publish(Event("Dog/1", MESSAGE, payload, None, qos))

    async def rounds(self):
        """Let everything happen that is due."""
        for _ in range(1_000):
            await self.turn()
            if self.reader.asked:
                self.reader.ask()
            if self.reader.answered:
                self.reader.answer()
            elif not self.reader.asked:
                await self.turn()
                if not self.reader.asked:
                    return
        raise AssertionError("it does not settle")

    def restart(self):
        """Return another yard on the same store, as a server that was killed starts again.

        Sessions are to be put back, then ``groups.clean`` is to be called.
        """
        world = GroupWorld(self.topics.text, **self.limits)
        world.store, world.seq, world.announced = self.store, self.seq, self.announced
        world.logged = self.logged
        world.reader._store = self.store
        world.groups.restore(self.store.states("group/"))
        return world


def numbers(first, last):
    """Return payloads ``b"1"`` and so on."""
    return [b"%d" % number for number in range(first, last + 1)]
