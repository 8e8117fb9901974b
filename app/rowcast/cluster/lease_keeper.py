"""Which node is to number writes: a lease that its holder renews, and others watch.

Nobody compares clocks. A node that has seen no change of the lease for its time, on its own
monotonic clock, takes it; the engine lets one of several have it. A holder that could not renew it
for that time does not count on it any longer. Between the two both may believe to hold it; the log
takes the entries of one (``log/engine.py``).
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Self, cast

from rowcast.core.errors import Code, Error
from rowcast.log.engine import Engine, Lease

log = logging.getLogger("rowcast.cluster")

OTHER_SCHEMA_TIMES: Final = 10
"""How many times of the lease a node waits longer that has another schema than the last holder: a
node with the same one is to take it, if there is any. So a change of the schema takes over once no
node has the former one."""
LOOKS: Final = 6
"""How often the lease is renewed and looked at in its time: some answers may be lost or late."""


class Holder(NamedTuple):
    """What a node writes into the lease."""

    node: str
    """Its name."""
    life: str
    """This run of it: no other has this name."""
    host: str
    """Where it listens for followers."""
    port: int
    schema: str = ""
    """A digest of its schema."""

    def pack(self) -> bytes:
        """Return it as bytes."""
        return json.dumps(self).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Self | None:
        """Read it; None where nobody holds the lease, or what is there cannot be read."""
        try:
            node, life, host, port, schema = cast("list[object]", json.loads(data))
            return cls(str(node), str(life), str(host), int(cast("int", port)), str(schema))
        except (ValueError, TypeError):
            return None


class LeaseKeeper:
    """One node's view of the lease; ``own`` is what it writes, ``seconds`` the lease's time.

    ``changed`` is called on the keeper's thread when this node begins or ends to hold it, and when
    another node does.
    """

    def __init__(
        self,
        engine: Engine,
        own: Holder,
        seconds: float,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._own, self._seconds = engine, own, seconds
        self._changed, self._clock = changed, clock
        self._packed = own.pack()
        self._version = -1
        self._since = clock()
        """When the lease was renewed, or seen to change."""
        self.held = False
        """Whether this node counts on it."""
        self.holder: Holder | None = None
        """Who has it, as far as is known here."""
        self._last: Holder | None = None
        """Who has written it last, also to give it up."""
        self._not_before = clock()
        """When this node may take it again."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self) -> None:
        """Renew the lease, or look at it, once."""
        before = self.held, self.holder
        now = self._clock()
        try:
            if self.held:
                self._renew(now)
            else:
                self._look(now)
        except Exception as error:  # noqa: BLE001 - whatever it is, others must be able to take it
            known = isinstance(error, Error)
            log.log(logging.DEBUG if known else logging.ERROR, "the lease: %s", error)
            if now - self._since > self._seconds:
                self.held = False
        if (self.held, self.holder) != before:
            self._changed()

    def _renew(self, now: float) -> None:
        try:
            self._version = self._engine.take_lease(self._version, self._packed).version
        except Error as error:
            if error.code is not Code.CONFLICT:
                raise
            lease = self._engine.lease()  # an answer was lost, or another node was first
            if lease.holder != self._packed:
                self.held = False
            self._version, self._last = lease.version, Holder.unpack(lease.holder)
            self.holder = self._last
        self._since = now

    def _look(self, now: float) -> None:
        lease = self._engine.lease()
        if lease.version != self._version:
            self._version, self._since = lease.version, now
            self._last = Holder.unpack(lease.holder)
            self.holder = self._last if self._last is not None and self._last.node else None
        if now >= self._not_before and (
            lease.holder == self._packed or now - self._since > self._patience(lease)
        ):
            self._version = self._engine.take_lease(lease.version, self._packed).version
            self._since, self.held, self.holder = now, True, self._own
            self._last = self._own

    def _patience(self, lease: Lease) -> float:
        """Return how long the lease must not have changed before this node takes it."""
        last = self._last
        if last is not None and last.schema != self._own.schema:
            return self._seconds * OTHER_SCHEMA_TIMES
        released = last is None or not last.node
        return -1.0 if released or not lease.version else self._seconds

    # -- the thread --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to keep it."""
        self._thread = threading.Thread(target=self._run, name="rowcast-lease", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.step()
            self._stopped.wait(self._seconds / LOOKS)

    def give_up(self) -> None:
        """Let another node have it, and take it no earlier than after its time; blocks."""
        self._not_before = self._clock() + self._seconds
        if self.held:
            self.held = False
            try:
                free = Holder("", "", "", 0, self._own.schema)
                self._engine.take_lease(self._version, free.pack())
            except Error as error:
                log.debug("the lease was not given up, and runs out: %s", error.message)

    def stop(self) -> None:
        """Let another node have it at once, and take it no more; blocks."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self.give_up()
