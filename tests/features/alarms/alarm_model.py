"""A second, naive alarm: steps through time a tenth of a second at a time, and looks at everything.

It shares nothing with ``features/alarms/state_machine.py`` but what it is to do. Times are whole
tenths of seconds.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Periods:
    """In tenths of seconds; ``flaps`` is a number of raises."""

    hold: int
    cleared: int = 1001
    flap: int = 607
    flaps: int = 5


@dataclass
class Model:
    """One alarm of one record; ``told`` is what others were told, as tuples."""

    periods: Periods
    hysteresis: bool
    now: int = 0
    temp: int | None = None
    blocked_since: int | None = None
    on: bool = False
    cleared_at: int | None = None
    raised_at: int | None = None
    acked: bool = False
    shelf_end: int | None = None
    raises: list = field(default_factory=list)
    count: int = 0
    flapping: bool = False
    calm_since: int | None = None
    told: list = field(default_factory=list)

    # -- time --------------------------------------------------------------------------------------

    def until(self, when):
        while self.now < when:
            self.now += 1
            self.tick()

    def tick(self):
        if self.shelf_end == self.now:
            self.shelf_end = None
            self.tell()
        if self.blocked_since is not None and self.now - self.blocked_since >= self.periods.hold:
            self.turn_on()
        if self.calm_since is not None and self.now - self.calm_since >= self.periods.flap:
            self.turn_off()
        is_over = (
            self.cleared_at is not None
            and self.blocked_since is None
            and self.shelf_end is None
            and self.now - self.cleared_at >= self.periods.cleared
        )
        if is_over:
            self.forget()

    # -- operations --------------------------------------------------------------------------------

    def write(self, temp):
        hot = temp > 80
        cool = temp < 75 if self.hysteresis else not hot
        if self.on:
            self.write_on(hot, cool)
        elif hot and self.blocked_since is None:
            self.blocked_since = self.now
            if self.periods.hold == 0:
                self.turn_on()
        elif not hot:
            self.blocked_since = None
            self.tick()  # one that was cleared long ago is over now
            self.reset_if_normal()

    def write_on(self, hot, cool):
        if hot:
            self.calm_since = None
        elif cool:
            self.cool()

    def cool(self):
        """Turn it off, or let a flapping one rest; return whether that was told."""
        if self.flapping:
            if self.calm_since is None:
                self.calm_since = self.now
            return False
        recent = [at for at in self.raises if self.now - at < self.periods.flap]
        if len(recent) >= self.periods.flaps:
            self.flapping, self.calm_since = True, self.now
            self.tell_unless_shelved()
        else:
            self.turn_off()
        return True

    def delete(self):
        shelved, self.shelf_end, self.blocked_since = self.shelf_end is not None, None, None
        told = self.on and self.cool()
        if shelved and not told:
            self.tell()
        self.tick()
        self.reset_if_normal()

    def acknowledge(self):
        if not self.changeable():
            return
        if self.cleared_at is not None and not self.on and self.shelf_end is None:
            self.forget()
        elif not self.acked:
            self.acked = True
            self.tell()

    def shelve(self, tenths):
        if self.changeable():
            self.shelf_end = self.now + tenths
            self.tell()

    def unshelve(self):
        if self.shelf_end is not None:
            self.shelf_end = None
            self.tell()
            self.tick()

    def changeable(self):
        """Whether it is neither normal nor merely pending."""
        is_pending = self.blocked_since is not None
        return (
            self.shelf_end is not None
            or self.on
            or (self.cleared_at is not None and not is_pending)
        )

    # -- changes -----------------------------------------------------------------------------------

    def turn_on(self):
        self.on, self.blocked_since, self.cleared_at = True, None, None
        self.raised_at, self.acked = self.now, False
        self.raises.append(self.now)
        self.count += 1
        self.tell_unless_shelved()

    def turn_off(self):
        self.on, self.flapping, self.calm_since = False, False, None
        self.cleared_at = self.now
        self.tell_unless_shelved()

    def forget(self):
        self.cleared_at = None
        self.told.append(("normal",))
        self.reset_if_normal()

    def reset_if_normal(self):
        if not self.on and self.cleared_at is None and self.blocked_since is None:
            self.raises, self.count, self.acked, self.raised_at = [], 0, False, None

    def tell_unless_shelved(self):
        if self.shelf_end is None:
            self.tell()

    def tell(self):
        self.told.append((self.state, self.count, self.flapping, self.raised_at, self.cleared_at,
                          self.shelf_end))  # fmt: skip

    @property
    def state(self):
        if self.shelf_end is not None:
            return "shelved"
        if self.on:
            return "acknowledged" if self.acked else "raised"
        return "cleared"


def trace_of(chance, length=60):
    """Return random operations: the time of each in whole seconds, its name, its arguments."""
    at, operations = 0, []
    for _ in range(length):
        at += chance.choice((1, 1, 2, 3, 7, 20, 45, 120))
        name = chance.choices(
            ("write", "delete", "acknowledge", "shelve", "unshelve"), (60, 4, 6, 4, 3)
        )[0]
        arguments = ()
        if name == "write":
            arguments = (chance.choice((70, 70, 78, 85, 85)),)
        elif name == "shelve":
            arguments = (chance.choice((34, 204, 904)),)
        operations.append((10 * at, name, *arguments))
    return operations
