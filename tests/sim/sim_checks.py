"""The oracle: what a reader may be told, and what must be true of the store.

Every logged event after a reader's start reaches it exactly once and in the order of the log, or it
is told with one RESET that it begins again; unlogged ones reach it or are counted. What it folds is
what the store holds.
"""

from bisect import bisect_right

from sim_store import number_of

from rowcast.codecs import decode
from rowcast.core.events import DELETE, PATCH
from rowcast.core.merge_patch import merge_patch

LATER = "when it is submitted"
"""Of an attempt: whether it is to be logged is decided then."""


class Violation(AssertionError):  # noqa: N818 - a sentence reads so
    """A promise that was not kept."""


def require(holds, sentence, *facts):
    """Raise unless it holds."""
    if not holds:
        raise Violation(" ".join([sentence, *(repr(fact) for fact in facts)]))


def same_n(event, n):
    """Tell whether an event has a number; a delete before MQTT 5 carries none."""
    if n is None:
        return event.kind == DELETE
    return number_of(event.payload, event.properties) == n


class Follow:
    """One reader with one filter: what it was told so far.

    ``tells``: whether it hears positions and marks. ``local``: the client id whose own events it
    does not want. ``drops_expired``: whether a message may be left out because its time is over.
    ``counts``: whether gaps are counted for this filter alone.
    """

    def __init__(
        self, world, name, topics, *, tells=True, local=None, drops_expired=False, counts=True
    ):
        self.world = world
        self.store = world.store
        self.name = name
        self.topics = topics
        self.tells = tells
        self.local = local
        self.drops_expired = drops_expired
        self.counts = counts
        self.position = None
        self.view = None
        self.live = False
        self.tainted = set()

    def begin(self, tap, floor, since=None, *, current):
        """Note that it subscribes while ``floor`` is the announced position."""
        self.tap = tap
        self.unlogged = self.gaps = 0
        self.unlogged_from = len(tap.unlogged)
        # What waits in a queue for one filter counts for one that comes after.
        self.unlogged_at = self.unlogged_from if self.counts else 0
        self.trims = self.store.trims
        self.floor = floor
        self.live = since is not None or not current
        if since is None:
            self.view = {} if current else None
            self.tainted.clear()
        self._go_to(since if since is not None else floor)
        self.snapshots = {}

    def _go_to(self, position):
        self.position = position
        self.index = bisect_right(self.store.shadow, position, key=lambda event: event.seq)

    def _wants(self, event):
        own = self.local and event.client == self.local
        return self.topics.matches(event.topic) and not own and not self._unclear(event)

    def _unclear(self, event):
        """Whether it may come or not."""
        n = number_of(event.payload, event.properties)
        return n in self.store.lost or self.world.unclear(n)

    def _next(self):
        """Return the next event of the log that is for this reader."""
        shadow = self.store.shadow
        while self.index < len(shadow) and not self._wants(shadow[self.index]):
            self.index += 1
        return shadow[self.index] if self.index < len(shadow) else None

    def _over(self, event):
        return self.drops_expired and 0 < event.expires_at <= self.world.now()

    # -- what it is told ---------------------------------------------------------------------------

    def snapshot(self, topic, n, seq):
        require(self.topics.matches(topic), f"{self.name}: a record of another filter", topic)
        if self.tells:
            require(not self.live, f"{self.name}: a record after the mark", topic, seq)
            require(topic not in self.snapshots, f"{self.name}: a record twice", topic)
            self.snapshots[topic] = seq
        if self.view is not None:
            self.view[topic] = n

    def current(self, seq):
        if self.live:
            require(seq == self.floor, f"{self.name}: the mark is elsewhere", seq, self.floor)
            return
        for topic, changes in self.store.changes.items():
            if self.topics.matches(topic):
                self._check_snapshot(topic, changes[-1][0] > seq, seq)
        self.live = True
        self._go_to(seq)

    def _check_snapshot(self, topic, changed_later, seq):
        state = self.store.state(topic, seq)
        told = self.snapshots.get(topic)
        wanted = state.seq if state is not None else None
        if told == wanted or (told is None and (changed_later or self._over(state))):
            if told != wanted and not changed_later:
                self.tainted.add(topic)
            return
        raise Violation(f"{self.name}: at {seq} {topic} was told as {told}, it was {wanted}")

    def reset(self, seq):
        self.live = False
        self.view, self.snapshots = {}, {}
        self.tainted.clear()
        self._go_to(seq)

    def gap(self, count, reason):
        """Take a gap; of expired records and what is logged, the store says what may be missing."""
        require(count > 0, f"{self.name}: an empty gap")
        self.gaps += count if reason == "slow" else 0

    def event(self, topic, n, seq, *, empty):
        """Take a live event; ``seq`` is 0 for an unlogged one and None when it was not told."""
        require(self.live or not self.tells, f"{self.name}: an event before the mark", topic, seq)
        if n in self.store.lost or self.world.unclear(n):
            return
        if seq is None:
            seq = 0 if not empty and n not in self.store.by_n else None
        if seq == 0:
            self._unlogged(topic, n)
            return
        event = self._arrived(topic, n, seq)
        require(same_n(event, n), f"{self.name}: another payload", event, n)
        require(empty == (not event.payload), f"{self.name}: empty or not", event)
        if self.view is not None and event.kind != "message":
            self.view[topic] = None if event.kind == DELETE else n

    def _arrived(self, topic, n, seq):
        """Return the event of the log that this is, if it is the next one."""
        while (event := self._next()) is not None:
            self.index += 1
            self.position = event.seq
            if event.topic == topic and (event.seq == seq if seq else same_n(event, n)):
                return event
            if self._over(event):
                self.tainted.add(event.topic)
            elif self.tells or self.trims == self.store.trims:
                raise Violation(f"{self.name}: missed {event}, got {topic} n={n} seq={seq}")
        raise Violation(f"{self.name}: told again, or of nothing: {topic} n={n} seq={seq}")

    def _unlogged(self, topic, n):
        self.unlogged += 1
        unlogged = self.tap.unlogged
        while self.unlogged_at < len(unlogged):
            event = unlogged[self.unlogged_at]
            self.unlogged_at += 1
            if event.topic == topic and same_n(event, n):
                return
        raise Violation(f"{self.name}: an unlogged message twice or out of order", topic, n)

    # -- the end -----------------------------------------------------------------------------------

    def finish(self, dropped=0):
        """Check that nothing is missing, now that everything is quiet."""
        require(self.live or not self.tells, f"{self.name}: never heard the mark")
        while (event := self._next()) is not None:
            self.index += 1
            require(
                self._over(event) or not (self.tells or self.trims == self.store.trims),
                f"{self.name}: never heard of", event, f"after {self.position}",
            )  # fmt: skip
            self.tainted.add(event.topic)
        sent = sum(map(self._wants, self.tap.unlogged[self.unlogged_from :]))
        told = self.unlogged + self.gaps + dropped
        unclear = sum(map(self._unclear, self.tap.unlogged[self.unlogged_from :]))
        fine = abs(sent - told) <= unclear or not self.counts
        require(fine, f"{self.name}: {sent} unlogged, {told} delivered or counted")
        if self.view is not None and (self.tells or self.trims == self.store.trims):
            self._check_view()

    def _check_view(self):
        for topic in self.store.changes:
            if not self.topics.matches(topic) or topic in self.tainted or self.local:
                continue
            record = self.store.state(topic, self.store.shadow[-1].seq)
            if record is not None and self._over(record):
                continue
            wanted = None if record is None else number_of(record.payload, record.properties)
            told = self.view.get(topic)
            require(told == wanted, f"{self.name}: folded {topic} is {told}, stored {wanted}")


def check_history(store, attempts):
    """Check each stored event against the record before it: conditions, patches, creation times."""
    for event in store.shadow:
        before = store.state(event.topic, event.seq - 1)
        attempt = attempts.get(number_of(event.payload, event.properties))
        if attempt is not None and attempt.condition is not None:
            require(holds(attempt.condition, before), "a condition did not hold", event, before)
        if event.kind == PATCH and attempt is not None:
            old = {} if before is None else decode(before.payload, before.content_type)
            new = decode(event.payload, event.content_type)
            wanted = merge_patch(old, attempt.patch)
            own = {name for name in wanted if name in {"n", "k0", "k1", "k2"}}
            require(
                {name: wanted[name] for name in own} == {name: new.get(name) for name in own},
                "a patch of another record", event, before,
            )  # fmt: skip
        if event.topic.startswith("Dog/") and before is not None and event.kind in {"put", PATCH}:
            old, new = decode(before.payload, None), decode(event.payload, None)
            require(old["created"] == new["created"], "a new time of creation", event, before)


def holds(condition, record):
    """Tell whether a condition holds of a record: the definition, once more."""
    if record is None:
        return not condition.exists and condition.seqs is None and not condition.strict
    return (
        condition.exists is not False
        and (condition.seqs is None or record.seq in condition.seqs)
        and record.seq not in condition.not_seqs
    )


def check_groups(store, attempts):
    """Check that each atomic group is there whole and without anything between, or not at all."""
    groups = {}
    for n, attempt in attempts.items():
        logged = attempt.logged or (attempt.logged is None and n in store.by_n)
        if attempt.group is not None and logged:
            groups.setdefault(attempt.group, []).append(n)
    places = {event.seq: place for place, event in enumerate(store.shadow)}
    for numbers in groups.values():
        there = [places[store.by_n[n].seq] for n in numbers if n in store.by_n]
        require(len(there) in {0, len(numbers)}, "half of a group", numbers)
        require(
            there == list(range(there[0], there[0] + len(there))) if there else True,
            "a group is torn", numbers, there,
        )  # fmt: skip


def check_facts(store, attempts):
    """Check that each logged write and what is remembered of it are there together, or neither."""
    for n, attempt in attempts.items():
        if attempt.fact and attempt.logged:
            there = store.knows(attempt.caller, str(n))
            require(there == (n in store.by_n), "a write without its fact, or a fact alone", n)


def check_fold(store, tables):
    """Check that the records of the store are the fold of all that was committed."""
    head = store.shadow[-1].seq if store.shadow else 0
    held = {record.topic: record for table in (*tables, None) for record in store.all_held(table)}
    for topic in store.changes:
        wanted, found = store.state(topic, head), held.pop(topic, None)
        wanted_seq, found_seq = (item and item.seq for item in (wanted, found))
        require(wanted_seq == found_seq, "the record is not the last event", topic, found)
        if wanted is not None:
            require(
                number_of(wanted.payload, wanted.properties)
                == number_of(found.payload, found.properties),
                "the record is another value", topic,
            )  # fmt: skip
    require(not held, "records that nobody wrote", held)
