"""A loop with a clock of its own, and a disk for texts that a test may break or hold."""

from rowcast.core.errors import Code, Error


class Timer:
    """A call that is still to come."""

    def __init__(self, when, call):
        self.when, self.call = when, call
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class Loop:
    """The part of a loop that the reporter uses."""

    def __init__(self):
        self.now = 100.0
        self.timers = []

    def time(self):
        return self.now

    def call_soon(self, call):
        return self.call_later(0, call)

    def call_later(self, delay, call):
        timer = Timer(self.now + delay, call)
        self.timers.append(timer)
        return timer

    @property
    def due(self):
        """The timers that are still to come, in order."""
        self.timers = [timer for timer in self.timers if not timer.cancelled]
        return sorted(self.timers, key=lambda timer: timer.when)

    def turn(self):
        """Call what is due now."""
        self.advance(0)

    def advance(self, seconds):
        """Let time pass, calling what becomes due in order."""
        end = self.now + seconds
        while (due := self.due) and due[0].when <= end:
            self.timers.remove(due[0])
            self.now = due[0].when
            due[0].call()
        self.now = end


class Disk:
    """Takes texts, refuses them, or keeps their writers waiting."""

    def __init__(self, loop):
        self._loop = loop
        self.full = False
        self.held = None
        self.texts = {}
        self.writes = []
        """When, where and what."""

    def write(self, topic, text, written):
        self.writes.append((round(self._loop.now, 6), topic, text))
        if self.held is not None:
            self.held.append((topic, text, written))
        else:
            self._end(topic, text, written)

    def _end(self, topic, text, written):
        if self.full:
            written(Error(Code.BUSY, "the disk is full"))
            return
        self.texts[topic] = text
        written(None)

    def hold(self):
        self.held = []

    def release(self):
        held, self.held = self.held, None
        for item in held:
            self._end(*item)

    def times(self, topic):
        """When a topic was written."""
        return [at for at, name, _ in self.writes if name == topic]
