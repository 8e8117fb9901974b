"""What a durable session must get: the promises of QoS 1 and 2, whatever is cut, killed or refused.

It knows only what the session's client knows: which filters it asked for, which were granted, what
came. Where a client cannot know (a SUBSCRIBE that nobody answered), either is right.
"""

from sim_checks import require
from sim_store import number_of

from rowcast.core.events import DELETE
from rowcast.core.limits import SESSION_SAVE_SECONDS
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter

SLACK_SECONDS = 2
"""More than the disk of a simulation ever takes, if it does not fail."""


class Wish:
    """One filter of a session: the least and the most QoS that it may have; -1 is none at all."""

    __slots__ = ("handling", "high", "local", "low", "topics")

    def __init__(self, text):
        self.topics = TopicFilter(text)
        self.low = self.high = -1
        self.local = {True}
        """Whether it may select what the client itself published."""
        self.handling = 0
        """Retain Handling: 0 asks for the current records."""


class Arrival:
    """The first time that a message came: when it was sent at the latest."""

    __slots__ = ("at", "packet_id", "qos", "seq")

    def __init__(self, packet, at):
        self.packet_id = packet.packet_id
        self.qos = packet.qos
        self.at = at
        self.seq = 0


class Mailbox:
    """One session from its beginning to its end: what it is owed, and what came."""

    def __init__(self, world, name, *, tells):
        self.world = world
        self.store = world.store
        self.name = name
        self.tells = tells
        self.wishes = {}
        self.index = world.server.tap.index
        self.allowed = {}
        """Numbers of what may come: the filters that select it."""
        self.owed = {}
        """Numbers of what must come: the filters that make it so."""
        self.quality = {}
        """Numbers to the least and the most QoS with which they may come."""
        self.leftover = set()
        """Numbers of what may be in flight for a filter that has ended."""
        self.arrivals = {}
        self.invitations = {}
        """Topics to how often their record was asked for."""
        self.records = {}
        """Numbers to how often they came as current records, with QoS 2."""
        self.reached = {}
        """Topics to the number in the log that has come as an event."""
        self.known = {}
        """Topics to the number of the newest that is known of, also as a current record."""

    # -- what the client does ----------------------------------------------------------------------

    def asks(self, text, qos, *, no_local, handling):
        """Note that SUBSCRIBE is sent."""
        self._look()
        known = self.wishes.get(text)
        wish = self.wishes[text] = known or Wish(text)
        wish.low, wish.high = min(wish.low, qos), max(wish.high, qos)
        wish.local = {not no_local} | (wish.local if known else set())
        wish.handling = handling
        if not wish.low:  # what waits may come with QoS 0 now, which promises nothing
            self._excuse(text)
        self._widen(wish.topics)
        if handling != 2:
            self.invitations[text] = self.invitations.get(text, 0) + 1

    def granted(self, text, qos, *, no_local):
        """Note that SUBACK came."""
        self._look()
        wish = self.wishes[text]
        wish.low = wish.high = qos
        wish.local = {not no_local}

    def leaves(self, text):
        """Note that UNSUBSCRIBE is sent: what waits for this filter alone need not come."""
        self._look()
        wish = self.wishes[text]
        wish.low = -1
        self._widen(wish.topics)
        self._excuse(text)

    def _excuse(self, text):
        """Note that nothing is owed for a filter any more."""
        for n in [n for n, texts in self.owed.items() if text in texts]:
            self.owed[n].discard(text)
            if not self.owed[n]:
                del self.owed[n]

    def left(self, text):
        """Note that UNSUBACK came: nothing new may come for this filter."""
        self._look()
        del self.wishes[text]
        for n in [n for n, texts in self.allowed.items() if text in texts]:
            self.allowed[n].discard(text)
            if not self.allowed[n]:
                del self.allowed[n]
                self.leftover.add(n)

    def wants(self, topic):
        """Tell whether a message of QoS 1 must be kept for it; None if nobody can know."""
        lows = [wish.low for wish in self.wishes.values() if wish.topics.matches(topic)]
        highs = [wish.high for wish in self.wishes.values() if wish.topics.matches(topic)]
        if max(lows, default=-1) > 0:
            return True
        return None if max(highs, default=-1) > 0 or self.leftover else False

    # -- what it is owed ---------------------------------------------------------------------------

    def _look(self, until=None):
        """Note all that was announced since the filters were changed last."""
        shadow = self.store.shadow
        if until is None:
            server = self.world.server
            until = server.tap.index if server.alive else len(shadow)
        while self.index < until:
            self._note(shadow[self.index])
            self.index += 1

    def _note(self, event):
        n = number_of(event.payload, event.properties)
        wishes = list(self._selecting(event))
        if n is None or not wishes:
            return
        self.allowed.setdefault(n, set()).update(wish.topics.text for wish in wishes)
        own = event.client == self.name
        sure = {w.topics.text for w in wishes if w.low > 0 and not (own and False in w.local)}
        unseen = n not in self.arrivals and not event.expires_at
        if sure and event.qos and unseen and (self.tells or event.kind != DELETE):
            self.owed.setdefault(n, set()).update(sure)
        self._range(n, event)

    def _selecting(self, event):
        for wish in self.wishes.values():
            own = event.client == self.name and True not in wish.local
            if wish.topics.matches(event.topic) and not own:
                yield wish

    def _range(self, n, event):
        wishes, own = list(self._selecting(event)), event.client == self.name
        lows = [wish.low for wish in wishes if not (own and False in wish.local)]
        low = min(event.qos, max((0, *lows)))
        high = min(event.qos, max(0, *(wish.high for wish in wishes), -1))
        known = self.quality.get(n, (low, high))
        self.quality[n] = min(low, known[0]), max(high, known[1])

    def _widen(self, topics):
        """A message may come as the filters are, or as they were when it was sent."""
        for n in self.allowed:
            event = self.store.by_n[n]
            if n not in self.arrivals and topics.matches(event.topic):
                self._range(n, event)

    # -- what comes --------------------------------------------------------------------------------

    def came(self, packet, n, server):
        """Take a message that the client had not; it may have outlived its server on the way."""
        wanted = any(wish.topics.matches(packet.topic) for wish in self.wishes.values())
        require(wanted or packet.dup, f"{self.name}: a message of no filter", packet)
        if n is None:
            return
        self._look()
        if n not in self.allowed and n in self.store.by_n:
            self._look(len(self.store.shadow))  # a page of the log runs ahead of the bus
        if packet.retain:
            self._record(packet, n)
        elif n not in self.arrivals:
            self._first(packet, n, min(self.world.loop.time(), server.ended_at))
        else:
            self._again(packet, n)
        self.owed.pop(n, None)

    def _matching(self, topic):
        return [wish for wish in self.wishes.values() if wish.topics.matches(topic)]

    def _first(self, packet, n, at):
        self.arrivals[n] = Arrival(packet, at)
        copies = self.store.copies.get(n)
        if copies is None:  # it was not logged
            return
        if n not in self.allowed:
            own = (
                any(
                    True in wish.local and wish.topics.matches(packet.topic)
                    for wish in self.wishes.values()
                )
                and copies[0].client == self.name
            )  # No Local may have been asked for, and no more
            fine = (n in self.leftover and packet.dup) or own
            require(fine, f"{self.name}: after its filter had ended", packet)
        else:
            low, high = self.quality[n]
            # One filter may have begun anew, or later, and another goes on.
            apart = len(self._matching(packet.topic)) > 1
            apart &= self.known.get(packet.topic, 0) >= copies[0].seq  # one has sent the record
            low = 0 if self.store.trims or apart else low
            require(low <= packet.qos <= high, f"{self.name}: another QoS", packet, low, high)
        reached = self.reached.get(packet.topic, 0)
        later = [event.seq for event in copies if event.seq > reached]
        require(later, f"{self.name}: out of order", packet, f"after {reached}")
        self.reached[packet.topic] = self.arrivals[n].seq = later[0]
        self.known[packet.topic] = max(later[0], self.known.get(packet.topic, 0))

    def _again(self, packet, n):
        first = self.arrivals[n]
        if len(self.store.copies.get(n, ())) > 1:
            return
        require(first.qos and packet.qos, f"{self.name}: QoS 0 twice", packet)
        require(first.qos == 1, f"{self.name}: QoS 2 twice", packet)
        killed = [at for at in self.world.kills if at >= first.at]
        if not killed:
            require(packet.dup, f"{self.name}: again without DUP", packet)
            same = packet.packet_id == first.packet_id
            require(same, f"{self.name}: again with another identifier", packet, first.packet_id)
        elif not packet.dup and not self.store.faults:
            late = min(killed) - first.at <= SESSION_SAVE_SECONDS + SLACK_SECONDS
            require(late, f"{self.name}: what was sent long ago came again", packet, first.at)

    def _record(self, packet, n):
        """Take a current record: not more often than was asked for, if it is of QoS 2."""
        if n in self.store.by_n:
            seq = self.store.by_n[n].seq
            self.known[packet.topic] = max(seq, self.known.get(packet.topic, 0))
        if packet.qos < 2:
            return
        count = self.records[n] = self.records.get(n, 0) + 1
        asked = sum(
            times for text, times in self.invitations.items() if text_matches(text, packet.topic)
        )
        fine = count <= asked or self.store.trims
        require(fine, f"{self.name}: a record of QoS 2 came again", packet, count, asked)

    # -- the end -----------------------------------------------------------------------------------

    def finish(self):
        """Check that nothing is missing, now that everything is quiet."""
        self._look()
        for n in self.owed:
            lost = [text for text in self.owed[n] if not self._trimmed(text, n)]
            require(not lost, f"{self.name}: never arrived", self.store.by_n[n], lost)
        if not self.store.trims:
            self._check_records()

    def _trimmed(self, text, n):
        """Tell whether a part of the log that the filter reaches was forgotten before it was read.

        Then it begins anew with the current records, past the messages of all tables it reaches.
        """
        sources = self.world.server.reader.sources(TopicFilter(text))
        seq = self.store.by_n[n].seq
        return any(
            upto > self._position(at, seq)
            for at, source, upto in self.store.gone
            if any(_meet(source, other) for other in sources)
        )

    def _position(self, at, before):
        """Return how far it has surely read the log at a time, in the eyes of the server too."""
        earlier = (item for item in self.arrivals.values() if item.at < at and item.seq < before)
        return max((item.seq for item in earlier if not self._taken_back(item)), default=0)

    def _taken_back(self, arrival):
        """Tell whether a kill may have come before the place after an arrival was saved."""
        killed = min((at for at in self.world.kills if at >= arrival.at), default=None)
        return killed is not None and killed - arrival.at <= SESSION_SAVE_SECONDS + SLACK_SECONDS

    def _check_records(self):
        """Check that it has heard of each current record that its filters select."""
        for topic, changes in self.store.changes.items():
            event = changes[-1][1]
            if event is None or not event.qos or event.expires_at or event.client == self.name:
                continue
            wishes = [wish for wish in self.wishes.values() if wish.topics.matches(topic)]
            if any(wish.low > 0 and not wish.handling for wish in wishes):
                told = self.known.get(topic, 0)
                copies = self.store.copies[number_of(event.payload, event.properties)]
                require(told >= copies[0].seq, f"{self.name}: knows no record", event, told)


def _meet(one, other):
    """Tell whether two parts of the log may hold the same events; None is all undeclared topics."""
    undeclared = not (isinstance(one, Table) or isinstance(other, Table))
    return one == other or (undeclared and None in {one, other})


def text_matches(text, topic):
    """Tell whether a filter selects a topic."""
    return TopicFilter(text).matches(topic)
