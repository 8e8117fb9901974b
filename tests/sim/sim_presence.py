"""When a session is there, and when a will is due, as the client of them can know it.

Both are windows in time: what is sent is processed between then and its answer, and a kill may
come before what was decided is on the disk.
"""

from math import inf

from sim_checks import LATER, require

SLACK_SECONDS = 2
"""More than the disk of a simulation ever takes, if it does not fail."""


class Presence:
    """When the session of one client ends: not before ``earliest``, not after ``latest``."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.earliest = self.latest = -inf
        self.seconds = ()
        """How long it may outlive its connection: what was said, if that was processed."""
        self.left_at = -inf
        self.link = None
        """The connection that holds it; None while nobody does."""

    def opens(self, *, clean):
        """Note that CONNECT is sent; return whether what is there then can be known."""
        self._settle()
        self.sent_at = self.world.loop.time()
        self.clean = clean

    def opened(self, link, seconds, *, present):
        """Check Session Present, and note that the session is held by a connection."""
        now = self.world.loop.time()
        if self.link is not None and self.link is not link:  # it is taken over, or ends with that
            self.earliest, self.latest = self.sent_at + min(self.seconds), now + max(self.seconds)
            self.latest = -inf if not max(self.seconds) else self.latest
        if self.clean or self.sent_at > self.latest:
            require(not present, f"{self.name}: a session that cannot be", self.latest)
        elif now < self.earliest:
            require(present, f"{self.name}: its session is gone", self.earliest)
        self.link, self.seconds = link, (seconds,)
        self.earliest = self.latest = inf

    def failed(self, link, seconds):
        """Note that CONNECT was not answered: it may have been processed, or not."""
        self._settle()
        if self.link is not None:  # an earlier connection still has it
            return
        at = link.ended_at if link.ended_at is not None else self.world.loop.time()
        # It may have been processed, and then said how long the session lasts.
        self.earliest = -inf if self.clean else min(self.earliest, at + seconds)
        self.latest, self.left_at = max(self.latest, at + seconds), at
        self.seconds = (*self.seconds, seconds)

    def says_goodbye(self, seconds):
        """Note that DISCONNECT is sent with another time to live."""
        self.seconds = (*self.seconds, seconds)

    def _settle(self):
        """Note when the connection ended."""
        link = self.link
        if link is None or link.ended_at is None:
            return
        at = link.ended_at
        said = self.seconds
        if len(said) > 1:
            said = said[-1:] if link.goodbye_heard else said[:-1]
        self.earliest, self.latest, self.link = at + min(said), at + max(said), None
        self.left_at = at

    def killed(self, now):
        """Note that a server was killed and is back."""
        self._settle()
        if self.link is not None:
            self.earliest, self.latest = now + min(self.seconds), now + max(self.seconds)
            self.link = None
            self.left_at = now
        elif now - self.left_at < SLACK_SECONDS or self.world.store.faults:
            # That its client had left may not have been on the disk.
            self.earliest = min(self.earliest, now + min(self.seconds))
            self.latest = max(self.latest, now + max(self.seconds))

    @property
    def certain(self):
        """Whether the session is there now: True, False, or None if nobody can know."""
        self._settle()
        now = self.world.loop.time()
        if self.link is not None or now < self.earliest:
            return True
        return False if now > self.latest else None


class Testament:
    """The will of one connection: when it must be published, when it may, and when it was.

    ``due`` is None as long as the connection lasts, then the first and the last moment at which it
    may be published; ``certain`` is whether it must be (True), must not (False), or may (None).
    """

    def __init__(self, world, name, n, delay, expiry):
        self.world = world
        self.name = f"{name}: the will {n}"
        self.n = n
        self.delay = delay
        self.seconds = min(delay, expiry)
        """How long it waits after the connection was lost."""
        self.link = None
        self.due = None
        self.certain = None
        """Until CONNACK nobody knows whether it is in force."""
        self.times = []
        self.forgotten_at = None
        """When its client said that it is not wanted."""

    def opened(self, link):
        """Note that the connection is made: from now on it is in force."""
        self.link, self.certain = link, True

    def told(self, at):
        """Note that it was published."""
        self.times.append(at)

    def _settle(self):
        link = self.link
        if link is None or self.due is not None or link.ended_at is None:
            return
        if link.goodbye_heard and link.goodbye.reason == 0:
            self.certain, self.forgotten_at = False, link.ended_at
        elif link.goodbye_heard and link.goodbye.properties:  # it does not outlast its session
            self.seconds = min(self.delay, link.goodbye.properties["session_expiry_interval"])
        self.due = link.ended_at + self.seconds, link.ended_at + self.seconds

    def killed(self, now):
        """Note that a server was killed and is back: what was not on disk happens later."""
        self._settle()
        if self.times or self.n in self.world.store.by_n:
            return
        if self.certain is False and self.forgotten_at is not None:
            soon = now - self.forgotten_at < SLACK_SECONDS or self.world.store.faults
            self.certain = None if soon else False  # that it is not wanted may not be on the disk
            return
        if self.due is None:
            self.due = now + self.seconds, now + self.seconds
            if self.link is not None and self.link.goodbye:
                self.certain = None
        elif self.due[1] + SLACK_SECONDS > now or self.world.store.faults:
            self.due = self.due[0], max(self.due[1], now + self.seconds)
            # A message that is not stored is lost with the server, and so is, if another will has
            # taken its place on the disk, one that the disk refused.
            kept = self.world.attempts[self.n].logged in {True, LATER}
            if not kept or (self.world.store.faults and self.due[0] <= now):
                self.certain = None

    def succeeded(self, sent_at, *, clean):
        """Note that a later connection of the client was made, or may have been."""
        self._settle()
        now = self.world.loop.time()
        if self.due is None:  # it took the session over
            self.due = sent_at + self.seconds, now + self.seconds
        if self.due[1] < sent_at or self.certain is False:
            return
        if clean:  # the session ends now, and the will does not outlast it
            self.due = min(self.due[0], sent_at), min(self.due[1], now)
        elif self.due[0] > now:
            self.certain = False
        else:
            self.certain = None if self.due[1] > sent_at else self.certain

    def perhaps_succeeded(self, sent_at):
        """Note that a later CONNECT was sent and not answered."""
        self._settle()
        if self.certain and (self.due is None or self.due[1] >= sent_at):
            self.certain = None

    def finish(self):
        """Check that it was published when it was due, and only then."""
        self._settle()
        stored = self.n in self.world.store.by_n
        count = max(len(self.times), stored)
        require(len(self.times) < 2, f"{self.name} was published twice", self.times)
        if self.certain is None:
            return
        if not self.certain:
            require(not count, f"{self.name} was published for nothing", self.times, self.due)
            return
        if self.due is None:
            require(not count, f"{self.name} was published too early", self.times)
            return
        require(count, f"{self.name} was not published", self.due)
        for at in self.times:
            first, last = self.due
            require(at > first - 0.001, f"{self.name} was published too early", at, self.due)
            fine = at <= last + SLACK_SECONDS or self.world.store.faults
            require(fine, f"{self.name} was published too late", at, self.due)
